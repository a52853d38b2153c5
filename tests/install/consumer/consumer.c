/* consumer CODEC_LIBRARY GPU_BACKEND: asks every codec that takes a small int8 matrix for its size, its elements and a
 * product, and compares that with a plain loop. Ends with 0, or prints the error. "" stands for a missing library or
 * backend. */
#include <ecmv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLS = 512 };

static int8_t w[ROWS * COLS], x[COLS], decoded[ROWS * COLS];
static int32_t expected[ROWS], y[ROWS];

static void need(int holds, const char* what) {
  if (holds) return;
  printf("consumer: %s (%s)\n", what, ecmv_last_error());
  exit(1);
}

/* 1 if the codec has a product there. */
static int multiplies(const ecmv_context* context, const ecmv_compressed_matrix* matrix) {
  ecmv_pass* pass = NULL;
  const ecmv_status status = ecmv_prepare_matvec(context, matrix, &pass);
  if (status == ECMV_REFUSED) return 0;
  need(status == ECMV_OK, "a product cannot be prepared");
  for (int round = 0; round < 3; ++round) {
    x[0] = (int8_t)(round - 1);
    memset(expected, 0, sizeof expected);
    for (int row = 0; row < ROWS; ++row)
      for (int col = 0; col < COLS; ++col) expected[row] += w[row * COLS + col] * x[col];
    memset(y, 0x55, sizeof y);
    need(ecmv_run_matvec(pass, x, y) == ECMV_OK, "a product cannot be run");
    need(memcmp(y, expected, sizeof y) == 0, "a product is not that of a plain loop");
  }
  if (ecmv_pass_kernel(pass)[0] != 0) printf("%s\n", ecmv_pass_kernel(pass));
  ecmv_free_pass(pass);
  return 1;
}

/* Returns how many codecs took the matrix and had a product. */
static int try_codecs(const ecmv_context* context) {
  int count = 0;
  for (size_t i = 0; ecmv_codec_id(i) != NULL; ++i) {
    ecmv_compressed_matrix* matrix = NULL;
    const ecmv_status status = ecmv_encode(ecmv_codec_id(i), NULL, "i8", ROWS, COLS, w, &matrix);
    if (status == ECMV_REFUSED) continue;
    need(status == ECMV_OK, "a codec does not encode");
    ecmv_sizes sizes = {0};
    sizes.struct_bytes = sizeof sizes;
    need(ecmv_sizes_of(matrix, &sizes) == ECMV_OK && sizes.stored > 0, "a matrix has no size");
    printf("%s: %.3f bits, ", ecmv_codec_id(i), sizes.bits_per_element);
    memset(decoded, 0x55, sizeof decoded);
    need(ecmv_decode(matrix, decoded, sizeof decoded) == ECMV_OK && memcmp(decoded, w, sizeof w) == 0,
         "a matrix does not decode");
    count += multiplies(context, matrix);
    ecmv_free_matrix(matrix);
  }
  return count;
}

int main(int argc, char** argv) {
  ecmv_context* context = NULL;
  ecmv_compressed_matrix* matrix = NULL;
  need(argc == 3, "usage: consumer CODEC_LIBRARY GPU_BACKEND");
  for (int i = 0; i < ROWS * COLS; ++i) w[i] = (int8_t)((i * 7 % 11) + (i / 3 % 5) - 7);
  for (int i = 0; i < COLS; ++i) x[i] = (int8_t)(i % 100 - 50);

  need(ecmv_encode("nothing", NULL, "i8", ROWS, COLS, w, &matrix) == ECMV_INVALID_ARGUMENT && matrix == NULL,
       "a codec that there is not is no error");
  need(strstr(ecmv_last_error(), "There is no codec 'nothing'.") != NULL, "an error is no sentence");
  if (argv[1][0] != 0) need(ecmv_load_codec_library(argv[1]) == ECMV_OK, "the codec library does not load");
  need(ecmv_open("best", 2, -1, &context) == ECMV_OK, "there is no CPU");
  need(try_codecs(context) > 0, "there are no codecs");
  ecmv_close(context);
  if (argv[2][0] != 0) {
    need(ecmv_open(argv[2], 0, -1, &context) == ECMV_OK, "the plugin is not found");
    need(try_codecs(context) > 0, "no codec has a kernel in the plugin");
    ecmv_close(context);
  }
  printf("fine, ecmv %s\n", ecmv_version());
  return 0;
}
