/* A library that poses as NVIDIA's driver: one device, whose memory is the host's. ECMV_FAKE_FAIL names the function
 * that fails; "no_device" removes the device. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int a_context, a_stream;
static int alive; /* contexts that are current, streams and pieces of memory that nobody has given back */
int fake_driver_alive(void) { return alive; }

static int fails(const char* what) {
  const char* fault = getenv("ECMV_FAKE_FAIL");
  return fault != NULL && strcmp(fault, what) == 0;
}
static int status_of(const char* what) { return fails(what) ? 999 : 0; }

int cuInit(unsigned flags) { return flags != 0 ? 1 : status_of("cuInit"); }
int cuGetErrorString(int status, const char** text) {
  *text = status == 999 ? "a fault that was asked for" : "another fault";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = fails("no_device") ? 0 : 1;
  return status_of("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return status_of("cuDeviceGet");
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &a_context;
  return device != 0 ? 1 : status_of("cuDevicePrimaryCtxRetain");
}
int cuCtxPushCurrent_v2(void* context) {
  if (context != &a_context) return 1;
  if (fails("cuCtxPushCurrent_v2")) return 999;
  ++alive;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = &a_context;
  --alive;
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
  if (flags != 1) return 1;
  if (fails("cuStreamCreate")) return 999;
  *stream = &a_stream;
  ++alive;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  if (stream != &a_stream) return 1;
  --alive;
  return 0;
}
int cuStreamSynchronize(void* stream) { return stream != &a_stream ? 1 : status_of("cuStreamSynchronize"); }
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes == 0) return 1;
  if (fails("cuMemAlloc_v2")) return 999;
  void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == NULL) return 2;
  memset(memory, 0xDD, bytes);
  *address = (uint64_t)(uintptr_t)memory;
  ++alive;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  free((void*)(uintptr_t)address);
  --alive;
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (stream != &a_stream) return 1;
  if (fails("cuMemcpyHtoDAsync_v2")) return 999;
  memcpy((void*)(uintptr_t)to, from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (stream != &a_stream) return 1;
  if (fails("cuMemcpyDtoHAsync_v2")) return 999;
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return 0;
}
