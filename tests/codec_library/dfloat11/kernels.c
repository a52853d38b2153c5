/* Decoding as the package dfloat11 does it on a GPU. On CUDA its own kernel runs: the file decode.ptx of the installed
 * package, which the environment variable DFLOAT11_PTX names, loaded by NVIDIA's driver. No compiler for GPUs and no
 * toolkit are needed. On the emulator the same steps, block by block and thread by thread, show on a machine without a
 * GPU that the stored bytes lead every thread to its codes. */
#define _POSIX_C_SOURCE 200809L
#include "dfloat11.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What bind() leaves. */
typedef struct {
  const uint8_t *luts, *codes, *raw, *positions, *gaps;
  void* function; /* on CUDA */
  int32_t rows_of_luts, coded_bytes, elements;
  uint32_t blocks, shared_bytes, most;
} parameters;

static parameters parameters_of(const ecmv_gpu_matrix* matrix) {
  const ecmv_gpu_section* const* s = matrix->sections;
  parameters p;
  memset(&p, 0, sizeof(p));
  p.luts = s[LUTS]->device_bytes;
  p.codes = s[CODES]->device_bytes;
  p.raw = s[SIGN_MANTISSA]->device_bytes;
  p.positions = s[POSITIONS]->device_bytes;
  p.gaps = s[GAPS]->device_bytes;
  p.rows_of_luts = (int32_t)(s[LUTS]->byte_count / ROW);
  p.coded_bytes = (int32_t)s[CODES]->byte_count;
  p.elements = (int32_t)s[SIGN_MANTISSA]->byte_count;
  p.blocks = (uint32_t)((p.coded_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
  memcpy(&p.most, s[HEADER]->host_bytes, 4);
  /* A counter a thread and one more, then the elements of a block. */
  p.shared_bytes = 4 * BLOCK_THREADS + 4 + 2 * p.most;
  return p;
}

/* ------------------------------------------------------------------------------------------------------------- CUDA */

static const char* kernel_file(void) { return getenv("DFLOAT11_PTX"); }

/* The functions of the driver that are needed. Results are CUresult, 0 for success. */
typedef struct {
  int (*current)(void** context);
  int (*load)(void** module, const char* file);
  int (*find)(void** function, void* module, const char* name);
  int (*set)(void* function, int attribute, int value);
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** more);
  int (*text)(int result, const char** text);
} driver;
enum { MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 }; /* CUfunction_attribute */

static int symbol(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
  return found != NULL;
}

/* NULL where there is none. Never closed. */
static const driver* open_driver(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static driver opened;
  static int state = 0; /* 1: opened, -1: there is none */
  pthread_mutex_lock(&mutex);
  if (state == 0) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    state =
        library != NULL && symbol(library, "cuCtxGetCurrent", &opened.current) &&
                symbol(library, "cuModuleLoad", &opened.load) && symbol(library, "cuModuleGetFunction", &opened.find) &&
                symbol(library, "cuFuncSetAttribute", &opened.set) &&
                symbol(library, "cuLaunchKernel", &opened.launch) && symbol(library, "cuGetErrorString", &opened.text)
            ? 1
            : -1;
  }
  pthread_mutex_unlock(&mutex);
  return state == 1 ? &opened : NULL;
}

/* A sentence of this thread. */
static const char* failed(const driver* cuda, const char* what, int result) {
  static _Thread_local char sentence[300];
  const char* text = NULL;
  if (cuda->text(result, &text) != 0 || text == NULL) text = "unknown";
  snprintf(sentence, sizeof(sentence), "%s failed in NVIDIA's driver: %.200s.", what, text);
  return sentence;
}

/* The kernel in the context that is current. A module is loaded once a context and never unloaded. */
static const char* find_kernel(const driver* cuda, void** function) {
  enum { MOST = 64 };
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static struct { void *context, *function; } known[MOST];
  static int count = 0;
  void *context = NULL, *module = NULL;
  int result = cuda->current(&context);
  if (result != 0 || context == NULL) return failed(cuda, "Asking for the current context", result);
  pthread_mutex_lock(&mutex);
  *function = NULL;
  for (int i = 0; i < count; ++i)
    if (known[i].context == context) *function = known[i].function;
  if (*function == NULL) {
    result = cuda->load(&module, kernel_file());
    if (result == 0) result = cuda->find(function, module, "decode");
    if (result == 0 && count < MOST) known[count].context = context, known[count++].function = *function;
  }
  pthread_mutex_unlock(&mutex);
  return result == 0 ? NULL : failed(cuda, "Loading the kernel that DFLOAT11_PTX names", result);
}

const char* dfloat11_refuses(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy) {
  (void)policy;
  if (kernel_file() == NULL)
    return "The environment variable DFLOAT11_PTX does not name decode.ptx of the Python package dfloat11.";
  if (access(kernel_file(), R_OK) != 0) return "The file that DFLOAT11_PTX names cannot be read.";
  if (open_driver() == NULL) return "NVIDIA's driver, libcuda.so.1, cannot be opened here.";
  return parameters_of(matrix).shared_bytes <= device->shared_bytes
             ? NULL
             : "A block of this matrix has more elements than the shared memory of the device.";
}

const char* dfloat11_bind(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy, int64_t tokens,
                          ecmv_gpu_binding* binding) {
  const driver* const cuda = open_driver();
  (void)device, (void)policy, (void)tokens;
  if (cuda == NULL) return "NVIDIA's driver, libcuda.so.1, cannot be opened here.";
  parameters p = parameters_of(matrix);
  const char* wrong = find_kernel(cuda, &p.function);
  if (wrong != NULL) return wrong;
  memcpy(binding->parameters, &p, sizeof(p));
  return NULL;
}

const char* dfloat11_decode(const ecmv_gpu_call* call, const ecmv_decode_args* args) {
  const driver* const cuda = open_driver();
  parameters p;
  memcpy(&p, call->parameters, sizeof(p));
  void* out = args->out;
  void* arguments[] = {&p.luts, &p.codes,        &p.raw,         &p.positions, &p.gaps,
                       &out,    &p.rows_of_luts, &p.coded_bytes, &p.elements};
  if (p.blocks == 0) return NULL;
  int result = cuda->set(p.function, MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)p.shared_bytes);
  if (result == 0)
    result =
        cuda->launch(p.function, p.blocks, 1, 1, BLOCK_THREADS, 1, 1, p.shared_bytes, call->stream, arguments, NULL);
  return result == 0 ? NULL : failed(cuda, "Launching the kernel of dfloat11", result);
}

/* --------------------------------------------------------------------------------------------------------- emulator */

const char* dfloat11_bind_steps(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy,
                                int64_t tokens, ecmv_gpu_binding* binding) {
  const parameters p = parameters_of(matrix);
  (void)device, (void)policy, (void)tokens;
  memcpy(binding->parameters, &p, sizeof(p));
  return NULL;
}

/* Bytes past the end count as zeros. */
static uint32_t byte_at(const parameters* p, int64_t bit) {
  uint32_t two = 0;
  for (int64_t i = bit / 8; i < bit / 8 + 2; ++i) two = two << 8 | (i < p->coded_bytes ? p->codes[i] : 0u);
  return two >> (8 - bit % 8) & 0xFF;
}

/* The codes that start in the 8 bytes of a thread. Returns how many there are; writes the first `most` of them. */
static uint32_t walk(const parameters* p, int64_t thread, uint8_t* exponents, uint32_t most) {
  const uint8_t* lengths = p->luts + (int64_t)(p->rows_of_luts - 1) * ROW;
  const int64_t gap_bit = GAP_BITS * thread;
  const uint32_t gaps = (uint32_t)p->gaps[gap_bit / 8] << 8 | p->gaps[gap_bit / 8 + 1];
  int64_t bit = gaps >> (16 - GAP_BITS - gap_bit % 8) & ((1 << GAP_BITS) - 1);
  uint32_t count = 0;
  for (; bit < THREAD_BITS; ++count) {
    uint32_t entry = 256;
    for (int64_t depth = 0; depth < MAX_CODE_BITS / 8 && entry >= POINTERS; ++depth)
      entry = p->luts[(256 - entry) * ROW + byte_at(p, thread * THREAD_BITS + bit + 8 * depth)];
    if (exponents != NULL && count < most) exponents[count] = (uint8_t)entry;
    bit += lengths[entry];
  }
  return count;
}

/* Counting, an exclusive prefix of the counts, and decoding again: the kernel's two phases. */
const char* dfloat11_decode_steps(const ecmv_gpu_call* call, const ecmv_decode_args* args) {
  parameters p;
  uint16_t* out = args->out;
  uint8_t exponents[THREAD_BITS];
  memcpy(&p, call->parameters, sizeof(p));
  for (uint32_t block = 0; block < p.blocks; ++block) {
    uint32_t first, at, end;
    memcpy(&first, p.positions + 4 * (int64_t)block, 4);
    memcpy(&end, p.positions + 4 * (int64_t)block + 4, 4);
    at = first;
    for (int thread = 0; thread < BLOCK_THREADS; ++thread) {
      const uint32_t left = (uint32_t)p.elements - at,
                     count = walk(&p, (int64_t)block * BLOCK_THREADS + thread, exponents, left),
                     kept = count < left ? count : left;
      for (uint32_t i = 0; i < kept; ++i, ++at)
        out[at] = (uint16_t)((p.raw[at] & 0x80) << 8 | exponents[i] << 7 | (p.raw[at] & 0x7F));
    }
    if (at != end || end - first > p.most) return "A block of dfloat11 decodes to another number of elements.";
  }
  return NULL;
}
