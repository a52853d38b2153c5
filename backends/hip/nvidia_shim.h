// Makes HIP 5's headers for the NVIDIA platform compile with CUDA 13, which dropped things that they still mention:
// members of the properties structure, texture references, and signatures without locations or edge data. Included
// before everything else. The project calls nothing here except through those headers; calls that cannot work return an
// error.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

struct LegacyDeviceProperties : cudaDeviceProp {
  int clockRate, memoryClockRate, computeMode, cooperativeMultiDeviceLaunch, kernelExecTimeoutEnabled;
};
inline cudaError_t cudaGetDeviceProperties(LegacyDeviceProperties* properties, int device) {
  const cudaError_t status = cudaGetDeviceProperties(static_cast<cudaDeviceProp*>(properties), device);
  cudaDeviceGetAttribute(&properties->clockRate, cudaDevAttrClockRate, device);
  cudaDeviceGetAttribute(&properties->memoryClockRate, cudaDevAttrMemoryClockRate, device);
  cudaDeviceGetAttribute(&properties->computeMode, cudaDevAttrComputeMode, device);
  cudaDeviceGetAttribute(&properties->kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout, device);
  properties->cooperativeMultiDeviceLaunch = 0;
  return status;
}
#define cudaDeviceProp LegacyDeviceProperties
#define cudaDevAttrCooperativeMultiDeviceLaunch static_cast<cudaDeviceAttr>(96)

inline cudaMemLocation location_of(int device) {
  cudaMemLocation location{};
  location.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}
inline cudaError_t cudaMemAdvise(const void* data, size_t bytes, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise(data, bytes, advice, location_of(device));
}
inline cudaError_t cudaMemPrefetchAsync(const void* data, size_t bytes, int device, cudaStream_t stream) {
  return cudaMemPrefetchAsync(data, bytes, location_of(device), 0u, stream);
}
inline CUresult cuCtxCreate_v4(CUcontext* context, unsigned flags, CUdevice device) {
  return cuCtxCreate_v4(context, static_cast<CUctxCreateParams*>(nullptr), flags, device);
}

inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                            size_t count) {
  return cudaGraphAddDependencies(graph, from, to, static_cast<const cudaGraphEdgeData*>(nullptr), count);
}
inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                               const cudaGraphNode_t* to, size_t count) {
  return cudaGraphRemoveDependencies(graph, from, to, static_cast<const cudaGraphEdgeData*>(nullptr), count);
}
inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
  return cudaGraphGetEdges(graph, from, to, static_cast<cudaGraphEdgeData*>(nullptr), count);
}
inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependencies(node, nodes, static_cast<cudaGraphEdgeData*>(nullptr), count);
}
inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependentNodes(node, nodes, static_cast<cudaGraphEdgeData*>(nullptr), count);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count,
                                                       unsigned flags) {
  return cudaStreamUpdateCaptureDependencies(stream, nodes, static_cast<const cudaGraphEdgeData*>(nullptr), count,
                                             flags);
}
inline cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph,
                                               const cudaGraphNode_t** nodes, size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, static_cast<const cudaGraphEdgeData**>(nullptr),
                                  count);
}

template <class T, int kDimensions, cudaTextureReadMode kMode>
struct texture {};
template <typename... Arguments>
cudaError_t cudaBindTexture(Arguments&&...) {
  return cudaErrorNotSupported;
}
template <typename... Arguments>
cudaError_t cudaBindTexture2D(Arguments&&...) {
  return cudaErrorNotSupported;
}
template <typename... Arguments>
cudaError_t cudaBindTextureToArray(Arguments&&...) {
  return cudaErrorNotSupported;
}
template <typename... Arguments>
cudaError_t cudaUnbindTexture(Arguments&&...) {
  return cudaErrorNotSupported;
}
template <typename... Arguments>
cudaError_t cudaGetTextureAlignmentOffset(Arguments&&...) {
  return cudaErrorNotSupported;
}
template <typename... Arguments>
cudaError_t cudaLaunchCooperativeKernelMultiDevice(Arguments&&...) {
  return cudaErrorNotSupported;
}
