/* caller_sections.c [BACKEND]: two layers whose stored bytes, bias, tokens and results lie in the program's memory and
 * that share a workspace, used by two threads; and what the library says of calls that cannot be. */
#include <ecmv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { LAYERS = 2, ROWS = 256, COLS = 1024, TOKENS = 70, X_STRIDE = COLS + 4, Y_STRIDE = ROWS + 4, MOST_SECTIONS = 16 };

static void check(ecmv_status status) {
  if (status == ECMV_OK) return;
  fprintf(stderr, "%s\n", ecmv_last_error());
  exit(1);
}
static void refuse(ecmv_status status, ecmv_status wanted, const char* said) {
  if (status == wanted && strstr(ecmv_last_error(), said) != NULL) return;
  fprintf(stderr, "status %d instead of %d, \"%s\" without \"%s\"\n", status, wanted, ecmv_last_error(), said);
  exit(2);
}

static uint16_t bf16(float number) { /* that bf16 holds */
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static float element(int layer, int row, int col) { return (float)((row + col + layer) % 5 - 2); }
static float token(int t, int col) { return (float)((t + col) % 3); }

/* A layer: its matrix, where its sections, bias, tokens and results are in the context's memory, and its product. */
typedef struct layer {
  int number;
  const ecmv_context* context;
  ecmv_compressed_matrix* matrix;
  ecmv_span sections[MOST_SECTIONS];
  size_t section_count;
  ecmv_buffer *stored, *bias, *x, *y;
  ecmv_product* product;
} layer;

/* Makes the matrix anew of what describes it and its sections, as a program does that has a format of files of its own.
 */
static ecmv_compressed_matrix* carried_over(const ecmv_compressed_matrix* made) {
  ecmv_description description = {.struct_bytes = sizeof description};
  ecmv_stored_section sections[MOST_SECTIONS];
  const size_t count = ecmv_section_count(made);
  if (count > MOST_SECTIONS) exit(3);
  check(ecmv_describe(made, &description));
  for (size_t i = 0; i < count; ++i) {
    sections[i].struct_bytes = sizeof sections[i];
    check(ecmv_section_of(made, i, &sections[i]));
  }
  ecmv_compressed_matrix* matrix;
  check(ecmv_from_sections(&description, sections, count, &matrix)); /* compared with the hash */

  size_t largest = 0;
  for (size_t i = 1; i < count; ++i)
    if (sections[i].bytes > sections[largest].bytes) largest = i;
  unsigned char* damaged = malloc(sections[largest].bytes);
  if (damaged == NULL) exit(3);
  memcpy(damaged, sections[largest].place, sections[largest].bytes);
  damaged[sections[largest].bytes / 2] ^= 1;
  sections[largest].place = damaged;
  ecmv_compressed_matrix* none;
  refuse(ecmv_from_sections(&description, sections, count, &none), ECMV_MALFORMED, ""); /* one bit is another one */
  free(damaged);
  return matrix;
}

/* Copies the matrix's sections to one buffer of the context, each to where it may begin. */
static void place_sections(layer* to) {
  size_t bytes = 0, offsets[MOST_SECTIONS];
  ecmv_stored_section section = {.struct_bytes = sizeof section};
  to->section_count = ecmv_section_count(to->matrix);
  for (size_t i = 0; i < to->section_count; ++i) {
    check(ecmv_section_of(to->matrix, i, &section));
    const size_t alignment = section.alignment > 256 ? section.alignment : 256;
    offsets[i] = (bytes + alignment - 1) / alignment * alignment;
    bytes = offsets[i] + section.bytes;
  }
  check(ecmv_allocate(to->context, bytes, &to->stored));
  for (size_t i = 0; i < to->section_count; ++i) {
    check(ecmv_section_of(to->matrix, i, &section));
    check(ecmv_write(to->stored, offsets[i], section.place, section.bytes));
    to->sections[i] = (ecmv_span){(char*)ecmv_place(to->stored) + offsets[i], section.bytes};
  }
}

static void make(layer* to, int number, const ecmv_context* context, ecmv_workspace* workspace) {
  static uint16_t w[ROWS * COLS];
  static float x[TOKENS * X_STRIDE], bias[ROWS];
  to->number = number;
  to->context = context;
  for (int i = 0; i < ROWS * COLS; ++i) w[i] = bf16(element(number, i / COLS, i % COLS));
  for (int i = 0; i < TOKENS * X_STRIDE; ++i) x[i] = token(i / X_STRIDE, i % X_STRIDE);
  for (int i = 0; i < ROWS; ++i) bias[i] = (float)(i + number);

  ecmv_compressed_matrix* made;
  check(ecmv_encode("packed_exponents", NULL, "bf16", ROWS, COLS, w, &made));
  to->matrix = carried_over(made);
  ecmv_free_matrix(made);
  place_sections(to);
  check(ecmv_allocate(context, sizeof x, &to->x));
  check(ecmv_allocate(context, sizeof bias, &to->bias));
  check(ecmv_allocate(context, sizeof(float) * TOKENS * Y_STRIDE, &to->y));
  check(ecmv_write(to->x, 0, x, sizeof x));
  check(ecmv_write(to->bias, 0, bias, sizeof bias));
  ecmv_product_options options = {.struct_bytes = sizeof options,
                                  .max_tokens = TOKENS,
                                  .x_type = "f32",
                                  .y_type = "f32",
                                  .bias = ecmv_place(to->bias),
                                  .sections = to->sections,
                                  .section_count = to->section_count,
                                  .workspace = workspace};
  check(ecmv_bind_product(context, to->matrix, &options, &to->product));
}

/* A thread: multiplies again and again. */
static int multiply(void* of) {
  const layer* own = of;
  for (int again = 0; again < 3; ++again)
    check(ecmv_enqueue_product(own->product, NULL, ecmv_place(own->x), X_STRIDE, TOKENS, ecmv_place(own->y), Y_STRIDE));
  return 0;
}

static void compare(const layer* of) {
  static float y[TOKENS * Y_STRIDE];
  check(ecmv_read(of->y, 0, y, sizeof y));
  for (int t = 0; t < TOKENS; ++t)
    for (int row = 0; row < Y_STRIDE; ++row) {
      float sum = 0; /* small integers; nothing is written past the rows */
      for (int col = 0; row < ROWS && col < COLS; ++col) sum += element(of->number, row, col) * token(t, col);
      if (row < ROWS) sum += (float)(row + of->number);
      if (y[t * Y_STRIDE + row] != sum) {
        fprintf(stderr, "layer %d, token %d, row %d: %g instead of %g\n", of->number, t, row, y[t * Y_STRIDE + row],
                sum);
        exit(4);
      }
    }
}

static void misuse(const layer* first, const layer* second) {
  char *x = ecmv_place(first->x), *y = ecmv_place(first->y);
  const ecmv_status wrong = ECMV_INVALID_ARGUMENT;
  refuse(ecmv_enqueue_product(first->product, NULL, NULL, X_STRIDE, 1, y, Y_STRIDE), wrong, "'x' is NULL");
  refuse(ecmv_enqueue_product(first->product, NULL, x + 1, X_STRIDE, 1, y, Y_STRIDE), wrong, "aligned");
  refuse(ecmv_enqueue_product(first->product, NULL, x, COLS - 1, 1, y, Y_STRIDE), wrong, "stride");
  refuse(ecmv_enqueue_product(first->product, NULL, x, X_STRIDE, 1, y, ROWS - 1), wrong, "stride");
  refuse(ecmv_enqueue_product(first->product, NULL, x, X_STRIDE, TOKENS + 1, y, Y_STRIDE), wrong, "tokens");
  refuse(ecmv_enqueue_product(first->product, NULL, x, X_STRIDE, 1, x, Y_STRIDE), wrong, "overlap");

  ecmv_product_options options = {.struct_bytes = sizeof options, .max_tokens = 1, .x_type = "f32", .y_type = "f32"};
  ecmv_span sections[MOST_SECTIONS];
  memcpy(sections, second->sections, sizeof sections);
  options.sections = sections;
  options.section_count = second->section_count;
  ecmv_product* none;
  refuse(ecmv_bind_product(first->context, first->matrix, &options, &none), wrong, ""); /* of another matrix */
  memcpy(sections, first->sections, sizeof sections);
  --sections[0].bytes;
  refuse(ecmv_bind_product(first->context, first->matrix, &options, &none), wrong, " bytes, not ");
}

int main(int argc, char** argv) {
  ecmv_context* context;
  ecmv_workspace* workspace;
  check(ecmv_open(argc > 1 ? argv[1] : "best", 0, -1, &context));
  check(ecmv_make_workspace(context, &workspace));
  layer layers[LAYERS];
  for (int i = 0; i < LAYERS; ++i) make(&layers[i], i, context, workspace);
  if (ecmv_workspace_bytes(workspace) == 0) return 5;

  thrd_t threads[LAYERS];
  for (int i = 0; i < LAYERS; ++i)
    if (thrd_create(&threads[i], multiply, &layers[i]) != thrd_success) return 6;
  for (int i = 0; i < LAYERS; ++i) thrd_join(threads[i], NULL);
  check(ecmv_synchronize(context));
  for (int i = 0; i < LAYERS; ++i) compare(&layers[i]);
  misuse(&layers[0], &layers[1]);

  printf("%s\n", ecmv_product_kernel(layers[0].product, TOKENS));
  for (int i = 0; i < LAYERS; ++i) {
    const layer* of = &layers[i];
    ecmv_free_product(of->product);
    refuse(ecmv_enqueue_product(of->product, NULL, ecmv_place(of->x), X_STRIDE, 1, ecmv_place(of->y), Y_STRIDE),
           ECMV_INVALID_ARGUMENT, "There is no such product");
    ecmv_free_buffer(of->stored), ecmv_free_buffer(of->bias), ecmv_free_buffer(of->x), ecmv_free_buffer(of->y);
    ecmv_free_matrix(of->matrix);
  }
  ecmv_free_workspace(workspace);
  ecmv_close(context);
  return 0;
}
