/* The codec: encoder and reference decoder. dfloat11.h draws the stored bytes, kernels.c has the kernels. */
#include "dfloat11.h"

#include <string.h>

enum { SYMBOLS = POINTERS, END = SYMBOLS, CODES_MADE = SYMBOLS + 1 }; /* one code ends the stream */

static uint32_t word_at(const uint8_t* bytes, int64_t index) {
  uint32_t word;
  memcpy(&word, bytes + 4 * index, 4);
  return word;
}
static void set_word(uint8_t* bytes, int64_t index, uint32_t word) { memcpy(bytes + 4 * index, &word, 4); }
static int64_t blocks_of(int64_t coded_bytes) { return (coded_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES; }
static unsigned exponent_of(uint16_t element) { return element >> 7 & 0xFF; }

/* --------------------------------------------------------------------------------------------------------- the code */

typedef struct {
  uint32_t codes[CODES_MADE]; /* right-aligned */
  uint8_t lengths[CODES_MADE];
} prefix_code;

/* Lengths of a Huffman code: the two rarest trees are joined until one is left. Returns the longest. */
static int huffman_lengths(const int64_t* counts, uint8_t* lengths) {
  int64_t weight[CODES_MADE];
  int tree[CODES_MADE], longest = 0;
  memset(lengths, 0, CODES_MADE);
  for (int i = 0; i < CODES_MADE; ++i) weight[i] = counts[i], tree[i] = i;
  for (;;) {
    int least = -1, next = -1;
    for (int i = 0; i < CODES_MADE; ++i) {
      if (weight[i] == 0) continue;
      if (least < 0 || weight[i] < weight[least])
        next = least, least = i;
      else if (next < 0 || weight[i] < weight[next])
        next = i;
    }
    if (next < 0) break;
    for (int i = 0; i < CODES_MADE; ++i)
      if (counts[i] > 0 && (tree[i] == least || tree[i] == next)) {
        tree[i] = least;
        if (++lengths[i] > longest) longest = lengths[i];
      }
    weight[least] += weight[next];
    weight[next] = 0;
  }
  return longest;
}

/* Canonical: shorter codes first, then lower symbols. So zero bits begin the shortest one. */
static void make_code(const uint16_t* elements, int64_t count, prefix_code* code) {
  int64_t counts[CODES_MADE] = {0};
  uint32_t next = 0;
  for (int64_t i = 0; i < count; ++i) ++counts[exponent_of(elements[i])];
  counts[END] = 1;
  int longest;
  while ((longest = huffman_lengths(counts, code->lengths)) > MAX_CODE_BITS)
    for (int i = 0; i < CODES_MADE; ++i) counts[i] = (counts[i] + 1) / 2; /* flatter, and none is lost */
  /* The end symbol, which no other is rarer than, gets the last code, so that no other code follows it in a table. */
  for (int i = 0; i < END && code->lengths[END] < longest; ++i)
    if (code->lengths[i] == longest) {
      code->lengths[i] = code->lengths[END];
      code->lengths[END] = (uint8_t)longest;
    }
  for (int length = 1; length <= MAX_CODE_BITS; ++length, next <<= 1)
    for (int i = 0; i < CODES_MADE; ++i)
      if (code->lengths[i] == length) code->codes[i] = next++;
}

/* Tables for 8 bits of a code each. A table belongs to the bits before, its prefix of whole bytes. */
typedef struct {
  int count;
  int depth[MAX_TABLES]; /* bytes of the prefix */
  uint32_t prefix[MAX_TABLES];
} table_list;

static int table_of(const table_list* tables, int depth, uint32_t prefix) {
  for (int i = 0; i < tables->count; ++i)
    if (tables->depth[i] == depth && tables->prefix[i] == prefix) return i;
  return -1;
}

/* 0 if there are more than pointers can reach. */
static int list_tables(const prefix_code* code, table_list* tables) {
  tables->count = 1;
  tables->depth[0] = 0;
  tables->prefix[0] = 0;
  for (int depth = 1; depth < MAX_CODE_BITS / 8; ++depth)
    for (int i = 0; i < SYMBOLS; ++i) {
      if (code->lengths[i] <= 8 * depth) continue;
      const uint32_t prefix = code->codes[i] >> (code->lengths[i] - 8 * depth);
      if (table_of(tables, depth, prefix) >= 0) continue;
      if (tables->count == MAX_TABLES) return 0;
      tables->depth[tables->count] = depth;
      tables->prefix[tables->count++] = prefix;
    }
  return 1;
}

/* Entries that no code begins with lead where the ones before them do: the kernel's last threads read on past the end,
 * and must meet a code of some length. */
static void fill_table(const prefix_code* code, const table_list* tables, int table, uint8_t* row) {
  const int depth = tables->depth[table];
  int known[ROW] = {0}, last = -1;
  for (int i = 0; i < SYMBOLS; ++i) {
    const int rest = code->lengths[i] - 8 * depth;
    if (rest <= 0 || (depth > 0 && code->codes[i] >> rest != tables->prefix[table])) continue;
    if (rest > 8) {
      const int entry = (int)(code->codes[i] >> (rest - 8) & 0xFF);
      row[entry] = (uint8_t)(256 - table_of(tables, depth + 1, code->codes[i] >> (rest - 8)));
      known[entry] = 1;
      continue;
    }
    const int first = (int)(code->codes[i] << (8 - rest) & 0xFF);
    for (int entry = first; entry < first + (1 << (8 - rest)); ++entry) row[entry] = (uint8_t)i, known[entry] = 1;
  }
  for (int entry = 0; entry < ROW && last < 0; ++entry)
    if (known[entry]) last = row[entry];
  for (int entry = 0; entry < ROW; ++entry) {
    if (known[entry]) last = row[entry];
    row[entry] = (uint8_t)(last < 0 ? 0 : last);
  }
}

/* ---------------------------------------------------------------------------------------------------------- encoder */

static const char* refuses(const ecmv_matrix* matrix, const int64_t* settings) {
  const uint16_t* elements = matrix->elements;
  const int64_t count = matrix->rows * matrix->cols;
  prefix_code code;
  table_list tables;
  (void)settings;
  if (matrix->element_type != ECMV_BF16) return "dfloat11 codes the exponents of bf16 elements only.";
  if (count >= (int64_t)1 << 29) return "The kernel of dfloat11 counts threads and elements in 32 bits: at most 2^29.";
  for (int64_t i = 0; i < count; ++i)
    if (exponent_of(elements[i]) >= POINTERS)
      return "The tables of dfloat11 cannot name exponents of 240 and more, which 2^113, infinities and NaN have.";
  make_code(elements, count, &code);
  return list_tables(&code, &tables) ? NULL : "The code of these exponents needs more tables than dfloat11 has.";
}

/* Codes of 241 symbols take 8 bits on average, or little more where the longest are cut. */
static const char* max_stored_bytes(int64_t rows, int64_t row_bytes, const int64_t* settings, int64_t* bytes) {
  const int64_t elements = rows * row_bytes / 2, coded = elements + elements / 8 + 64;
  (void)settings;
  *bytes = HEADER_BYTES + (MAX_TABLES + 1) * ROW + coded + elements + blocks_of(coded) * (4 + GAP_BYTES) + 5;
  return NULL;
}

/* Bits from the most significant one of a byte on, into zeroed memory. */
static void put(uint8_t* bytes, int64_t* at, uint32_t value, int bits) {
  for (int i = bits - 1; i >= 0; --i, ++*at)
    if (value >> i & 1) bytes[*at / 8] |= (uint8_t)(0x80 >> *at % 8);
}

typedef struct {
  uint8_t *positions, *gaps;
  int64_t threads, gap_bit; /* that have their gaps */
  uint32_t most, last;      /* elements of a block so far; the first element of the last block */
} index_writer;

/* Writes the gaps of the threads that begin before the code of `element`, which starts at `bit`. */
static void enter(index_writer* w, int64_t bit, int64_t element) {
  for (; w->threads * THREAD_BITS <= bit; ++w->threads) {
    put(w->gaps, &w->gap_bit, (uint32_t)(bit - w->threads * THREAD_BITS), GAP_BITS);
    if (w->threads % BLOCK_THREADS != 0) continue;
    set_word(w->positions, w->threads / BLOCK_THREADS, (uint32_t)element);
    if (element - w->last > w->most) w->most = (uint32_t)(element - w->last);
    w->last = (uint32_t)element;
  }
}

static const char* encode(const ecmv_matrix* matrix, const int64_t* settings, ecmv_output* output) {
  const uint16_t* elements = matrix->elements;
  const int64_t count = matrix->rows * matrix->cols;
  prefix_code code;
  table_list tables;
  int64_t bits = 0, at = 0;
  (void)settings;
  make_code(elements, count, &code);
  if (!list_tables(&code, &tables)) return "The code of these exponents needs more tables than dfloat11 has.";
  for (int64_t i = 0; i < count; ++i) bits += code.lengths[exponent_of(elements[i])];
  const int64_t bytes = (bits + 7) / 8, blocks = blocks_of(bytes), threads = (bytes + THREAD_BYTES - 1) / THREAD_BYTES;

  uint8_t* header = output->add_section(output, "header", ECMV_TABLE, HEADER_BYTES, 0);
  uint8_t* luts = output->add_section(output, "luts", ECMV_TABLE, (tables.count + 1) * ROW, 0);
  uint8_t* codes = output->add_section(output, "encoded_exponent", ECMV_PAYLOAD, bytes, 0);
  uint8_t* raw = output->add_section(output, "sign_mantissa", ECMV_PAYLOAD, count, 0);
  uint8_t* positions = output->add_section(output, "output_positions", ECMV_INDEX, 4 * (blocks + 1), 0);
  uint8_t* gaps = output->add_section(output, "gaps", ECMV_INDEX, GAP_BYTES * blocks + 1,
                                      GAP_BYTES * blocks + 1 - (GAP_BITS * threads + 7) / 8);
  if (header == NULL || luts == NULL || codes == NULL || raw == NULL || positions == NULL || gaps == NULL) return NULL;
  for (int i = 0; i < tables.count; ++i) fill_table(&code, &tables, i, luts + i * ROW);
  memcpy(luts + tables.count * ROW, code.lengths, SYMBOLS);
  index_writer index = {.positions = positions, .gaps = gaps};
  for (int64_t i = 0; i < count; ++i) {
    const unsigned exponent = exponent_of(elements[i]);
    enter(&index, at, i);
    put(codes, &at, code.codes[exponent], code.lengths[exponent]);
    raw[i] = (uint8_t)((elements[i] >> 8 & 0x80) | (elements[i] & 0x7F));
  }
  if (at % THREAD_BITS != 0) enter(&index, at, count); /* threads in which only the last code ends */
  for (int i = code.lengths[END] - 1; at % 8 != 0; i = i > 0 ? i - 1 : code.lengths[END] - 1)
    put(codes, &at, code.codes[END] >> i & 1, 1);
  set_word(positions, blocks, (uint32_t)count);
  if (count - index.last > index.most) index.most = (uint32_t)(count - index.last);
  set_word(header, 0, index.most);
  return NULL;
}

/* ------------------------------------------------------------------------------------------------ reference decoder */

static unsigned bits_at(const uint8_t* bytes, int64_t bytes_there, int64_t bit, int bits) {
  unsigned value = 0;
  for (int64_t i = bit; i < bit + bits; ++i)
    value = 2 * value + (i / 8 < bytes_there ? (unsigned)(bytes[i / 8] >> (7 - i % 8) & 1) : 0);
  return value;
}

/* Each entry must lead to a code with a length, or to a later table. */
static const char* check_tables(const ecmv_section* luts) {
  const int64_t rows = luts->byte_count / ROW;
  if (luts->byte_count % ROW != 0 || rows < 2 || rows > MAX_TABLES + 1)
    return "The tables of this stream of dfloat11 have a wrong length.";
  const uint8_t* lengths = luts->bytes + (rows - 1) * ROW;
  for (int64_t i = 0; i < (rows - 1) * ROW; ++i) {
    const int entry = luts->bytes[i];
    if (entry >= POINTERS ? 256 - entry >= rows - 1 || 256 - entry <= i / ROW
                          : lengths[entry] == 0 || lengths[entry] > MAX_CODE_BITS)
      return "The tables of this stream of dfloat11 lead nowhere.";
  }
  return NULL;
}

/* The exponent at this bit, or -1. */
static int exponent_at(const ecmv_section* luts, const ecmv_section* codes, int64_t* bit) {
  const uint8_t* lengths = luts->bytes + luts->byte_count - ROW;
  int entry = 256;
  for (int depth = 0; depth < MAX_CODE_BITS / 8 && entry >= POINTERS; ++depth)
    entry = luts->bytes[(256 - entry) * ROW + (int)bits_at(codes->bytes, codes->byte_count, *bit + 8 * depth, 8)];
  if (entry >= POINTERS || *bit + lengths[entry] > 8 * codes->byte_count) return -1;
  *bit += lengths[entry];
  return entry;
}

static const char* check_sizes(const ecmv_compressed* matrix, int64_t count) {
  const ecmv_section* const* s = matrix->sections;
  if (matrix->section_count != SECTIONS || s[HEADER]->byte_count != HEADER_BYTES)
    return "A stream of dfloat11 has a header of 4 bytes and five more sections.";
  const int64_t blocks = blocks_of(s[CODES]->byte_count);
  if (s[SIGN_MANTISSA]->byte_count != count || s[POSITIONS]->byte_count != 4 * (blocks + 1) ||
      s[GAPS]->byte_count != GAP_BYTES * blocks + 1)
    return "The sections of this stream of dfloat11 do not fit together.";
  if (word_at(s[POSITIONS]->bytes, blocks) != (uint32_t)count)
    return "The last output position of this stream of dfloat11 is not the number of elements.";
  return count == 0 ? NULL : check_tables(s[LUTS]);
}

static const char* decode(const ecmv_compressed* matrix, void* out, int64_t out_bytes) {
  const ecmv_section* const* s = matrix->sections;
  const int64_t count = out_bytes / 2;
  uint16_t* elements = out;
  int64_t bit = 0, threads = 0;
  uint32_t most = 0;
  if (matrix->element_type != ECMV_BF16) return "A stream of dfloat11 holds bf16 elements.";
  const char* wrong = check_sizes(matrix, count);
  if (wrong != NULL) return wrong;
  const int64_t blocks = blocks_of(s[CODES]->byte_count);
  for (int64_t i = 0; i <= count; ++i) {
    for (; threads < blocks * BLOCK_THREADS && threads * THREAD_BITS <= bit; ++threads) {
      const unsigned gap = bits_at(s[GAPS]->bytes, s[GAPS]->byte_count, GAP_BITS * threads, GAP_BITS);
      if (i < count && gap != bit - threads * THREAD_BITS)
        return "A gap of this stream of dfloat11 does not lead to the first code of its thread.";
      if (threads % BLOCK_THREADS == 0 && word_at(s[POSITIONS]->bytes, threads / BLOCK_THREADS) != (uint32_t)i)
        return "An output position of this stream of dfloat11 is not the first element of its block.";
    }
    if (i == count) break;
    const int exponent = exponent_at(s[LUTS], s[CODES], &bit);
    if (exponent < 0) return "The codes of this stream of dfloat11 end within a code.";
    const unsigned raw = s[SIGN_MANTISSA]->bytes[i];
    elements[i] = (uint16_t)((raw & 0x80) << 8 | (unsigned)exponent << 7 | (raw & 0x7F));
  }
  if ((bit + 7) / 8 != s[CODES]->byte_count)
    return "The codes of this stream of dfloat11 go on after the last element.";
  for (int64_t block = 0; block < blocks; ++block) {
    const uint32_t of_block = word_at(s[POSITIONS]->bytes, block + 1) - word_at(s[POSITIONS]->bytes, block);
    if (of_block > most) most = of_block;
  }
  if (word_at(s[HEADER]->bytes, 0) != most)
    return "The header of this stream of dfloat11 counts other elements a block.";
  return NULL;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

static const ecmv_gpu_kernel kGpuKernels[] = {
    {.struct_bytes = sizeof(ecmv_gpu_kernel),
     .backend = "cuda",
     .variant = "package",
     .refuses = dfloat11_refuses,
     .bind = dfloat11_bind,
     .decode = dfloat11_decode},
    {.struct_bytes = sizeof(ecmv_gpu_kernel),
     .backend = "emulator",
     .variant = "steps",
     .bind = dfloat11_bind_steps,
     .decode = dfloat11_decode_steps},
};

static const ecmv_codec kCodecs[] = {{
    .struct_bytes = sizeof(ecmv_codec),
    .id = "dfloat11",
    .summary = "Huffman codes of bf16 exponents, decoded by the kernel of the package dfloat11",
    .source = "Zhang et al., arXiv 2504.11651; PyPI dfloat11 0.5.0",
    .format_version = 1,
    .refuses = refuses,
    .encode = encode,
    .decode = decode,
    .max_stored_bytes = max_stored_bytes,
    .gpu_kernels = kGpuKernels,
    .gpu_kernel_count = sizeof(kGpuKernels) / sizeof(kGpuKernels[0]),
}};

static const ecmv_codec_library kLibrary = {
    .struct_bytes = sizeof(ecmv_codec_library), .codecs = kCodecs, .codec_count = 1};

const char* ecmv_codec_library_1(const ecmv_host* host, const ecmv_codec_library** library) {
  (void)host;
  *library = &kLibrary;
  return NULL;
}
