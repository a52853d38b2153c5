/* caller_memory.c [BACKEND]: a matrix in a file and back, and its product with tokens that the program holds. */
#include <ecmv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, COLS = 1024, TOKENS = 3 };

static void check(ecmv_status status) {
  if (status == ECMV_OK) return;
  fprintf(stderr, "%s\n", ecmv_last_error());
  exit(1);
}

static uint16_t bf16(float number) { /* that bf16 holds */
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(bits >> 16);
}

int main(int argc, char** argv) {
  static uint16_t w[ROWS * COLS], x[TOKENS * COLS], y[TOKENS * ROWS];
  for (int i = 0; i < ROWS * COLS; ++i) w[i] = bf16((float)(i % 5 - 2));
  for (int i = 0; i < TOKENS * COLS; ++i) x[i] = bf16((float)(i / COLS + 1)); /* token t is all t + 1 */

  ecmv_compressed_matrix *made, *matrix; /* encode, save, load */
  check(ecmv_encode("quad_huffman", NULL, "bf16", ROWS, COLS, w, &made));
  const char *name = "layer.0", *path = argc > 2 ? argv[2] : "caller_memory.safetensors";
  const ecmv_compressed_matrix* all[] = {made};
  check(ecmv_save(path, &name, all, 1));
  ecmv_file* file;
  check(ecmv_open_file(path, &file));
  check(ecmv_load(file, name, &matrix));

  ecmv_context* context;
  check(ecmv_open(argc > 1 ? argv[1] : "best", 0, -1, &context));
  ecmv_buffer *x_there, *y_there; /* on a GPU: its memory, as cudaMalloc gives it */
  check(ecmv_allocate(context, sizeof x, &x_there));
  check(ecmv_allocate(context, sizeof y, &y_there));
  check(ecmv_write(x_there, 0, x, sizeof x));

  ecmv_product_options options = {.struct_bytes = sizeof options, .max_tokens = 16, .x_type = "bf16", .y_type = "bf16"};
  ecmv_product* product;
  check(ecmv_bind_product(context, matrix, &options, &product)); /* once: chooses, allocates */
  check(ecmv_enqueue_product(product, NULL, ecmv_place(x_there), COLS, TOKENS, ecmv_place(y_there), ROWS));
  check(ecmv_synchronize(context));
  check(ecmv_read(y_there, 0, y, sizeof y));
  float sum = 0; /* of row 0 */
  for (int i = 0; i < COLS; ++i) sum += (float)(i % 5 - 2);
  for (int t = 0; t < TOKENS; ++t)
    if (y[t * ROWS] != bf16(sum * (float)(t + 1))) return 2;
  printf("%s\n", ecmv_product_kernel(product, TOKENS));
  ecmv_free_product(product), ecmv_free_buffer(x_there), ecmv_free_buffer(y_there), ecmv_close(context);
  ecmv_free_matrix(matrix), ecmv_free_matrix(made), ecmv_close_file(file);
  return 0;
}
