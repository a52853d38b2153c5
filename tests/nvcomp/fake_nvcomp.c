/* A library that poses as nvCOMP, on the host's memory: the functions of its methods, with a trivial code. A chunk is
 * stored as a header of 12 bytes and its bytes inverted, or one byte if all are the same.
 *
 * Compiled with VERSION (default 6000), and with ONLY_ANS, WITHOUT_DECOMPRESS or WITHOUT_VERSION for libraries that
 * lack something. ECMV_FAKE_FAIL names the failure while it runs: the end of a function's name, or
 *   bad_chunk    the last chunk has a status of its own
 *   long_chunk   the last compressed chunk is longer than any may be
 *   short_chunk  the last chunk has a byte less than it should have
 *   alignment    buffers have to lie at multiples of 4096 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 6000
#endif

enum { ok = 0, invalid = 10, cannot_decompress = 12, misaligned = 17, too_large = 18 };
enum { header_bytes = 12, input_align = 16, output_align = 8, temp_align = 256, temp_of_chunk = 24 };

typedef struct {
  unsigned char bytes[64];
} options;
typedef struct {
  size_t input, output, temp;
} alignments;

int ecmv_works_on_host_memory = 1;

static int fails(const char* what) {
  const char* fault = getenv("ECMV_FAKE_FAIL");
  return fault != NULL && strcmp(fault, what) == 0;
}

#ifndef WITHOUT_VERSION
int nvcompGetProperties(uint32_t* properties) {
  if (fails("nvcompGetProperties")) return invalid;
  properties[0] = VERSION;
  properties[1] = 12000;
  return ok;
}
#endif
const char* nvcompGetStatusString(int status) { return status == invalid ? "invalid value" : "another status"; }

static int32_t field(options o, int at) {
  int32_t value;
  memcpy(&value, o.bytes + at, sizeof(value));
  return value;
}

/* Whether everything from byte `first` on is zero, as fields must be that this version does not have. */
static int zero_from(options o, int first) {
  for (int i = first; i < 64; ++i)
    if (o.bytes[i] != 0) return 0;
  return 1;
}

static int known_type(char method, int32_t type) {
  if (method != 'A') return type >= 0 && type <= 7;
  return type == 0 || (type >= 9 && type <= 11);
}

static int takes_compress(char method, options o) {
  switch (method) {
    case 'A': return field(o, 0) == 0 && known_type(method, field(o, 4)) && zero_from(o, 10);
    case 'B': return field(o, 0) == 0 && known_type(method, field(o, 4)) && zero_from(o, 8);
    case 'G': return field(o, 0) == 1 && zero_from(o, 4);
    case 'L': return known_type(method, field(o, 0)) && zero_from(o, 4);
    default: return zero_from(o, 0);
  }
}
static int takes_decompress(char method, options o) {
  if (method != 'A') return zero_from(o, 0);
  return field(o, 0) == 0 && (field(o, 4) == 0xff || known_type(method, field(o, 4))) && o.bytes[10] <= 1 &&
         zero_from(o, 11);
}

static int off(const void* pointer, size_t align) { return pointer == NULL || (uintptr_t)pointer % align != 0; }

static void say_alignments(alignments* to) {
  const alignments usual = {input_align, output_align, temp_align}, large = {4096, 4096, 4096};
  *to = fails("alignment") ? large : usual;
}

static int compress(char method, const unsigned char* const* chunks, const size_t* sizes, size_t largest, size_t count,
                    void* temp, size_t temp_bytes, unsigned char* const* out, size_t* out_sizes, options o,
                    int* statuses) {
  if (!takes_compress(method, o) || count == 0 || temp_bytes < temp_of_chunk * count) return invalid;
  if (off(temp, temp_align)) return misaligned;
  memset(temp, 0xEE, temp_of_chunk * count);
  for (size_t i = 0; i < count; ++i) {
    if (off(chunks[i], input_align) || off(out[i], output_align)) return misaligned;
    if (sizes[i] == 0 || sizes[i] > largest) return too_large;
    int same = 1;
    for (size_t k = 1; k < sizes[i] && same; ++k) same = chunks[i][k] == chunks[i][0];
    const uint32_t size = (uint32_t)sizes[i];
    const unsigned char header[8] = {'F', method, (unsigned char)same, o.bytes[4], o.bytes[8], o.bytes[9], 0, 0};
    memcpy(out[i], header, 8);
    memcpy(out[i] + 8, &size, 4);
    const size_t kept = same ? 1 : sizes[i];
    for (size_t k = 0; k < kept; ++k) out[i][header_bytes + k] = (unsigned char)~chunks[i][k];
    out_sizes[i] = header_bytes + kept;
    statuses[i] = ok;
  }
  if (fails("bad_chunk")) statuses[count - 1] = invalid;
  if (fails("long_chunk")) out_sizes[count - 1] = largest + header_bytes + 1;
  return ok;
}

static int decompress_chunk(char method, const unsigned char* in, size_t in_bytes, unsigned char* out, size_t room,
                            size_t* size, options o) {
  uint32_t stored = 0;
  if (in_bytes <= header_bytes || in[0] != 'F' || in[1] != (unsigned char)method || in[2] > 1) return cannot_decompress;
  memcpy(&stored, in + 8, 4);
  const int same = in[2];
  if (stored > room || in_bytes != header_bytes + (same ? 1 : (size_t)stored)) return cannot_decompress;
  /* The caller's values must be right. */
  if (method == 'A' && field(o, 4) != 0xff && (in[3] != o.bytes[4] || in[4] != o.bytes[8] || in[5] != o.bytes[9]))
    return cannot_decompress;
  for (size_t k = 0; k < stored; ++k) out[k] = (unsigned char)~in[header_bytes + (same ? 0 : k)];
  *size = stored;
  return ok;
}

static int decompress(char method, const unsigned char* const* in, const size_t* in_sizes, const size_t* room,
                      size_t* sizes, size_t count, void* temp, size_t temp_bytes, unsigned char* const* out, options o,
                      int* statuses) {
  if (!takes_decompress(method, o) || count == 0 || temp_bytes < temp_of_chunk * count) return invalid;
  if (off(temp, temp_align)) return misaligned;
  memset(temp, 0xEE, temp_of_chunk * count);
  for (size_t i = 0; i < count; ++i) {
    if (off(in[i], input_align) || off(out[i], output_align)) return misaligned;
    sizes[i] = 0;
    statuses[i] = decompress_chunk(method, in[i], in_sizes[i], out[i], room[i], &sizes[i], o);
  }
  if (fails("bad_chunk")) statuses[count - 1] = cannot_decompress;
  if (fails("short_chunk")) --sizes[count - 1];
  return ok;
}

#define TEMP(NAME, WAY)                                                                                         \
  int nvcompBatched##NAME##WAY##GetTempSize(size_t count, size_t largest, options o, size_t* bytes, size_t all, \
                                            void* stream) {                                                     \
    (void)o, (void)stream;                                                                                      \
    *bytes = temp_of_chunk * count;                                                                             \
    return fails(#WAY "GetTempSize") || largest > all ? invalid : ok;                                           \
  }

#define COMPRESS(NAME, LETTER)                                                                                    \
  TEMP(NAME, Compress)                                                                                            \
  int nvcompBatched##NAME##CompressGetMaxOutputChunkSize(size_t largest, options o, size_t* bytes) {              \
    *bytes = largest + header_bytes;                                                                              \
    return fails("CompressGetMaxOutputChunkSize") || !takes_compress(LETTER, o) ? invalid : ok;                   \
  }                                                                                                               \
  int nvcompBatched##NAME##CompressGetRequiredAlignments(options o, alignments* to) {                             \
    say_alignments(to);                                                                                           \
    return fails("CompressGetRequiredAlignments") || !takes_compress(LETTER, o) ? invalid : ok;                   \
  }                                                                                                               \
  int nvcompBatched##NAME##CompressAsync(const unsigned char* const* chunks, const size_t* sizes, size_t largest, \
                                         size_t count, void* temp, size_t temp_bytes, unsigned char* const* out,  \
                                         size_t* out_sizes, options o, int* statuses, void* stream) {             \
    if (fails("CompressAsync") || stream == NULL) return invalid;                                                 \
    return compress(LETTER, chunks, sizes, largest, count, temp, temp_bytes, out, out_sizes, o, statuses);        \
  }
#define DECOMPRESS(NAME, LETTER)                                                                                       \
  TEMP(NAME, Decompress)                                                                                               \
  int nvcompBatched##NAME##DecompressGetRequiredAlignments(options o, alignments* to) {                                \
    say_alignments(to);                                                                                                \
    return fails("DecompressGetRequiredAlignments") || !takes_decompress(LETTER, o) ? invalid : ok;                    \
  }                                                                                                                    \
  int nvcompBatched##NAME##DecompressAsync(const unsigned char* const* in, const size_t* in_sizes, const size_t* room, \
                                           size_t* sizes, size_t count, void* temp, size_t temp_bytes,                 \
                                           unsigned char* const* out, options o, int* statuses, void* stream) {        \
    if (fails("DecompressAsync") || stream == NULL) return invalid;                                                    \
    return decompress(LETTER, in, in_sizes, room, sizes, count, temp, temp_bytes, out, o, statuses);                   \
  }

COMPRESS(ANS, 'A')
#ifndef WITHOUT_DECOMPRESS
DECOMPRESS(ANS, 'A')
#endif
#ifndef ONLY_ANS
COMPRESS(Bitcomp, 'B')
DECOMPRESS(Bitcomp, 'B')
COMPRESS(Gdeflate, 'G')
DECOMPRESS(Gdeflate, 'G')
COMPRESS(LZ4, 'L')
DECOMPRESS(LZ4, 'L')
COMPRESS(Zstd, 'Z')
DECOMPRESS(Zstd, 'Z')
#endif
