/* ecmv.h: compressed matrices and products with them, in plain C11, of the library libecmv. README.md beside
 * this file has a whole program.
 *
 * Names. Codecs, settings, element types and backends are named as in the configs and on the command line:
 * "lanes=32", "bf16", "simd". An unknown name is an error.
 *
 * Errors. Functions that can fail return a status, and ecmv_last_error() has a sentence. Nothing is thrown or
 * printed, and nothing ends the process. A function that fails sets the handle that it should make to NULL.
 *
 * Threads. All functions may be called from several threads at once, also with the same handles. A pass does
 * one run at a time, and so do all GPU backends together: others wait. Free a handle only when no call uses it
 * any more.
 *
 * Memory. Arrays are the caller's, row-major, and may be reused or freed as soon as a function has returned.
 * Handles may be freed in any order: a pass keeps what it needs of its context and its matrix. Freeing NULL
 * does nothing.
 *
 * Versions. Newer libraries add functions, and append fields to structs that have struct_bytes, the size that
 * the caller knows. Whatever would break a program changes the number in libecmv.so.N instead.
 */
#ifndef ECMV_H
#define ECMV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ECMV_API __attribute__((visibility("default")))
#else
#define ECMV_API
#endif

typedef enum ecmv_status {
  ECMV_OK = 0,
  ECMV_INVALID_ARGUMENT = 1, /* NULL, an unknown name or setting, a size that does not fit */
  ECMV_REFUSED = 2,          /* the codec does not store such a matrix, or it has no such product */
  ECMV_UNAVAILABLE = 3,      /* this machine cannot use the backend, the device or the codec library */
  ECMV_OUT_OF_MEMORY = 4,
  ECMV_INCORRECT = 5, /* the encoded matrix does not decode to its elements: a defect of the codec */
  ECMV_FAILED = 6,    /* anything else: a device that was lost, a defect */
  ECMV_MALFORMED = 7  /* sections or a file that are truncated, changed, or none that the codec stores */
} ecmv_status;

/* A sentence in UTF-8 about the last failed call of this thread, "" if there was none. It stays until the next
 * failure. */
ECMV_API const char* ecmv_last_error(void);

/* The version of the library that the program runs with: "0.1.0". */
ECMV_API const char* ecmv_version(void);

/* What the library was built of, for records of measurements. The texts stay valid. */
typedef struct ecmv_build {
  size_t struct_bytes;      /* sizeof(ecmv_build), set by the caller */
  const char* git_revision; /* "" if it was built of no git tree */
  int git_dirty;            /* 1 if files of that revision had been changed */
  const char *compiler, *compiler_flags, *build_type;
} ecmv_build;
ECMV_API ecmv_status ecmv_describe_build(ecmv_build* build);

/* --- codecs --------------------------------------------------------------------------------------- */

/* Codecs by number, from 0. NULL past the last one. The texts stay valid. */
ECMV_API const char* ecmv_codec_id(size_t number);
ECMV_API const char* ecmv_codec_summary(size_t number);

/* Adds the codecs of a shared object written with ecmv_codec.h; NULL: of all that the environment variable
 * ECMV_CODEC_PATH names. They stay until the process ends. The file is first tried in a forked process, so call this
 * before the program starts threads. */
ECMV_API ecmv_status ecmv_load_codec_library(const char* file);

/* --- compressed matrices -------------------------------------------------------------------------- */

/* A compressed matrix in the host's memory. It never changes. */
typedef struct ecmv_compressed_matrix ecmv_compressed_matrix;

/* Encodes `elements`, [rows, cols] of element_type: "i8", "u8", "bf16", "f16", "f32", "f64", "i16", "u16", "i32",
 * "u32", "i64", "u64", "f8_e5m2" or "f8_e4m3"; aligned as their type, NULL if there are none. `settings` are
 * "name=value,name=value"; others keep their defaults; NULL: all do. Before the matrix is returned it is decoded again
 * and compared with `elements` (for a lossy codec: with the bound that it states). Some codecs use all threads of the
 * process (OMP_NUM_THREADS, else all cores); calls at once share them, as those of ecmv_from_sections and ecmv_load do.
 * So encode the matrices of a model from as many threads. */
ECMV_API ecmv_status ecmv_encode(const char* codec, const char* settings, const char* element_type, int64_t rows,
                                 int64_t cols, const void* elements, ecmv_compressed_matrix** matrix);
ECMV_API void ecmv_free_matrix(ecmv_compressed_matrix* matrix);

/* Stored sizes in bytes. Every byte that a product may read is counted in one of the roles. */
typedef struct ecmv_sizes {
  size_t struct_bytes;                  /* sizeof(ecmv_sizes), set by the caller */
  int64_t payload, table, index, scale; /* by role, padding included */
  int64_t padding;                      /* the part of these bytes that carries nothing */
  int64_t stored;                       /* payload + table + index + scale */
  double bits_per_element;              /* 8 * stored / (rows * cols); 0 without elements */
} ecmv_sizes;
ECMV_API ecmv_status ecmv_sizes_of(const ecmv_compressed_matrix* matrix, ecmv_sizes* sizes);

/* Decodes the elements, [rows, cols], by the codec's reference decoder: plain, checked loops. out_bytes is the
 * size of all of them. A pass decodes faster. */
ECMV_API ecmv_status ecmv_decode(const ecmv_compressed_matrix* matrix, void* out, size_t out_bytes);

/* --- sections, and files of matrices -------------------------------------------------------------- */

/* A stored part of a compressed matrix. All of its bytes belong to a stream, and kernels read no others. */
typedef struct ecmv_stored_section {
  size_t struct_bytes; /* sizeof(ecmv_stored_section), set by the caller */
  const char* name;    /* of the codec: "header", "codes" */
  const char* role;    /* "payload", "table", "index" or "scale" */
  const void* place;   /* [bytes], host memory; of ecmv_bind_known_product the context's */
  size_t bytes;
  size_t padding;   /* how many of these bytes carry nothing */
  size_t alignment; /* of the first byte on every device, in bytes; a power of two, at most 4096 */
} ecmv_stored_section;

/* How many sections the matrix has; 0 for NULL. */
ECMV_API size_t ecmv_section_count(const ecmv_compressed_matrix* matrix);
/* Section `number`, from 0. Its texts and its bytes live as long as the matrix. */
ECMV_API ecmv_status ecmv_section_of(const ecmv_compressed_matrix* matrix, size_t number, ecmv_stored_section* section);

/* What else makes a matrix out of its sections. */
typedef struct ecmv_description {
  size_t struct_bytes;      /* sizeof(ecmv_description), set by the caller */
  const char* codec;        /* as for ecmv_encode */
  const char* settings;     /* "name=value,name=value"; where the caller sets it, others keep their defaults */
  const char* element_type; /* "bf16" */
  int64_t rows, cols;       /* of the matrix, [rows, cols] */
  uint32_t format_version;  /* of the codec */
  /* Of everything that makes the matrix: the above, and the sections with their bytes. ecmv_describe computes it,
   * never 0, for callers who know the field. Given to ecmv_from_sections, 0: the codec checks the sections. */
  uint64_t hash;
} ecmv_description;
/* The texts live as long as the matrix. */
ECMV_API ecmv_status ecmv_describe(const ecmv_compressed_matrix* matrix, ecmv_description* description);

/* Makes a matrix of sections [count], which are copied, in the order in which the codec made them. The codec's
 * reference decoder must take them, which is all that kernels rely on; it costs as much as ecmv_decode. ECMV_MALFORMED
 * if it does not, or if the format has another version than this library's.
 *
 * With a hash in the description the sections are compared with that instead, as fast as memory is read. It finds every
 * damage, but whoever makes sections can make the hash for them, and kernels check nothing: give only a hash that the
 * program has from ecmv_describe, or from somebody whom it trusts like its own code. */
ECMV_API ecmv_status ecmv_from_sections(const ecmv_description* description, const ecmv_stored_section* sections,
                                        size_t count, ecmv_compressed_matrix** matrix);

/* Writes matrices [count] with their names to one file in the safetensors format: the section s of the matrix m is the
 * tensor "m.s" of bytes, and the metadata "ecmv.matrices" describe all of them. `path` is replaced once all is written.
 */
ECMV_API ecmv_status ecmv_save(const char* path, const char* const* names,
                               const ecmv_compressed_matrix* const* matrices, size_t count);

/* The JSON object that such a file has about the matrix under this name, for programs that write one with other tensors
 * beside the matrices: "ecmv.matrices" is a list of them, "ecmv.version" is "1". `text` ends with a zero, in text_bytes
 * bytes; twice the bytes of the name and 8192 more are enough. */
ECMV_API ecmv_status ecmv_describe_in_file(const ecmv_compressed_matrix* matrix, const char* name, char* text,
                                           size_t text_bytes);

/* A file of ecmv_save, open. Other tensors in it do not matter. Whoever writes to the file must wait until it is
 * closed. */
typedef struct ecmv_file ecmv_file;
ECMV_API ecmv_status ecmv_open_file(const char* path, ecmv_file** file);
/* The name of matrix `number`, from 0, as long as the file is open; NULL past the last one. */
ECMV_API const char* ecmv_file_name(const ecmv_file* file, size_t number);
/* Makes the matrix of that name. Its bytes must be those that were written, and the codec must take them, as for
 * ecmv_from_sections. Several threads may load matrices at once. The matrix outlives the file. */
ECMV_API ecmv_status ecmv_load(const ecmv_file* file, const char* name, ecmv_compressed_matrix** matrix);
/* The same for a file of somebody whom the program trusts like its own code: damage is found by the hash in the file,
 * but the codec checks nothing, which takes most of the time of ecmv_load. */
ECMV_API ecmv_status ecmv_load_trusted(const ecmv_file* file, const char* name, ecmv_compressed_matrix** matrix);
ECMV_API void ecmv_close_file(ecmv_file* file);

/* --- products ------------------------------------------------------------------------------------- */

/* Where products run: a backend with its threads, or a GPU. */
typedef struct ecmv_context ecmv_context;

/* `backend`: "scalar" (portable code), "simd" (the best instruction set of this CPU), "best" or NULL (simd, and scalar
 * if simd has no kernel), or the GPU backends "cuda", "hip" and "emulator", which are plugins of their own
 * (libecmv_cuda.so ...) and work on copies of their inputs. `threads` of the CPU backends: 0 for all that the process
 * may use. `device`: which GPU, -1 for the first. */
ECMV_API ecmv_status ecmv_open(const char* backend, int threads, int device, ecmv_context** context);
ECMV_API void ecmv_close(ecmv_context* context);

/* The settings that `ecmv tune` found for matrices of this type and shape on this context, for ecmv_encode. `file`:
 * what it wrote. `op`: the pass that shall be fast, "decode", "matvec" or "matmul" (of float32 tokens). `settings`:
 * those with open values that it was asked for, as for ecmv_encode. `found` gets a text that ends with a zero, in
 * found_bytes bytes: where the file has nothing for this device, the given settings, so that the codec chooses. */
ECMV_API ecmv_status ecmv_tuned_settings(const ecmv_context* context, const char* file, const char* op,
                                         const char* codec, const char* settings, const char* element_type,
                                         int64_t rows, int64_t cols, char* found, size_t found_bytes);

/* An operation bound to one matrix and one context, with memory for its input and its result: prepared once, run as
 * often as wanted. A run copies its input, runs and copies its result; it binds, chooses and allocates nothing.
 *
 * The first pass of a matrix in some memory (the host's, a GPU's) copies the stored bytes there. All passes that live
 * at the same time share that copy, and the matrix may be freed.
 *
 * The kernel is the codec's first choice for so many tokens that takes the matrix there: one that multiplies while it
 * decodes; else, or for many tokens on a GPU, one that decodes, and the backend then multiplies; else, on CPUs, the
 * reference decoder. */
typedef struct ecmv_pass ecmv_pass;

/* y = W x for int8 elements with sums in int32, exact. At most 131071 columns. */
ECMV_API ecmv_status ecmv_prepare_matvec(const ecmv_context* context, const ecmv_compressed_matrix* matrix,
                                         ecmv_pass** pass);
/* x: [cols]; y: [rows]. */
ECMV_API ecmv_status ecmv_run_matvec(ecmv_pass* pass, const int8_t* x, int32_t* y);

/* Y = W X in float32 for `batch` tokens, 1 to 4096, and elements of any type that float32 holds exactly, taken as
 * numbers. The sums are float32 sums in an order of the kernel's own. */
ECMV_API ecmv_status ecmv_prepare_matmul(const ecmv_context* context, const ecmv_compressed_matrix* matrix, int batch,
                                         ecmv_pass** pass);
/* x: [batch, cols]; y: [batch, rows]. */
ECMV_API ecmv_status ecmv_run_matmul(ecmv_pass* pass, const float* x, float* y);

/* Decodes the elements on all threads of the context. The pass holds a decoded copy. */
ECMV_API ecmv_status ecmv_prepare_decode(const ecmv_context* context, const ecmv_compressed_matrix* matrix,
                                         ecmv_pass** pass);
/* out: [rows, cols], out_bytes the size of all of them. */
ECMV_API ecmv_status ecmv_run_decode(ecmv_pass* pass, void* out, size_t out_bytes);

/* The chosen kernel: "simd/matvec/interleaved/rows4", "simd/decode/blocks/default, unfused" or "simd/reference". The
 * text lives as long as the pass. */
ECMV_API const char* ecmv_pass_kernel(const ecmv_pass* pass);
ECMV_API void ecmv_free_pass(ecmv_pass* pass);

/* --- products on memory of the caller ------------------------------------------------------------- */

/* Memory of a context: a GPU's own, the host's for CPU backends. Programs that have such memory already, by their
 * framework or the platform's own calls, need none of these functions, except on the emulator, which knows no other. */
typedef struct ecmv_buffer ecmv_buffer;
/* `bytes` of zeros. */
ECMV_API ecmv_status ecmv_allocate(const ecmv_context* context, size_t bytes, ecmv_buffer** buffer);
/* Its first byte, aligned to 64 bytes, on GPUs to 256; a GPU's memory on a GPU. NULL for NULL. */
ECMV_API void* ecmv_place(const ecmv_buffer* buffer);
/* Copy `bytes` host bytes to or from byte `offset` on, and return when that is done. They wait for nothing that a
 * stream does. */
ECMV_API ecmv_status ecmv_write(ecmv_buffer* buffer, size_t offset, const void* from, size_t bytes);
ECMV_API ecmv_status ecmv_read(const ecmv_buffer* buffer, size_t offset, void* to, size_t bytes);
/* Free it only when no product and no stream uses it any more. */
ECMV_API void ecmv_free_buffer(ecmv_buffer* buffer);
/* Waits for all that the context's device does, on any stream. Not while a stream is under capture. */
ECMV_API ecmv_status ecmv_synchronize(const ecmv_context* context);

/* Bytes in the memory of a context. */
typedef struct ecmv_span {
  const void* place;
  size_t bytes;
} ecmv_span;

/* Memory that products use while they run: tokens and results in the kernels' form, and scratch of kernels. Products
 * with one workspace take turns, also on different streams, so those of a model's layers, which run one after the
 * other, share one. It grows when a product is bound that needs more; then products that were bound before keep theirs,
 * so bind the largest first. It may be freed before its products. */
typedef struct ecmv_workspace ecmv_workspace;
ECMV_API ecmv_status ecmv_make_workspace(const ecmv_context* context, ecmv_workspace** workspace);
/* The bytes that it has for the next product; 0 for NULL. */
ECMV_API size_t ecmv_workspace_bytes(const ecmv_workspace* workspace);
ECMV_API void ecmv_free_workspace(ecmv_workspace* workspace);

typedef struct ecmv_product_options {
  size_t struct_bytes; /* sizeof(ecmv_product_options), set by the caller */
  int64_t max_tokens;  /* of one ecmv_enqueue_product; at least 1 */
  const char* x_type;  /* "f32" or "bf16" */
  const char* y_type;  /* "f32" or "bf16" */
  const void* bias;    /* [rows] of y_type, in the context's memory; NULL: none. It must outlive the product */
  /* [section_count]: the matrix's sections in the context's memory, in their order, aligned to 64 bytes, on GPUs to
   * 256, and to what the section asks for. They must hold the section's bytes, which is checked when the product is
   * bound, must not change, and must outlive the product. NULL: the library's own copy, which all passes and products
   * share. */
  const ecmv_span* sections;
  size_t section_count;
  ecmv_workspace* workspace; /* of the same context; NULL: one of its own */
  /* Not 0: of the kernels that take the matrix each is timed for each number of tokens, on the device itself, and the
   * fastest is taken; all matrices of one shape, codec and settings take what was found for the first of them in this
   * process. Sums may then come in another order in another process, and the fastest kernel may need more scratch.
   * 0: the codec's own choice. */
  int32_t measure;
} ecmv_product_options;

/* Y = W X for a stored matrix W, [rows, cols], of any type that float32 holds exactly. The tokens are X, [tokens,
 * cols], and the results are Y, [tokens, rows]. Sums are float32 sums in an order of the kernel's own; then the bias is
 * added, and a y in bf16 gets the nearest number, of two equally near ones the even one.
 *
 * Everything that takes time is done when a product is bound: kernels are chosen and bound for all numbers of tokens
 * (64 at once and, where a kernel or a BLAS takes so many and memory for it is at most 1/256 of the device's, up to
 * 4096; more tokens are multiplied in parts), memory is allocated, and each kernel runs once. Bind on no
 * thread whose stream is under capture.
 *
 * A product that was freed, or that never was, is told from others: ECMV_INVALID_ARGUMENT. */
typedef struct ecmv_product ecmv_product;
ECMV_API ecmv_status ecmv_bind_product(const ecmv_context* context, const ecmv_compressed_matrix* matrix,
                                       const ecmv_product_options* options, ecmv_product** product);

/* The same for a matrix whose bytes are in the context's memory alone, after a copy or from a file: `description` has
 * its hash, and the places of its sections [count] are in the context's memory, aligned as options->sections are. They
 * are read once and compared with the hash: ECMV_MALFORMED if they are others, ECMV_INVALID_ARGUMENT without a hash.
 * What ecmv_from_sections says of hashes holds here: the codec checks nothing. options->sections is NULL. Several
 * threads that bind at once read at once. */
ECMV_API ecmv_status ecmv_bind_known_product(const ecmv_context* context, const ecmv_description* description,
                                             const ecmv_stored_section* sections, size_t count,
                                             const ecmv_product_options* options, ecmv_product** product);

/* Compares bytes in the context's memory with the hash as ecmv_bind_known_product does, and binds nothing: for sections
 * that the caller's own kernels read. ECMV_MALFORMED: they are others; ECMV_INVALID_ARGUMENT: there is no hash, or a
 * section is not aligned as for a product. `workspace` lends what reading takes; NULL: it is made for this call. */
ECMV_API ecmv_status ecmv_compare_with_hash(const ecmv_context* context, const ecmv_workspace* workspace,
                                            const ecmv_description* description, const ecmv_stored_section* sections,
                                            size_t count);

/* Puts the product of `tokens` tokens, 1 to max_tokens, on the caller's stream: a cudaStream_t or hipStream_t of the
 * context's device as void*, NULL for the default stream. It allocates nothing and waits for nothing, so the stream may
 * be under capture. CPU backends and the emulator have no streams: NULL, and the product is done on return.
 *
 * x and y are in the context's memory and do not overlap. Token t is x[t * x_stride] ... with cols elements, its
 * results are y[t * y_stride] ... with rows elements; strides count elements and are at least cols and rows. x is
 * aligned to an element, as is y; elements between rows and y_stride are not written. What follows on the stream sees
 * the results.
 *
 * A product does one thing at a time: calls of several threads take turns, and work on another stream than before
 * begins after the earlier work. Only for graphs must the caller see to it that no two of them, with the same product
 * in them, run at once. Several products run at once. A kernel that fails on a GPU later is told by the caller's own
 * synchronisation. */
ECMV_API ecmv_status ecmv_enqueue_product(ecmv_product* product, void* stream, const void* x, int64_t x_stride,
                                          int64_t tokens, void* y, int64_t y_stride);

/* Bytes of the context's memory that the product holds beside the sections: tokens and results in the kernels' form,
 * and their scratch; 0 for a product that was freed. */
ECMV_API size_t ecmv_product_scratch_bytes(const ecmv_product* product);
/* The kernel that multiplies the first part of so many tokens: "cuda/matmul/one_token/default". The text lives as long
 * as the product; "" for a product that was freed, or for other numbers of tokens than it takes. */
ECMV_API const char* ecmv_product_kernel(const ecmv_product* product, int64_t tokens);
/* Waits for the work of the device. Graphs that hold the product must not be launched any more. */
ECMV_API void ecmv_free_product(ecmv_product* product);

/* --- PyTorch --------------------------------------------------------------------------------------- */

/* For the package ecmv.torch: PyTorch's operator ecmv::linear(Tensor x, Tensor coded, Tensor? bias, int rows) -> Tensor
 * without the time of Python. Its schema must be defined. Registers its kernels with the libtorch of this process:
 * files with the functions aoti_torch_* for CPUs, and for GPUs (NULL: none). `bind` is called when the operator gets
 * coded bytes that are bound to no product with that bias; it binds them, or leaves a sentence in `sentence`. */
typedef void (*ecmv_torch_binder)(const void* coded, const void* bias, char* sentence, size_t sentence_bytes);
ECMV_API ecmv_status ecmv_torch_register(const char* libtorch_cpu, const char* libtorch_gpu, ecmv_torch_binder bind);

typedef struct ecmv_torch_binding {
  size_t struct_bytes; /* sizeof(ecmv_torch_binding), set by the caller */
  ecmv_product* product;
  const void* bias; /* of the product; NULL: none */
  int64_t rows, cols;
  int32_t device; /* of PyTorch's; -1: the CPU */
  int32_t bf16;   /* whether x and y are; else both are float32 */
} ecmv_torch_binding;
/* From now on the operator multiplies coded bytes at this place, with this bias, by the product, until it is told
 * otherwise. Unbind before the product or the bytes are freed; that does nothing where another product was bound since.
 */
ECMV_API ecmv_status ecmv_torch_bind(const void* coded, const ecmv_torch_binding* binding);
ECMV_API void ecmv_torch_unbind(const void* coded, const void* bias, const ecmv_product* product);

#ifdef __cplusplus
}
#endif

#endif /* ECMV_H */
