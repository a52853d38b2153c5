/* A codec with GPU kernels that does one thing wrong, chosen by the environment as in variants.c. Its kernels are for
 * the emulator, where they are functions of the host. Without ECMV_TEST_VARIANT, a correct codec that stores the bytes
 * of the matrix unchanged. */
#define _POSIX_C_SOURCE 200809L
#include <ecmv_codec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char* variant) {
  const char* chosen = getenv("ECMV_TEST_VARIANT");
  return chosen != NULL && strcmp(chosen, variant) == 0;
}

static void crash(void) {
  volatile int* nowhere = NULL;
  *nowhere = 1;
}

/* ------------------------------------------------------------------------------------------------------------ codec */

static const char* refuses(const ecmv_matrix* matrix, const int64_t* settings) {
  (void)settings;
  return matrix->element_type == ECMV_I8 || matrix->element_type == ECMV_BF16
             ? NULL
             : "gpu_codec stores int8 and bf16 elements only.";
}

static const char* encode(const ecmv_matrix* matrix, const int64_t* settings, ecmv_output* output) {
  const int64_t bytes = matrix->rows * matrix->cols * matrix->element_bytes;
  (void)settings;
  uint8_t* small = output->add_section(output, "small", ECMV_TABLE, 3, 0);
  uint8_t* elements = output->add_section(output, "elements", ECMV_PAYLOAD, bytes, 0);
  if (small == NULL || elements == NULL) return NULL;
  memcpy(small, "abc", 3);
  if (bytes > 0) memcpy(elements, matrix->elements, (size_t)bytes);
  return NULL;
}

static const char* decode(const ecmv_compressed* matrix, void* out, int64_t out_bytes) {
  if (matrix->section_count != 2 || matrix->sections[0]->byte_count != 3 ||
      memcmp(matrix->sections[0]->bytes, "abc", 3) != 0 || matrix->sections[1]->byte_count != out_bytes)
    return "A stream of gpu_codec has three letters and a section with all elements.";
  if (out_bytes > 0) memcpy(out, matrix->sections[1]->bytes, (size_t)out_bytes);
  return NULL;
}

static const char* max_stored_bytes(int64_t rows, int64_t row_bytes, const int64_t* settings, int64_t* bytes) {
  (void)settings;
  *bytes = 3 + rows * row_bytes;
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- kernels */

typedef struct {
  const void* elements;
  int64_t element_bytes, tokens, scratch_bytes;
} parameters;

static const char* gpu_refuses(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy) {
  (void)policy;
  if (is("gpu_refuses")) return "The kernel of gpu_codec refuses every matrix.";
  /* Nothing of the device may be followed here. */
  if (matrix->sections[0]->device_bytes != NULL || matrix->sections[1]->device_bytes != NULL)
    return "A kernel was asked with memory of the device.";
  return strcmp(device->backend, "emulator") == 0 && device->wave_size >= 32 && device->multiprocessors > 0 &&
                 device->shared_bytes > 0 && strncmp(device->architecture, "wave", 4) == 0
             ? NULL
             : "The device does not say what it is.";
}

static const char* bind(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy, int64_t tokens,
                        ecmv_gpu_binding* binding) {
  const ecmv_gpu_section *small = matrix->sections[0], *elements = matrix->sections[1];
  (void)device, (void)policy;
  if (is("bind_error")) return "The kernel cannot be bound.";
  if (is("negative_scratch")) binding->scratch_bytes = -1;
  if (is("bad_flag")) binding->not_capturable = 2;
  if (is("bad_narrowing")) binding->narrowing = -1;
  if (is("bad_units")) binding->unit_cols = 16; /* without chain_cols */
  if (is("requantises_twice")) binding->requantises = 2;
  if (small->host_bytes == NULL || memcmp(small->host_bytes, "abc", 3) != 0) return "A short section is not shown.";
  if (elements->byte_count > 0 && (elements->host_bytes == NULL) != (elements->byte_count > ECMV_HOST_COPY_BYTES))
    return "Only short sections are shown to the host.";
  if (elements->byte_count > 0 && (uintptr_t)elements->device_bytes % 256 != 0) return "A section is not aligned.";
  if (binding->scratch_bytes == 0) binding->scratch_bytes = 4 * matrix->cols;
  const parameters found = {elements->device_bytes, matrix->element_bytes, tokens, binding->scratch_bytes};
  memcpy(binding->parameters, &found, sizeof(found));
  return NULL;
}

/* What goes wrong in calls of every kind; `end` is past the results. */
static const char* spoil(const ecmv_gpu_call* call, void* end) {
  const parameters* p = call->parameters;
  if (is("call_crash")) crash();
  if (is("call_exit")) exit(0);
  if (is("call_hang"))
    for (;;) sleep(1);
  if (is("call_error")) return "The launch failed: there is no such kernel.";
  if (is("past_the_end")) memset(end, 0x55, 16);
  if (is("past_the_scratch")) memset((uint8_t*)call->scratch + p->scratch_bytes, 0x55, 16);
  return call->stream == NULL && (uintptr_t)call->parameters % 16 == 0 && (uintptr_t)call->scratch % 256 == 0
             ? NULL
             : "A call is not what it should be.";
}

static const char* decode_all(const ecmv_gpu_call* call, const ecmv_decode_args* args) {
  const parameters* p = call->parameters;
  const int64_t bytes = call->rows * call->cols * p->element_bytes;
  if (bytes > 0) memcpy(args->out, p->elements, (size_t)bytes);
  if (is("wrong") && bytes > 0) *(uint8_t*)args->out ^= 1;
  return spoil(call, (uint8_t*)args->out + bytes);
}

static const char* multiply(const ecmv_gpu_call* call, const ecmv_matvec_args* args) {
  const parameters* p = call->parameters;
  const int8_t* elements = p->elements;
  for (int64_t row = 0; row < call->rows; ++row) {
    int32_t sum = is("wrong");
    for (int64_t i = 0; i < call->cols; ++i) sum += elements[row * call->cols + i] * args->x[i];
    args->y[row] = sum;
  }
  return spoil(call, args->y + call->rows);
}

static float number_of(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static const char* multiply_tokens(const ecmv_gpu_call* call, const ecmv_gpu_matmul_args* args, int bf16) {
  const parameters* p = call->parameters;
  if (args->tokens != p->tokens) return "A call multiplies other tokens than it was bound for.";
  for (int64_t token = 0; token < args->tokens; ++token)
    for (int64_t row = 0; row < call->rows; ++row) {
      float sum = (float)is("wrong");
      for (int64_t i = 0; i < call->cols; ++i) {
        const int64_t at = row * call->cols + i, of_token = token * args->x_stride + i;
        const float element = p->element_bytes == 1 ? (float)((const int8_t*)p->elements)[at]
                                                    : number_of(((const uint16_t*)p->elements)[at]);
        sum += element * (bf16 ? number_of(((const uint16_t*)args->x)[of_token]) : ((const float*)args->x)[of_token]);
      }
      args->y[token * args->y_stride + row] = sum;
    }
  return spoil(call, args->y + args->tokens * call->rows);
}
static const char* multiply_f32(const ecmv_gpu_call* call, const ecmv_gpu_matmul_args* args) {
  return multiply_tokens(call, args, 0);
}
static const char* multiply_bf16(const ecmv_gpu_call* call, const ecmv_gpu_matmul_args* args) {
  return multiply_tokens(call, args, 1);
}

/* ----------------------------------------------------------------------------------------------------------- tables */

static const char* const kPolicies[] = {"first", "second"};
static ecmv_gpu_kernel gpu_kernels[4];
static ecmv_codec codec;
static ecmv_codec_library library;

static void set_up(void) {
  const ecmv_gpu_kernel any = {.struct_bytes = sizeof(ecmv_gpu_kernel),
                               .backend = "emulator",
                               .variant = "whole",
                               .refuses = gpu_refuses,
                               .bind = bind};
  for (int i = 0; i < 4; ++i) gpu_kernels[i] = any;
  gpu_kernels[0].decode = decode_all;
  gpu_kernels[1].matvec = multiply;
  gpu_kernels[1].policies = kPolicies;
  gpu_kernels[1].policy_count = 2;
  gpu_kernels[2].matmul = multiply_f32;
  gpu_kernels[2].token_type = ECMV_F32;
  gpu_kernels[2].most_tokens = 8;
  gpu_kernels[3].matmul = multiply_bf16;
  gpu_kernels[3].token_type = ECMV_BF16;
  const ecmv_codec correct = {.struct_bytes = sizeof(ecmv_codec),
                              .id = "gpu_codec",
                              .summary = "the elements",
                              .source = "tests/codec_library",
                              .format_version = 1,
                              .refuses = refuses,
                              .encode = encode,
                              .decode = decode,
                              .max_stored_bytes = max_stored_bytes,
                              .gpu_kernels = gpu_kernels,
                              .gpu_kernel_count = 4};
  codec = correct;
  library.struct_bytes = sizeof(library);
  library.codecs = &codec;
  library.codec_count = 1;
}

static void break_tables(void) {
  ecmv_gpu_kernel *decoder = &gpu_kernels[0], *multiplier = &gpu_kernels[2];
  if (is("before_gpus")) { /* made with a header that knew no kernels of GPUs: what follows is something else */
    codec.struct_bytes = offsetof(ecmv_codec, gpu_kernels);
    codec.gpu_kernels = (const ecmv_gpu_kernel*)1;
    codec.gpu_kernel_count = 77;
  }
  if (is("null_gpu_kernels")) codec.gpu_kernels = NULL;
  if (is("older_gpu_kernel"))
    for (int i = 0; i < 4; ++i) gpu_kernels[i].struct_bytes = 64;
  if (is("bad_backend")) decoder->backend = "metal";
  if (is("cpu_backend")) decoder->backend = "simd";
  if (is("no_backend")) decoder->backend = NULL;
  if (is("no_variant")) decoder->variant = NULL;
  if (is("no_bind")) decoder->bind = NULL;
  if (is("no_function")) decoder->decode = NULL;
  if (is("two_functions")) decoder->matvec = multiply;
  if (is("kernel_twice")) gpu_kernels[1] = gpu_kernels[0];
  if (is("tokens_of_a_decoder")) decoder->token_type = ECMV_F32;
  if (is("tokens_of_no_type")) multiplier->token_type = ECMV_F16;
  if (is("too_many_tokens")) multiplier->most_tokens = ECMV_MAX_TOKENS + 1;
  if (is("reserved")) decoder->reserved = 1;
  if (is("null_policies")) gpu_kernels[1].policies = NULL;
}

const char* ecmv_codec_library_1(const ecmv_host* host, const ecmv_codec_library** out) {
  (void)host;
  set_up();
  break_tables();
  *out = &library;
  return NULL;
}
