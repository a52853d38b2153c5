/* A library that does one thing wrong, chosen by the environment: ECMV_TEST_VARIANT is read when the library is loaded.
 * Without it, a correct codec that stores the bytes of the matrix unchanged. */
#define _POSIX_C_SOURCE 200809L
#include <ecmv_codec.h>

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void print_on_cout(const char* text); /* cout_writer.cpp */

static int is(const char* variant) {
  const char* chosen = getenv("ECMV_TEST_VARIANT");
  return chosen != NULL && strcmp(chosen, variant) == 0;
}

/* Runs for ever, which a compiler cannot prove. */
static void hang(void) {
  for (;;) sleep(1);
}

/* Uses more of the stack than a thread has. */
static int overrun(volatile int depth) {
  volatile char room[1 << 16];
  room[0] = (char)depth;
  return depth < 0 ? room[0] : overrun(depth + 1) + room[0];
}

/* For 0.3 s another thread gives back the action of SIGABRT that the program had, as one does that leaves its own call
 * meanwhile. */
static pthread_barrier_t both_run;
static void* give_back(void* action) {
  struct timespec first, now;
  pthread_barrier_wait(&both_run);
  clock_gettime(CLOCK_MONOTONIC, &first);
  do {
    sigaction(SIGABRT, (const struct sigaction*)action, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - first.tv_sec) * 1000000000 + now.tv_nsec - first.tv_nsec < 300000000);
  return NULL;
}
static void begin_to_give_back(void) {
  static struct sigaction of_program;
  pthread_t thread;
  sigaction(SIGABRT, NULL, &of_program);
  pthread_barrier_init(&both_run, NULL, 2);
  pthread_create(&thread, NULL, give_back, &of_program);
  pthread_barrier_wait(&both_run);
}

static void crash(void) {
  volatile int* nowhere = NULL;
  *nowhere = 1;
}

#if defined(__GNUC__)
__attribute__((constructor)) static void when_loaded(void) {
  if (is("crash_in_constructor")) crash();
  if (is("exit_in_constructor")) exit(0);
  /* The trial leaves a file, which the second time finds: that is for good. */
  if (is("exit_when_loaded_for_good") || is("crash_when_loaded_for_good")) {
    if (access("tried", F_OK) == 0 && is("crash_when_loaded_for_good")) crash();
    if (access("tried", F_OK) == 0) exit(0);
    FILE* file = fopen("tried", "w");
    if (file != NULL) fclose(file);
  }
}
#endif

/* ------------------------------------------------------------------------------------------------------------ codec */

static int64_t bytes_of(const ecmv_matrix* matrix) { return matrix->rows * matrix->cols * matrix->element_bytes; }

static const char* refuses(const ecmv_matrix* matrix, const int64_t* settings) {
  (void)settings;
  return matrix->element_type == ECMV_I8 ? NULL : "variant_codec\nstores \xff int8 elements only.";
}

/* A matrix that is kept beside what is stored. */
static unsigned char kept[1 << 16];

static const char* encode(const ecmv_matrix* matrix, const int64_t* settings, ecmv_output* output) {
  static int calls = 0;
  const int64_t bytes = bytes_of(matrix);
  (void)settings;
  ++calls;
  if (is("prints")) printf("The encoder prints.\n");
  if (is("prints_on_cout")) print_on_cout("The encoder prints.");
  if (is("other_names_each_time")) {
    char name[] = "section_000";
    for (int digit = 0, rest = calls; digit < 3; ++digit, rest /= 10) name[10 - digit] = (char)('0' + rest % 10);
    output->add_section(output, name, ECMV_INDEX, 0, 0);
  }
  if (is("keeps_a_copy") && bytes <= (int64_t)sizeof(kept)) {
    memcpy(kept, matrix->elements, (size_t)bytes);
    return output->add_section(output, "nothing", ECMV_PAYLOAD, 1, 0) == NULL ? "No room." : NULL;
  }
  if (is("encode_error")) return "The encoder gave up.";
  if (is("careless")) {
    fesetround(FE_UPWARD);
    signal(SIGTERM, SIG_IGN);
    setlocale(LC_ALL, "C.UTF-8");
    if (chdir("/") != 0) return "There is no root.";
  }
  if (is("bad_role")) return output->add_section(output, "elements", 7, bytes, 0) == NULL ? "No room." : NULL;
  if (is("bad_section_name"))
    return output->add_section(output, "The Elements", ECMV_PAYLOAD, bytes, 0) == NULL ? "No room." : NULL;
  if (is("bad_padding"))
    return output->add_section(output, "elements", ECMV_PAYLOAD, bytes, bytes + 1) == NULL ? "No room." : NULL;
  if (is("negative_bytes"))
    return output->add_section(output, "elements", ECMV_PAYLOAD, -1, 0) == NULL ? "No room." : NULL;
  if (is("beyond_bound"))
    return output->add_section(output, "elements", ECMV_PAYLOAD, bytes + 100, 0) == NULL ? "No room." : NULL;
  if (is("too_many_sections"))
    for (char name[] = "a"; name[0] < 'z'; ++name[0]) output->add_section(output, name, ECMV_TABLE, 0, 0);
  if (is("section_twice")) output->add_section(output, "elements", ECMV_TABLE, 0, 0);
  if (is("shrink_too_early")) output->shrink_last_section(output, 0);
  uint8_t* elements = output->add_section(output, "elements", ECMV_PAYLOAD, bytes, 0);
  if (elements == NULL) return NULL; /* the program knows the reason, whatever is returned */
  if (bytes > 0) memcpy(elements, matrix->elements, (size_t)bytes);
  if (is("past_the_end")) elements[bytes] = 1;
  if (is("grow")) output->shrink_last_section(output, bytes + 1);
  return NULL;
}

static const char* decode(const ecmv_compressed* matrix, void* out, int64_t out_bytes) {
  if (is("decode_error")) return "The decoder gave up.";
  if (is("prints")) printf("The decoder prints.\n");
  if (is("prints_on_cout")) print_on_cout("The decoder prints.");
  if (is("keeps_a_copy")) {
    memcpy(out, kept, (size_t)out_bytes);
    return NULL;
  }
  if (is("decode_damaged_past_the_end") && matrix->section_count == 0) ((uint8_t*)out)[out_bytes] ^= 1;
  if (is("decode_crash")) crash();
  if (is("decode_abort")) abort();
  if (is("decode_abort_given_back")) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_to_give_back);
    abort();
  }
  if (is("decode_exit")) exit(0);
  if (is("decode_exit_at_once")) _exit(0);
  if (is("decode_quick_exit")) quick_exit(0);
  if (is("decode_exec")) execl("/bin/true", "true", (char*)NULL);
  if (is("decode_orphan") && fork() == 0) {
    FILE* file = fopen("orphan", "w");
    fprintf(file, "%d", (int)getpid());
    fclose(file);
    for (;;) sleep(1);
  }
  if (is("decode_overrun")) return overrun(0) ? "The stack has no end." : NULL;
  if (is("other_names_each_time") && matrix->section_count == 2) {
    memcpy(out, matrix->sections[1]->bytes, (size_t)out_bytes);
    return NULL;
  }
  if (is("decode_believes") && matrix->section_count != 1) crash();
  if (matrix->section_count != 1 || matrix->sections[0]->byte_count != out_bytes)
    return "A stream of variant_codec has one section with all elements.";
  if (out_bytes > 0) memcpy(out, matrix->sections[0]->bytes, (size_t)out_bytes);
  if (is("decode_past_the_end")) ((uint8_t*)out)[out_bytes] ^= 1;
  if (is("decode_before_the_start")) ((uint8_t*)out)[-1] ^= 1;
  if (is("decode_wrongly") && out_bytes > 0) *(uint8_t*)out ^= 1;
  if (is("lossy") && out_bytes > 0) *(uint8_t*)out &= 0xFE;
  return NULL;
}

static const char* max_stored_bytes(int64_t rows, int64_t row_bytes, const int64_t* settings, int64_t* bytes) {
  (void)settings;
  if (is("bound_error")) return "The bound is not known.";
  *bytes = is("negative_bound") ? -5 : is("huge_bound") ? INT64_MAX : rows * row_bytes;
  return NULL;
}

static const char* error_bound(const ecmv_matrix* matrix, const int64_t* settings, double* relative, double* absolute) {
  (void)matrix, (void)settings;
  *relative = 0;
  *absolute = is("bad_error_bound") ? -1 : 1;
  return NULL;
}

static const char* ideal_bits(const ecmv_matrix* matrix, const int64_t* settings, double* bits) {
  (void)matrix, (void)settings;
  *bits = is("bad_ideal_bits") ? -1 : is("ideal_next_to_nothing") ? 0.001 : 8;
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- kernels */

static const char* kernel_refuses(const ecmv_compressed* matrix, const ecmv_device* device, uint32_t policy) {
  (void)matrix, (void)policy;
  if (is("kernel_refuses")) return "The kernel of variant_codec refuses every matrix.";
  return strcmp(device->backend, "scalar") == 0 || device->simd_target[0] != 0 ? NULL
                                                                               : "The backend says nothing of itself.";
}

static const char* bind(const ecmv_compressed* matrix, const ecmv_device* device, uint32_t policy,
                        ecmv_binding* binding) {
  (void)matrix, (void)device, (void)policy;
  if (is("bind_error")) return "The kernel cannot be bound.";
  if (is("no_rows_per_block")) binding->rows_per_block = 0;
  if (is("negative_scratch")) binding->scratch_bytes = -1;
  if (is("bad_rounding")) binding->narrowing = -1;
  memset(binding->parameters, 0x5A, ECMV_PARAMETER_BYTES);
  return NULL;
}

static int call_is_right(const ecmv_call* call) {
  const uint8_t* parameters = call->parameters;
  for (int i = 0; i < ECMV_PARAMETER_BYTES; ++i)
    if (parameters[i] != 0x5A) return 0;
  return (uintptr_t)call->parameters % 16 == 0 && call->matrix->settings[0] == 7 && call->matrix->settings[1] == 1 &&
         strcmp(call->matrix->sections[0]->name, "elements") == 0;
}

static const char* decode_rows(const ecmv_call* call, const ecmv_decode_args* args) {
  const int64_t cols = call->matrix->cols, bytes = (call->row_end - call->row_begin) * cols;
  if (!call_is_right(call)) return "A call is not what it was bound to.";
  if (bytes > 0) memcpy(args->out, call->matrix->sections[0]->bytes + call->row_begin * cols, (size_t)bytes);
  return NULL;
}

static const char* multiply(const ecmv_call* call, const ecmv_matvec_args* args) {
  const int64_t cols = call->matrix->cols;
  const int8_t* elements = (const int8_t*)call->matrix->sections[0]->bytes;
  if (is("kernel_crash")) crash();
  if (is("kernel_hang")) {
    fputs("The kernel hangs.\n", stderr);
    hang();
  }
  if (is("kernel_ignores_signals")) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    fputs("The kernel hangs.\n", stderr);
    hang();
  }
  if (is("kernel_error")) return "The kernel gave up.";
  if (!call_is_right(call)) return "A call is not what it was bound to.";
  for (int64_t row = call->row_begin; row < call->row_end; ++row) {
    int32_t sum = is("multiply_wrongly");
    for (int64_t i = 0; i < cols; ++i) sum += elements[row * cols + i] * args->x[i];
    args->y[row] = sum;
  }
  if (is("multiply_past_the_end") && call->row_end == call->matrix->rows) args->y[call->row_end] = 1;
  return NULL;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

/* Structs of a newer header: the same with one more field. */
typedef struct {
  ecmv_setting known;
  uint64_t more;
} newer_setting;
typedef struct {
  ecmv_kernel known;
  uint64_t more;
} newer_kernel;
typedef struct {
  ecmv_codec known;
  uint64_t more;
} newer_codec;

static newer_setting settings[20];
static newer_kernel kernels[2];
static newer_codec codecs[2];
static ecmv_codec_library library;
static const char* choices[] = {"left", "right"};
static const char* policies[] = {"first", "second"};

static void set_up(void) {
  static const ecmv_setting number = {
      .name = "number", .unit = "pieces", .help = "a number", .default_value = 7, .min = 1, .max = 9};
  static const ecmv_setting side = {
      .name = "side", .help = "a side", .default_value = 1, .choices = choices, .choice_count = 2};
  static const ecmv_kernel decoder = {
      .variant = "copy", .on_scalar = 1, .on_simd = 1, .refuses = kernel_refuses, .bind = bind, .decode = decode_rows};
  static const ecmv_kernel multiplier = {.variant = "rows",
                                         .on_scalar = 1,
                                         .policies = policies,
                                         .policy_count = 2,
                                         .refuses = kernel_refuses,
                                         .bind = bind,
                                         .matvec = multiply};
  static const ecmv_codec codec = {.id = "variant_codec",
                                   .summary = "the elements",
                                   .source = "tests/codec_library",
                                   .format_version = 3,
                                   .setting_count = 2,
                                   .refuses = refuses,
                                   .encode = encode,
                                   .decode = decode,
                                   .max_stored_bytes = max_stored_bytes,
                                   .ideal_bits_per_element = ideal_bits,
                                   .kernel_count = 2};
  memset(settings, 0, sizeof(settings));
  memset(kernels, 0, sizeof(kernels));
  memset(codecs, 0, sizeof(codecs));
  settings[0].known = number;
  settings[1].known = side;
  kernels[0].known = decoder;
  kernels[1].known = multiplier;
  codecs[0].known = codecs[1].known = codec;
  for (int i = 0; i < 20; ++i) settings[i].known.struct_bytes = sizeof(newer_setting);
  for (int i = 0; i < 2; ++i) {
    kernels[i].known.struct_bytes = sizeof(newer_kernel);
    codecs[i].known.struct_bytes = sizeof(newer_codec);
    codecs[i].known.settings = &settings[0].known;
    codecs[i].known.kernels = &kernels[0].known;
  }
  choices[0] = "left";
  policies[1] = "second";
  library.struct_bytes = sizeof(library);
  library.codecs = &codecs[0].known;
  library.codec_count = 1;
}

static void break_tables(void) {
  ecmv_codec* codec = &codecs[0].known;
  ecmv_setting *number = &settings[0].known, *side = &settings[1].known;
  ecmv_kernel *decoder = &kernels[0].known, *multiplier = &kernels[1].known;
  if (is("older_struct")) codec->struct_bytes = 64;
  if (is("no_struct_bytes")) codec->struct_bytes = 0;
  if (is("garbage_struct_bytes")) library.struct_bytes = (size_t)-1;
  if (is("newer_field")) codecs[0].more = 1;
  if (is("newer_setting_field")) settings[1].more = 1;
  if (is("uneven_structs")) settings[1].known.struct_bytes = sizeof(ecmv_setting);
  if (is("no_codecs")) library.codec_count = 0;
  if (is("negative_codecs")) library.codec_count = -1;
  if (is("null_codecs")) library.codecs = NULL;
  if (is("misaligned")) library.codecs = (const ecmv_codec*)((const char*)codec + 1);
  if (is("id_twice")) library.codec_count = 2;
  if (is("no_id")) codec->id = NULL;
  if (is("bad_id")) codec->id = "Variant-Codec";
  if (is("id_of_another")) codec->id = "raw_int8";
  if (is("no_summary")) codec->summary = NULL;
  if (is("two_lines")) codec->summary = "two\nlines";
  if (is("no_utf8")) codec->source = "caf\xe9";
  if (is("version_0")) codec->format_version = 0;
  if (is("bad_flag")) codec->bytes_vary = 2;
  if (is("no_refuses")) codec->refuses = NULL;
  if (is("no_encode")) codec->encode = NULL;
  if (is("no_decode")) codec->decode = NULL;
  if (is("no_max_stored_bytes")) codec->max_stored_bytes = NULL;
  if (is("lossy") || is("lossy_without_bound")) codec->lossy = 1;
  if (is("lossy")) {
    codec->id = "lossy_codec";
    codec->error_bound = error_bound;
  }
  if (is("too_many_settings")) codec->setting_count = 17;
  if (is("null_settings")) codec->settings = NULL;
  if (is("setting_twice")) side->name = "number";
  if (is("bad_setting_name")) number->name = "a=b";
  if (is("no_help")) number->help = "";
  if (is("default_outside")) number->default_value = 10;
  if (is("choice_outside")) side->default_value = 2;
  if (is("null_choices")) side->choices = NULL;
  if (is("bad_choice")) choices[0] = "left,right";
  if (is("choice_twice")) choices[0] = "right";
  if (is("kernel_without_function")) decoder->decode = NULL;
  if (is("kernel_of_two_functions")) decoder->matvec = multiply;
  if (is("kernel_nowhere")) multiplier->on_scalar = 0;
  if (is("bad_variant")) multiplier->variant = "two words";
  if (is("kernel_twice")) kernels[1] = kernels[0];
  if (is("policy_twice")) policies[1] = "first";
  if (is("null_policies")) multiplier->policies = NULL;
}

const char* ecmv_codec_library_1(const ecmv_host* host, const ecmv_codec_library** out) {
  if (host->struct_bytes < sizeof(ecmv_host) || strcmp(host->name, "ecmv") != 0) return "This is not ecmv.";
  if (is("crash")) crash();
  if (is("abort")) abort();
  if (is("exit")) exit(3);
  if (is("hang")) hang();
  if (is("unusable")) return "This CPU lacks what it needs.";
  set_up();
  break_tables();
  if (!is("null_library")) *out = &library;
  return NULL;
}
