/* A codec from outside the source tree, as codecs/ABI.md explains it step by step: Rice codes of int8 elements, in
 * blocks of rows that decode by themselves. Plain C11; it knows nothing of the program but ecmv_codec.h.
 *
 * An element is stored as its distance u from a centre, folded to 0..255 (0, -1, 1, -2, ... become 0, 1, 2, 3, ...):
 * u / 2^k zero bits, a one bit, and the k low bits of u. k is the one of 0..7 that makes the matrix shortest. For
 * weights that fall off like a Laplace distribution this is near the entropy, and the decoder needs no table.
 *
 *   section "model"   (table)    [ centre + 128 : 1 byte ][ k : 1 byte ]
 *   section "blocks"  (index)    where each block begins in "codes", and the end: [blocks + 1] x 8 bytes
 *   section "codes"   (payload)  block after block, rows in order, most significant bit first; each block ends with
 *                                zero bits up to a byte
 */
#include <ecmv_codec.h>

#include <string.h>

/* ------------------------------------------------------------------------------------------------- settings, layout */

/* Positions in the array of settings that every function gets. */
enum { SETTING_BLOCK_ROWS, SETTING_CENTRE };
enum { CENTRE_MEAN, CENTRE_ZERO };

static const char* const kCentres[] = {"mean", "zero"};
static const ecmv_setting kSettings[] = {
    {.struct_bytes = sizeof(ecmv_setting),
     .name = "block_rows",
     .unit = "rows",
     .help = "rows that are decoded together",
     .default_value = 4,
     .min = 1,
     .max = 64},
    {.struct_bytes = sizeof(ecmv_setting),
     .name = "centre",
     .help = "which value gets the shortest code: the mean of the matrix, or zero",
     .default_value = CENTRE_MEAN,
     .choices = kCentres,
     .choice_count = 2},
};

enum { SECTION_MODEL, SECTION_BLOCKS, SECTION_CODES, SECTIONS };
enum { MODEL_BYTES = 2, OFFSET_BYTES = 8, MAX_K = 7 };

static int64_t blocks_of(int64_t rows, int64_t block_rows) { return (rows + block_rows - 1) / block_rows; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Both directions wrap around within a byte, so every int8 has a code for every centre. */
static uint32_t folded(int element, int centre) {
  const int8_t distance = (int8_t)(uint8_t)(element - centre);
  return distance >= 0 ? 2u * (uint32_t)distance : 2u * (uint32_t)(-1 - distance) + 1u;
}
static int8_t unfolded(uint32_t u, int centre) {
  const int distance = u % 2 == 0 ? (int)(u / 2) : -1 - (int)(u / 2);
  return (int8_t)(uint8_t)(distance + centre);
}

/* Stored numbers may lie anywhere, so they are copied instead of cast. */
static int64_t offset_at(const uint8_t* blocks, int64_t block) {
  int64_t offset;
  memcpy(&offset, blocks + block * OFFSET_BYTES, OFFSET_BYTES);
  return offset;
}

/* ---------------------------------------------------------------------------------------------------------- encoder */

static const char* refuses(const ecmv_matrix* matrix, const int64_t* settings) {
  (void)settings;
  return matrix->element_type == ECMV_I8 ? NULL : "example_codec codes int8 elements only.";
}

/* No element takes more than 9 bits: with k = 7 it is one or two bits and 7 more, and k is chosen to be no worse. */
static const char* max_stored_bytes(int64_t rows, int64_t row_bytes, const int64_t* settings, int64_t* bytes) {
  const int64_t blocks = blocks_of(rows, settings[SETTING_BLOCK_ROWS]);
  *bytes = MODEL_BYTES + (blocks + 1) * OFFSET_BYTES + (9 * rows * row_bytes + 7) / 8 + blocks;
  return NULL;
}

static int centre_of(const int8_t* elements, int64_t count, int64_t choice) {
  int64_t sum = 0;
  if (choice == CENTRE_ZERO || count == 0) return 0;
  for (int64_t i = 0; i < count; ++i) sum += elements[i];
  return (int)(sum / count);
}

/* The k with the fewest bits. */
static uint32_t best_k(const int8_t* elements, int64_t count, int centre) {
  int64_t histogram[256] = {0}, fewest = INT64_MAX;
  uint32_t best = 0;
  for (int64_t i = 0; i < count; ++i) ++histogram[folded(elements[i], centre)];
  for (uint32_t k = 0; k <= MAX_K; ++k) {
    int64_t bits = 0;
    for (uint32_t u = 0; u < 256; ++u) bits += histogram[u] * (int64_t)((u >> k) + 1 + k);
    if (bits < fewest) {
      fewest = bits;
      best = k;
    }
  }
  return best;
}

/* Bits from the most significant one of a byte on. The memory is zero at first, so only ones are written. */
typedef struct {
  uint8_t* bytes;
  int64_t bit;
} writer;
static void put_one(writer* w) {
  w->bytes[w->bit / 8] |= (uint8_t)(0x80 >> w->bit % 8);
  ++w->bit;
}
static void put(writer* w, uint32_t value, uint32_t bits) {
  while (bits > 0) {
    --bits;
    if (value >> bits & 1)
      put_one(w);
    else
      ++w->bit;
  }
}

static const char* encode(const ecmv_matrix* matrix, const int64_t* settings, ecmv_output* output) {
  const int8_t* elements = matrix->elements;
  const int64_t rows = matrix->rows, cols = matrix->cols, block_rows = settings[SETTING_BLOCK_ROWS],
                blocks = blocks_of(rows, block_rows);
  const int centre = centre_of(elements, rows * cols, settings[SETTING_CENTRE]);
  const uint32_t k = best_k(elements, rows * cols, centre);

  /* The stream's memory is the program's. NULL means that it has refused and knows why. */
  uint8_t* model = output->add_section(output, "model", ECMV_TABLE, MODEL_BYTES, 0);
  uint8_t* index = output->add_section(output, "blocks", ECMV_INDEX, (blocks + 1) * OFFSET_BYTES, 0);
  /* The codes' length is known only after encoding, so the section is as long as they can be and is cut afterwards. */
  uint8_t* codes = output->add_section(output, "codes", ECMV_PAYLOAD, (9 * rows * cols + 7) / 8 + blocks, 0);
  if (model == NULL || index == NULL || codes == NULL) return "There is no room for the sections.";

  model[0] = (uint8_t)(centre + 128);
  model[1] = (uint8_t)k;
  writer w = {codes, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t offset = w.bit / 8, begin = block * block_rows * cols,
                  end = least((block + 1) * block_rows, rows) * cols;
    memcpy(index + block * OFFSET_BYTES, &offset, OFFSET_BYTES);
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t u = folded(elements[i], centre);
      w.bit += u >> k;
      put_one(&w);
      put(&w, u & ((1u << k) - 1), k);
    }
    w.bit = (w.bit + 7) / 8 * 8;
  }
  const int64_t bytes = w.bit / 8;
  memcpy(index + blocks * OFFSET_BYTES, &bytes, OFFSET_BYTES);
  output->shrink_last_section(output, bytes);
  return NULL;
}

/* ----------------------------------------------------------------------------------- the reference decoder, checked */

/* The bytes may be damaged in any way, so nothing is trusted: not the number of sections, not their lengths, not a
 * single code. */
static const char* decode(const ecmv_compressed* matrix, void* out, int64_t out_bytes) {
  if (matrix->section_count != SECTIONS) return "A stream of example_codec has three sections.";
  const ecmv_section *model = matrix->sections[SECTION_MODEL], *index = matrix->sections[SECTION_BLOCKS],
                     *codes = matrix->sections[SECTION_CODES];
  const int64_t block_rows = matrix->settings[SETTING_BLOCK_ROWS], blocks = blocks_of(matrix->rows, block_rows);
  if (matrix->element_type != ECMV_I8 || out_bytes != matrix->rows * matrix->cols)
    return "A stream of example_codec holds int8 elements.";
  if (model->byte_count != MODEL_BYTES || model->bytes[1] > MAX_K)
    return "The model of this stream of example_codec is damaged.";
  if (index->byte_count != (blocks + 1) * OFFSET_BYTES)
    return "The index of this stream of example_codec has a wrong length.";
  const int centre = (int)model->bytes[0] - 128;
  const uint32_t k = model->bytes[1];
  int8_t* next = out;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = offset_at(index->bytes, block), end = offset_at(index->bytes, block + 1);
    if (begin < 0 || begin > end || end > codes->byte_count)
      return "A block of this stream of example_codec lies outside the codes.";
    int64_t bit = begin * 8;
    for (int64_t left = (least((block + 1) * block_rows, matrix->rows) - block * block_rows) * matrix->cols; left > 0;
         --left) {
      uint32_t quotient = 0, low = 0;
      for (;; ++quotient, ++bit) {
        if (bit >= end * 8 || quotient > 255u >> k) return "A code of this stream of example_codec does not end.";
        if (codes->bytes[bit / 8] >> (7 - bit % 8) & 1) break;
      }
      ++bit;
      if (bit + k > end * 8) return "A block of this stream of example_codec ends within a code.";
      for (uint32_t i = 0; i < k; ++i, ++bit) low = low << 1 | (codes->bytes[bit / 8] >> (7 - bit % 8) & 1);
      *next++ = unfolded(quotient << k | low, centre);
    }
    if ((bit + 7) / 8 != end) return "A block of this stream of example_codec is longer than its codes.";
  }
  if (blocks == 0 ? codes->byte_count != 0 : offset_at(index->bytes, blocks) != codes->byte_count)
    return "The codes of this stream of example_codec have a wrong length.";
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- kernels */

/* Kernels only see streams that decode() has read without a complaint, so they check no code, but they stay within the
 * sections. */
typedef struct {
  const uint8_t *next, *end;
  uint64_t window; /* the coming bits, the first one at the top; then zeros */
  int bits;        /* in the window */
} reader;

static void refill(reader* r) {
  while (r->bits <= 56 && r->next < r->end) {
    r->window |= (uint64_t)*r->next++ << (56 - r->bits);
    r->bits += 8;
  }
}
static void skip(reader* r, int bits) {
  r->window <<= bits;
  r->bits -= bits;
}

/* Two forms of the same: one zero bit after the other, or eight at once where codes are long. */
enum { POLICY_BITS, POLICY_BYTES };
static const char* const kPolicies[] = {"bits", "bytes"};

static uint32_t next_code(reader* r, uint32_t k, uint32_t policy) {
  uint32_t quotient = 0, low = 0;
  refill(r);
  if (policy == POLICY_BYTES)
    while (r->bits >= 8 && r->window >> 56 == 0) {
      skip(r, 8);
      quotient += 8;
      refill(r);
    }
  while (r->bits > 0 && r->window >> 63 == 0) {
    skip(r, 1);
    ++quotient;
    if (r->bits == 0) refill(r);
  }
  skip(r, 1);
  if (k > 0) {
    refill(r);
    low = (uint32_t)(r->window >> (64 - k));
    skip(r, (int)k);
  }
  return quotient << k | low;
}

/* What bind() finds out once for a matrix, so that calls need not look for it. Every call gets a copy. */
typedef struct {
  int32_t centre;
  uint32_t k;
} parameters;

static const char* bind(const ecmv_compressed* matrix, const ecmv_device* device, uint32_t policy,
                        ecmv_binding* binding) {
  (void)device, (void)policy;
  const parameters found = {(int32_t)matrix->sections[SECTION_MODEL]->bytes[0] - 128,
                            matrix->sections[SECTION_MODEL]->bytes[1]};
  memcpy(binding->parameters, &found, sizeof(found));
  binding->rows_per_block = matrix->settings[SETTING_BLOCK_ROWS];
  binding->scratch_bytes = matrix->cols; /* a row */
  return NULL;
}

/* At the first code of row_begin, which begins a block. */
static reader reader_at(const ecmv_call* call) {
  const ecmv_compressed* matrix = call->matrix;
  const ecmv_section* codes = matrix->sections[SECTION_CODES];
  const int64_t block = call->row_begin / matrix->settings[SETTING_BLOCK_ROWS];
  const reader r = {codes->bytes + offset_at(matrix->sections[SECTION_BLOCKS]->bytes, block),
                    codes->bytes + codes->byte_count, 0, 0};
  return r;
}

/* Blocks end at a byte, so the rest of the last byte in the window is dropped. */
static void end_row(reader* r, const ecmv_call* call, int64_t row) {
  if ((row + 1) % call->matrix->settings[SETTING_BLOCK_ROWS] == 0) skip(r, r->bits % 8);
}

static void decode_row(reader* r, const ecmv_call* call, int64_t row, int8_t* out) {
  const parameters* p = call->parameters;
  for (int64_t i = 0; i < call->matrix->cols; ++i) out[i] = unfolded(next_code(r, p->k, call->policy), p->centre);
  end_row(r, call, row);
}

static const char* decode_rows(const ecmv_call* call, const ecmv_decode_args* args) {
  reader r = reader_at(call);
  for (int64_t row = call->row_begin; row < call->row_end; ++row)
    decode_row(&r, call, row, (int8_t*)args->out + (row - call->row_begin) * call->matrix->cols);
  return NULL;
}

/* Fused: an element is multiplied as soon as it is decoded, and never stored. */
static const char* multiply(const ecmv_call* call, const ecmv_matvec_args* args) {
  const parameters* p = call->parameters;
  reader r = reader_at(call);
  for (int64_t row = call->row_begin; row < call->row_end; ++row) {
    int32_t sum = 0;
    for (int64_t i = 0; i < call->matrix->cols; ++i)
      sum += unfolded(next_code(&r, p->k, call->policy), p->centre) * args->x[i];
    end_row(&r, call, row);
    args->y[row] = sum;
  }
  return NULL;
}

/* A batch of tokens: a row is decoded to the scratch once and multiplied with each. */
static const char* multiply_batch(const ecmv_call* call, const ecmv_matmul_args* args) {
  int8_t* weights = call->scratch;
  reader r = reader_at(call);
  for (int64_t row = call->row_begin; row < call->row_end; ++row) {
    decode_row(&r, call, row, weights);
    for (int64_t token = 0; token < args->batch; ++token) {
      const float* x = args->x + token * args->x_stride;
      float sum = 0;
      for (int64_t i = 0; i < call->matrix->cols; ++i) sum += (float)weights[i] * x[i];
      args->y[token * args->y_stride + row] = sum;
    }
  }
  return NULL;
}

static const ecmv_kernel kKernels[] = {
    {.struct_bytes = sizeof(ecmv_kernel),
     .variant = "rows",
     .on_scalar = 1,
     .on_simd = 1,
     .policies = kPolicies,
     .policy_count = 2,
     .bind = bind,
     .decode = decode_rows},
    {.struct_bytes = sizeof(ecmv_kernel),
     .variant = "rows",
     .on_scalar = 1,
     .policies = kPolicies,
     .policy_count = 2,
     .bind = bind,
     .matvec = multiply},
    {.struct_bytes = sizeof(ecmv_kernel), .variant = "rows", .on_scalar = 1, .bind = bind, .matmul = multiply_batch},
};

/* ------------------------------------------------------------------------------------------------------- the tables */

static const ecmv_codec kCodecs[] = {{
    .struct_bytes = sizeof(ecmv_codec),
    .id = "example_codec",
    .summary = "Rice codes of distances from the mean, in blocks of rows",
    .source = "R. F. Rice, Some practical universal noiseless coding techniques, JPL 79-22, 1979",
    .format_version = 1,
    .settings = kSettings,
    .setting_count = sizeof(kSettings) / sizeof(kSettings[0]),
    .refuses = refuses,
    .encode = encode,
    .decode = decode,
    .max_stored_bytes = max_stored_bytes,
    .kernels = kKernels,
    .kernel_count = sizeof(kKernels) / sizeof(kKernels[0]),
}};

static const ecmv_codec_library kLibrary = {
    .struct_bytes = sizeof(ecmv_codec_library), .codecs = kCodecs, .codec_count = 1};

const char* ecmv_codec_library_1(const ecmv_host* host, const ecmv_codec_library** library) {
  (void)host;
  *library = &kLibrary;
  return NULL;
}
