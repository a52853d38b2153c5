/* ecmv_codec.h: a codec from outside the source tree, as a shared object in plain C11. ABI.md is the tutorial;
 * `ecmv new-codec NAME --out-of-tree DIR` writes a folder to start from.
 *
 * The library exports one function, ecmv_codec_library_1, which hands out tables: codecs, their settings, their
 * kernels. Everything in the tables is static data of the library; the program reads it, never writes or frees it, and
 * never unloads the library.
 *
 * Sizes    Every struct begins with struct_bytes, its size where it was made. The library sets it in the structs of its
 *          tables to sizeof of the struct. Newer headers only append fields. A field that the program does not know yet
 *          has to be 0; a field that the library does not know is not looked at. A library that reads a field appended
 *          to a struct of the program checks that struct_bytes reaches it. A change that is not an appended field
 *          renames the exported function (..._2).
 * Errors   Functions return NULL for success and otherwise one sentence that a user can read, in UTF-8, of more than 20
 *          bytes and at most 500, with a full stop at its end. It is a constant, or belongs to the library and stays
 *          until the next call on the same thread. Nothing may be thrown, and nothing may call exit or abort.
 * Threads  The program calls all functions from several threads at once, for different matrices and for different rows
 *          of one matrix. Functions keep no state between calls. A thread's stack is a few megabytes: allocate large
 *          arrays.
 * Memory   Whoever allocates frees. Stored bytes and results are in memory of the program. Nothing that a function gets
 *          a pointer to may be used after it has returned, unless said otherwise.
 * Shapes   are [rows, cols], row-major. Zero rows or columns are legal; pointers to no elements may be NULL.
 * Integers are in the machine's byte order, which is little-endian. Counts of bytes and rows are int64_t and never
 *          negative.
 */
#ifndef ECMV_CODEC_H
#define ECMV_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits that the program checks. */
enum {
  ECMV_MAX_SECTIONS = 10,         /* of one matrix */
  ECMV_MAX_SETTINGS = 16,         /* of one codec */
  ECMV_MAX_BATCH = 64,            /* tokens of one matmul */
  ECMV_PARAMETER_BYTES = 256,     /* that ecmv_kernel.bind and ecmv_gpu_kernel.bind may leave */
  ECMV_VECTOR_PADDING_BYTES = 64, /* readable zeros past the last element of x */
  ECMV_MAX_TOKENS = 4096,         /* of one matmul of an ecmv_gpu_kernel */
  ECMV_HOST_COPY_BYTES = 256      /* longest section on a GPU of which the host has a copy */
};

/* Types of elements. */
enum {
  ECMV_I8 = 0,
  ECMV_U8 = 1,
  ECMV_BF16 = 2,
  ECMV_F16 = 3,
  ECMV_F32 = 4,
  ECMV_F64 = 5,
  ECMV_I16 = 6,
  ECMV_U16 = 7,
  ECMV_I32 = 8,
  ECMV_U32 = 9,
  ECMV_I64 = 10,
  ECMV_U64 = 11,
  ECMV_F8_E5M2 = 12,
  ECMV_F8_E4M3 = 13
};

/* What the bytes of a section are: tables of sizes are split by it. */
enum { ECMV_PAYLOAD = 0, ECMV_TABLE = 1, ECMV_INDEX = 2, ECMV_SCALE = 3 };

/* ------------------------------------------------------------------------------------------------- from the program */

/* The program that loads the library. */
typedef struct ecmv_host {
  size_t struct_bytes;
  const char* name; /* "ecmv" */
} ecmv_host;

/* A matrix to encode. */
typedef struct ecmv_matrix {
  size_t struct_bytes;
  int64_t rows, cols;
  uint32_t element_type;  /* ECMV_I8, ... */
  uint32_t element_bytes; /* of one element */
  const void* elements;   /* [rows, cols]; may be unaligned */
} ecmv_matrix;

/* Stored bytes: one part of a compressed matrix. */
typedef struct ecmv_section {
  size_t struct_bytes;
  const char* name;
  uint32_t role; /* ECMV_PAYLOAD, ... */
  uint32_t reserved;
  const uint8_t* bytes; /* for kernels aligned to 64 bytes, for ecmv_codec.decode perhaps not at all */
  int64_t byte_count;   /* not one byte beyond it may be read */
} ecmv_section;

/* A compressed matrix. Sections stand in the order in which encode() added them. */
typedef struct ecmv_compressed {
  size_t struct_bytes;
  int64_t rows, cols;
  uint32_t element_type, element_bytes;
  const int64_t* settings; /* one value a declared setting, see ecmv_setting */
  const ecmv_section* const* sections;
  int64_t section_count;
} ecmv_compressed;

/* Receives what encode() stores. All memory is the program's. */
typedef struct ecmv_output {
  size_t struct_bytes;
  /* A new section: zeroed memory of byte_count bytes, aligned to 16 bytes, which may be written until encode() returns.
   * `name` is in lower_snake_case and unique in the matrix; padding_bytes of the byte_count bytes, wherever they lie,
   * carry nothing and are shown as padding: they are counted, too. All sections together never exceed
   * max_stored_bytes(). For 0 bytes the pointer may not be followed. NULL: the program has refused and noted why;
   * encode() returns at once, with any value. */
  uint8_t* (*add_section)(struct ecmv_output* output, const char* name, uint32_t role, int64_t byte_count,
                          int64_t padding_bytes);
  /* Cuts the section that was added last to byte_count bytes, which still include its padding_bytes: for encoders that
   * know their length only afterwards. */
  void (*shrink_last_section)(struct ecmv_output* output, int64_t byte_count);
} ecmv_output;

/* Where a kernel will run. A fact that is not known is 0 or "". */
typedef struct ecmv_device {
  size_t struct_bytes;
  const char* backend; /* "scalar" or "simd" */
  /* On simd the instruction set in use, by Highway's name: "AVX2", "NEON", ... Kernels refuse others than theirs. */
  const char* simd_target;
  const char* name;                /* model of the CPU */
  int64_t threads;                 /* that run kernels */
  int64_t l1d_bytes, l2_bytes;     /* of one core */
  int64_t llc_bytes, memory_bytes; /* last-level cache, shared; total */
} ecmv_device;

/* Facts that ecmv_kernel.bind states about one matrix. The comments name the defaults that the program sets. */
typedef struct ecmv_binding {
  size_t struct_bytes;
  int64_t rows_per_block; /* 1; rows that can only be worked on together: ranges begin at a multiple of it */
  int64_t scratch_bytes;  /* 0; that every call gets */
  /* ECMV_PARAMETER_BYTES zero bytes, aligned to 16, to be filled in: every call gets a copy. No pointers to memory of
   * the library's heap: a table that decodes is stored in a section, where it is counted, or made in scratch. */
  void* parameters;
  uint32_t requantises; /* 0; 1: a matvec that writes v besides y */
  /* matmul: how far its results may lie from the exact product of the decoded elements, beyond float32 products summed
   * in any order: with n = cols + more_roundings, u = 2^-24 and g = n u / (1 - n u),
   * |error| <= (g + narrowing) * sum over the columns of (|w| + offset) * |x|. */
  uint32_t more_roundings; /* 0 */
  /* 0; a term that is multiplied apart from the elements and added, e.g. twice the magnitude of a zero point. */
  double offset;
  double narrowing; /* 0; relative error of rounding factors to a narrower type before they are multiplied */
} ecmv_binding;

/* What every call of a kernel gets. */
typedef struct ecmv_call {
  size_t struct_bytes;
  const ecmv_compressed* matrix; /* that bind() saw */
  const void* parameters;        /* that bind() left; zeros without one */
  uint32_t policy;               /* position in ecmv_kernel.policies */
  uint32_t reserved;
  int64_t row_begin, row_end; /* begin is a multiple of rows_per_block, and so is end unless it is rows */
  void* scratch;              /* scratch_bytes of this call's own, aligned to 64 bytes; undefined content */
} ecmv_call;

typedef struct ecmv_decode_args {
  size_t struct_bytes;
  void* out; /* [row_end - row_begin, cols] elements: row_begin's first element is written to its beginning */
} ecmv_decode_args;

/* y = W x, sums in int32. Only for matrices of ECMV_I8: a matvec kernel never sees others. */
typedef struct ecmv_matvec_args {
  size_t struct_bytes;
  const int8_t* x; /* [cols], aligned to 64 bytes, zeros past it */
  int32_t* y;      /* [rows], the whole vector: y[row_begin] to y[row_end - 1] are written */
  /* [rows], only for kernels that requantise: round half to even of (float)y * scale, cut to -128..127. */
  int8_t* v;
  float scale;
} ecmv_matvec_args;

/* Y = W X in float32, elements of any type taken as numbers. */
typedef struct ecmv_matmul_args {
  size_t struct_bytes;
  int64_t batch; /* tokens, 1 to ECMV_MAX_BATCH */
  /* [batch, cols]: token t begins at x + t * x_stride, aligned to 64 bytes, zeros past its cols elements. */
  const float* x;
  int64_t x_stride; /* a multiple of 16, at least cols + 16 */
  float* y;         /* [batch, all rows]: y[t * y_stride + row] is written for the call's rows */
  int64_t y_stride;
} ecmv_matmul_args;

/* Stored bytes in the memory of a GPU. On the backend "emulator" that is the host's memory. */
typedef struct ecmv_gpu_section {
  size_t struct_bytes;
  const char* name;
  uint32_t role; /* ECMV_PAYLOAD, ... */
  uint32_t reserved;
  const void* device_bytes;  /* aligned to 256 bytes; NULL in ecmv_gpu_kernel.refuses */
  const uint8_t* host_bytes; /* the same bytes for the host; NULL if they are more than ECMV_HOST_COPY_BYTES */
  int64_t byte_count;        /* not one byte beyond it may be read */
} ecmv_gpu_section;

/* A compressed matrix there. */
typedef struct ecmv_gpu_matrix {
  size_t struct_bytes;
  int64_t rows, cols;
  uint32_t element_type, element_bytes;
  const int64_t* settings; /* as in ecmv_compressed */
  const ecmv_gpu_section* const* sections;
  int64_t section_count;
} ecmv_gpu_matrix;

/* The GPU that a kernel will run on; during every call it is the thread's current device. Facts that are not known are
 * 0 or "". */
typedef struct ecmv_gpu_device {
  size_t struct_bytes;
  const char* backend;      /* "cuda", "hip" or "emulator" */
  const char* name;         /* its model */
  const char* architecture; /* "sm_90", "gfx90a"; of the emulator "wave32" and "wave64" */
  int64_t wave_size;        /* threads that run in step: a warp's, a wavefront's */
  int64_t multiprocessors;  /* compute units */
  int64_t shared_bytes;     /* shared memory that a thread block may ask for */
  int64_t l2_bytes, memory_bytes;
} ecmv_gpu_device;

/* Facts that ecmv_gpu_kernel.bind states about one matrix. The comments name the defaults that the program sets. */
typedef struct ecmv_gpu_binding {
  size_t struct_bytes;
  int64_t scratch_bytes; /* 0; of device memory, that every call gets */
  /* ECMV_PARAMETER_BYTES zero bytes, aligned to 16, to be filled in: every call gets a copy. They may point to the
   * sections, which stay where they are. A table that decodes is stored in a section, where it is counted, or made in
   * scratch by every call. */
  void* parameters;
  uint32_t requantises;    /* 0; 1: a matvec that writes v besides y */
  uint32_t not_capturable; /* 0; 1: calls cannot be captured in a graph, so the kernel runs only as plain launches */
  uint32_t more_roundings; /* as in ecmv_binding, and so are offset and narrowing */
  /* 0; 1: factors and sums below the normal numbers of float32 count as zero. */
  uint32_t flushes_subnormals;
  double offset, narrowing;
  /* 0; sums by matrix units, which add the products of unit_cols columns and the sum so far at once. After chain_cols
   * columns a sum begins anew, and more_roundings counts those sums. */
  uint32_t unit_cols;
  uint32_t reserved;
  int64_t chain_cols;
} ecmv_gpu_binding;

/* What every call of a GPU kernel gets. */
typedef struct ecmv_gpu_call {
  size_t struct_bytes;
  /* A cudaStream_t or hipStream_t, on which all work of the call goes; NULL on the emulator. It may be under capture:
   * nothing may wait, allocate or use another stream. */
  void* stream;
  const void* parameters; /* that bind() left */
  int64_t rows, cols;     /* of the matrix, all of which a call works on */
  uint32_t policy;        /* position in ecmv_gpu_kernel.policies */
  uint32_t reserved;
  void* scratch; /* device memory of scratch_bytes, aligned to 256 bytes; undefined content */
} ecmv_gpu_call;

/* Y = W X in float32, on the device. ecmv_decode_args and ecmv_matvec_args serve GPUs as they are. */
typedef struct ecmv_gpu_matmul_args {
  size_t struct_bytes;
  int64_t tokens; /* that bind() was told */
  /* [tokens, cols] of ecmv_gpu_kernel.token_type: token t begins at element t * x_stride, aligned to 64 bytes, zeros
   * past its cols elements for ECMV_VECTOR_PADDING_BYTES. */
  const void* x;
  int64_t x_stride;
  float* y; /* [tokens, rows]: y[t * y_stride + row] is written for all rows */
  int64_t y_stride;
} ecmv_gpu_matmul_args;

/* ------------------------------------------------------------------------------------------------- from the library */

/* One setting, an integer or a text. Functions get the settings of a codec as an array of int64_t in the order of their
 * declaration: an integer as its value, a text as the position of its choice. The program has checked them. */
typedef struct ecmv_setting {
  size_t struct_bytes;
  const char* name; /* lower_snake_case */
  const char* unit; /* may be NULL */
  const char* help;
  int64_t default_value;      /* of a text the position of the choice */
  int64_t min, max;           /* of integers, inclusive */
  const char* const* choices; /* [choice_count] of texts: letters, digits and "_.+-" */
  int64_t choice_count;       /* 0: an integer */
} ecmv_setting;

/* A kernel for CPUs: exactly one of decode, matvec and matmul. It runs on one thread, several threads on disjoint
 * ranges of rows at once. It reads nothing outside the sections, x, its parameters and its scratch, writes nothing
 * outside the results of its rows and the scratch, and allocates nothing. It only sees matrices that the codec's
 * decode() has decoded without an error. */
typedef struct ecmv_kernel {
  size_t struct_bytes;
  const char* variant; /* names a method, not a machine, in lower_snake_case; unique with the operation */
  uint32_t on_scalar;  /* 1: offered on the backend `scalar` */
  uint32_t on_simd;    /* 1: offered on the backend `simd` */
  /* [policy_count] names of its forms, in lower_snake_case; they choose nothing but speed. */
  const char* const* policies;
  int64_t policy_count; /* 0: one form, "default" */
  /* Optional. A sentence if this kernel cannot run this matrix there. */
  const char* (*refuses)(const ecmv_compressed* matrix, const ecmv_device* device, uint32_t policy);
  /* Optional: once for a matrix, untimed. The bytes of the sections are where the calls will find them. */
  const char* (*bind)(const ecmv_compressed* matrix, const ecmv_device* device, uint32_t policy, ecmv_binding* binding);
  const char* (*decode)(const ecmv_call* call, const ecmv_decode_args* args);
  const char* (*matvec)(const ecmv_call* call, const ecmv_matvec_args* args);
  const char* (*matmul)(const ecmv_call* call, const ecmv_matmul_args* args);
} ecmv_kernel;

/* A kernel for GPUs, compiled by the library's own nvcc or hipcc: exactly one of decode, matvec and matmul. For the
 * backend "emulator" it is a function of the host: it works on the host's memory, one call at a time, and is done when
 * it returns; it is verified and never timed. Each of the three functions starts the work for all rows and returns at
 * once; a launch that fails is a sentence. It reads nothing outside the sections, x and its scratch, and writes nothing
 * outside the results and the scratch. It only sees matrices that the codec's decode() has decoded without an error. */
typedef struct ecmv_gpu_kernel {
  size_t struct_bytes;
  const char* backend; /* "cuda", "hip" or "emulator" */
  const char* variant; /* as in ecmv_kernel; unique with backend, operation and token_type */
  const char* const* policies;
  int64_t policy_count; /* 0: one form, "default" */
  uint32_t token_type;  /* of matmul: ECMV_F32 or ECMV_BF16; else 0 */
  uint32_t reserved;
  int64_t most_tokens; /* of matmul, that one call multiplies: 0 for ECMV_MAX_BATCH, at most ECMV_MAX_TOKENS; else 0 */
  /* Optional. A sentence if this kernel cannot run this matrix there. */
  const char* (*refuses)(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy);
  /* Once for a matrix and a number of tokens (1 unless a matmul), untimed. */
  const char* (*bind)(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device* device, uint32_t policy, int64_t tokens,
                      ecmv_gpu_binding* binding);
  const char* (*decode)(const ecmv_gpu_call* call, const ecmv_decode_args* args);
  const char* (*matvec)(const ecmv_gpu_call* call, const ecmv_matvec_args* args);
  const char* (*matmul)(const ecmv_gpu_call* call, const ecmv_gpu_matmul_args* args);
} ecmv_gpu_kernel;

typedef struct ecmv_codec {
  size_t struct_bytes;
  const char* id;          /* lower_snake_case, not the id of another codec */
  const char* summary;     /* one line */
  const char* source;      /* paper or repository the method comes from */
  uint32_t format_version; /* from 1; +1 whenever a stored byte changes */
  uint32_t lossy;          /* 1: decoded elements may differ from their source, and error_bound says how far */
  uint32_t bytes_vary;     /* 1: a library's version decides what encode() writes */
  uint32_t reserved;
  const ecmv_setting* settings; /* [setting_count] */
  int64_t setting_count;
  /* A sentence if the matrix cannot be encoded with these settings. */
  const char* (*refuses)(const ecmv_matrix* matrix, const int64_t* settings);
  /* Only for matrices that refuses() lets pass. The same input gives the same bytes. */
  const char* (*encode)(const ecmv_matrix* matrix, const int64_t* settings, ecmv_output* output);
  /* The reference: plain loops that check every access, for the bytes may be damaged in any way, the number of sections
   * included. `out` takes out_bytes = rows * cols * element_bytes bytes, aligned to 8; all of them are written, or a
   * sentence says what is wrong with the bytes. */
  const char* (*decode)(const ecmv_compressed* matrix, void* out, int64_t out_bytes);
  /* The most that all sections together take, over all matrices of that many rows of row_bytes bytes. Every encode() is
   * held to it. Estimates ask for it, too, before refuses() is asked: any shape, settings that are checked. */
  const char* (*max_stored_bytes)(int64_t rows, int64_t row_bytes, const int64_t* settings, int64_t* bytes);
  /* Lossy codecs: |decoded - source| <= max(relative * |source|, absolute) for this matrix. NaN stays a NaN, infinities
   * stay themselves. */
  const char* (*error_bound)(const ecmv_matrix* matrix, const int64_t* settings, double* relative, double* absolute);
  /* Optional: bits an element that an ideal entropy coder would take for the symbols that this codec makes of the
   * matrix. */
  const char* (*ideal_bits_per_element)(const ecmv_matrix* matrix, const int64_t* settings, double* bits);
  const ecmv_kernel* kernels; /* [kernel_count]; without any the program decodes by decode() and multiplies by itself */
  int64_t kernel_count;
  const ecmv_gpu_kernel* gpu_kernels; /* [gpu_kernel_count] */
  int64_t gpu_kernel_count;
} ecmv_codec;

typedef struct ecmv_codec_library {
  size_t struct_bytes;
  const ecmv_codec* codecs; /* [codec_count] */
  int64_t codec_count;
} ecmv_codec_library;

#if defined(_WIN32)
#define ECMV_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define ECMV_EXPORT __attribute__((visibility("default")))
#else
#define ECMV_EXPORT
#endif

/* What the library exports. A sentence instead of a table if it cannot be used here. It is called more than once. */
ECMV_EXPORT const char* ecmv_codec_library_1(const ecmv_host* host, const ecmv_codec_library** library);

#ifdef __cplusplus
}
#endif

#endif /* ECMV_CODEC_H */
