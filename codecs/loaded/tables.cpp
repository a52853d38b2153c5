// See tables.h.
#include "codecs/loaded/tables.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>

#include "codecs/loaded/library.h"
#include "codecs/loaded/text.h"
#include "codecs/registry.h"

namespace ecmv::codecs::loaded {
namespace {

// A larger struct is no later version of ours but something else.
constexpr size_t kMostStructBytes = 4096;
constexpr int64_t kMostEntries =
    64;  // codecs of a library, kernels of a codec, policies of a kernel, choices of a setting

// The size of each struct in the first version, up to its last field. Fields appended later do not change it.
template <typename T>
constexpr size_t kFirstBytes = 0;
template <>
constexpr size_t kFirstBytes<ecmv_codec_library> = 24;
template <>
constexpr size_t kFirstBytes<ecmv_codec> = 128;
template <>
constexpr size_t kFirstBytes<ecmv_setting> = 72;
template <>
constexpr size_t kFirstBytes<ecmv_kernel> = 80;
template <>
constexpr size_t kFirstBytes<ecmv_gpu_kernel> = 96;
static_assert(sizeof(ecmv_codec_library) >= kFirstBytes<ecmv_codec_library> &&
              sizeof(ecmv_codec) >= kFirstBytes<ecmv_codec> && sizeof(ecmv_setting) >= kFirstBytes<ecmv_setting> &&
              sizeof(ecmv_kernel) >= kFirstBytes<ecmv_kernel> &&
              sizeof(ecmv_gpu_kernel) >= kFirstBytes<ecmv_gpu_kernel>);
static_assert(offsetof(ecmv_codec, kernel_count) == 120 && offsetof(ecmv_setting, choice_count) == 64 &&
                  offsetof(ecmv_kernel, matmul) == 72 && offsetof(ecmv_gpu_kernel, matmul) == 88,
              "a field was inserted: libraries that are out there would be misread");

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  std::vector<CodecTables> read(const ecmv_codec_library* library) {
    const auto root = copy<ecmv_codec_library>(library, "ecmv_codec_library");
    std::vector<CodecTables> out;
    for (const ecmv_codec& codec : entries(root.codecs, root.codec_count, 1, "ecmv_codec", "codecs")) {
      out.push_back(checked(codec));
      for (size_t i = 0; i + 1 < out.size(); ++i)
        if (std::string_view(out[i].codec.id) == codec.id)
          fail("has two codecs with the id '" + std::string(codec.id) + "'.");
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& rest) const {
    throw LibraryError("The codec library '" + file_ + "' " + rest);
  }
  void require(bool holds, const std::string& rest) const {
    if (!holds) fail(rest);
  }

  template <typename T>
  T copy(const T* from, const std::string& type) const {
    require(from != nullptr, "hands out a null pointer instead of an " + type + ".");
    require(reinterpret_cast<uintptr_t>(from) % alignof(T) == 0,
            "hands out an " + type + " at an address that is not aligned.");
    const size_t bytes = from->struct_bytes;
    require(bytes != 0, "leaves struct_bytes of an " + type + " at 0; it is sizeof(" + type + ") there.");
    require(bytes >= kFirstBytes<T> && bytes <= kMostStructBytes,
            "was made for another version of ecmv_codec.h: its " + type + " has " + std::to_string(bytes) +
                " bytes, here it has " + std::to_string(sizeof(T)) + ".");
    const auto* tail = reinterpret_cast<const unsigned char*>(from);
    for (size_t i = sizeof(T); i < bytes; ++i)
      require(tail[i] == 0, "was made for a newer version of ecmv_codec.h and needs it: its " + type +
                                " says something behind the " + std::to_string(sizeof(T)) +
                                " bytes that are known here.");
    T out{};
    std::memcpy(&out, from, std::min(sizeof(T), bytes));
    return out;
  }

  // Array entries are as far apart as the library's struct is long.
  template <typename T>
  std::vector<T> entries(const T* first, int64_t count, int64_t least, const std::string& type, const std::string& what,
                         int64_t most = kMostEntries) const {
    require(count >= least && count <= most, "has " + std::to_string(count) + " " + what + "; " +
                                                 std::to_string(least) + " to " + std::to_string(most) +
                                                 " are possible.");
    std::vector<T> out;
    const auto* at = reinterpret_cast<const unsigned char*>(first);
    for (int64_t i = 0; i < count; ++i) {
      out.push_back(copy(reinterpret_cast<const T*>(at), type));
      require(out.back().struct_bytes == out.front().struct_bytes,
              "has " + what + " of different struct_bytes in one array.");
      at += out.front().struct_bytes;
    }
    return out;
  }

  void check_line(const char* text, size_t most, const std::string& what) const {
    require(text != nullptr, "gives no " + what + ".");
    require(is_line(text, most), "gives a " + what + " that is empty, longer than " + std::to_string(most) +
                                     " bytes, or no single line of UTF-8.");
  }
  void check_name(const char* text, const std::string& what) const {
    require(text != nullptr, "gives no " + what + ".");
    require(is_name(text), "gives a " + what + " that is no lower_snake_case name of at most 64 characters" +
                               (is_line(text, 64) ? ": '" + std::string(text) + "'." : "."));
  }
  void check_flag(uint32_t value, const std::string& what) const {
    require(value <= 1, "sets " + what + " to " + std::to_string(value) + "; 0 or 1 is possible.");
  }
  void check_unique(std::set<std::string, std::less<>>& seen, const std::string& name, const std::string& what) const {
    require(seen.insert(name).second, "has two " + what + " with the name '" + name + "'.");
  }

  void check_names(const char* const* names, int64_t count, const std::string& what) const {
    require(count >= 0 && count <= kMostEntries, "has " + std::to_string(count) + " " + what + "; at most " +
                                                     std::to_string(kMostEntries) + " are possible.");
    require(count == 0 || names != nullptr, "gives no names of its " + what + ".");
    std::set<std::string, std::less<>> seen;
    for (int64_t i = 0; i < count; ++i) {
      check_name(names[i], "name of " + what);
      check_unique(seen, names[i], what);
    }
  }

  CodecTables checked(const ecmv_codec& codec) const {
    check_name(codec.id, "codec's id");
    const std::string of = " of the codec '" + std::string(codec.id) + "'";
    if (const CodecEntry* other = find_codec(codec.id); other != nullptr)
      fail("has a codec '" + std::string(codec.id) + "', and there is one already" +
           (other->loaded() ? ", from '" + other->library_path + "'." : " in this program."));
    check_line(codec.summary, 200, "summary" + of);
    check_line(codec.source, 200, "source" + of);
    require(codec.format_version >= 1, "has a format version 0" + of + "; they begin with 1.");
    check_flag(codec.lossy, "'lossy'" + of);
    check_flag(codec.bytes_vary, "'bytes_vary'" + of);
    require(codec.reserved == 0, "sets a reserved field" + of + ".");
    require(codec.refuses != nullptr, "lacks the function refuses" + of + ".");
    require(codec.encode != nullptr, "lacks the function encode" + of + ".");
    require(codec.decode != nullptr, "lacks the function decode" + of + ".");
    require(codec.max_stored_bytes != nullptr, "lacks the function max_stored_bytes" + of + ".");
    require(codec.lossy == 0 || codec.error_bound != nullptr, "gives no error_bound" + of + ", which is lossy.");
    CodecTables out;
    out.codec = codec;
    out.settings = entries(codec.settings, codec.setting_count, 0, "ecmv_setting", "settings" + of, ECMV_MAX_SETTINGS);
    std::set<std::string, std::less<>> names;
    for (const ecmv_setting& setting : out.settings) check(setting, names, of);
    out.kernels = entries(codec.kernels, codec.kernel_count, 0, "ecmv_kernel", "kernels" + of);
    std::set<std::string, std::less<>> variants;
    for (const ecmv_kernel& kernel : out.kernels) check(kernel, variants, of);
    out.gpu_kernels = entries(codec.gpu_kernels, codec.gpu_kernel_count, 0, "ecmv_gpu_kernel", "GPU kernels" + of);
    for (const ecmv_gpu_kernel& kernel : out.gpu_kernels) check(kernel, variants, of);
    return out;
  }

  void check(const ecmv_setting& setting, std::set<std::string, std::less<>>& names,
             const std::string& of_codec) const {
    check_name(setting.name, "name of a setting" + of_codec);
    check_unique(names, setting.name, "settings" + of_codec);
    const std::string of = " of the setting '" + std::string(setting.name) + "'" + of_codec;
    check_line(setting.help, 500, "help" + of);
    require(setting.unit == nullptr || *setting.unit == 0 || is_line(setting.unit, 64),
            "gives a unit" + of + " that is no short line of UTF-8.");
    require(setting.choice_count >= 0 && setting.choice_count <= kMostEntries,
            "has " + std::to_string(setting.choice_count) + " choices" + of + "; at most " +
                std::to_string(kMostEntries) + " are possible.");
    if (setting.choice_count == 0) {
      require(setting.min <= setting.default_value && setting.default_value <= setting.max,
              "gives a default" + of + " that is not between its min and its max.");
      return;
    }
    require(setting.choices != nullptr, "gives no choices" + of + ".");
    std::set<std::string, std::less<>> seen;
    for (int64_t i = 0; i < setting.choice_count; ++i) {
      require(setting.choices[i] != nullptr && is_choice(setting.choices[i]),
              "gives a choice" + of + " that is more than letters, digits and '_.+-', or longer than 64.");
      check_unique(seen, setting.choices[i], "choices" + of);
    }
    require(setting.default_value >= 0 && setting.default_value < setting.choice_count,
            "gives a default" + of + " that is not the position of a choice.");
  }

  // The op of a kernel, which has one function.
  template <typename Kernel>
  std::string op_of(const Kernel& kernel, const std::string& of) const {
    const int functions = (kernel.decode != nullptr) + (kernel.matvec != nullptr) + (kernel.matmul != nullptr);
    require(functions == 1, "gives " + std::to_string(functions) + " of the functions decode, matvec and matmul" + of +
                                "; a kernel has one.");
    return kernel.decode != nullptr ? "decode" : kernel.matvec != nullptr ? "matvec" : "matmul";
  }

  void check(const ecmv_gpu_kernel& kernel, std::set<std::string, std::less<>>& variants,
             const std::string& of_codec) const {
    check_name(kernel.variant, "variant of a GPU kernel" + of_codec);
    const std::string of = " of the GPU kernel '" + std::string(kernel.variant) + "'" + of_codec;
    const std::string op = op_of(kernel, of);
    check_name(kernel.backend, "backend" + of);
    std::string known;
    const std::vector<std::string_view> backends = gpu_backends();
    for (const std::string_view backend : backends) known.append(known.empty() ? "" : ", ").append(backend);
    require(std::ranges::find(backends, std::string_view(kernel.backend)) != backends.end(),
            "offers the GPU kernel '" + std::string(kernel.variant) + "'" + of_codec + " on a backend '" +
                kernel.backend + "', and not on one of " + known + ".");
    require(kernel.bind != nullptr, "lacks the function bind" + of + ".");
    const bool is_matmul = op == "matmul", bf16 = kernel.token_type == ECMV_BF16;
    require(is_matmul ? bf16 || kernel.token_type == ECMV_F32 : kernel.token_type == 0,
            "gives a type " + std::to_string(kernel.token_type) + " of tokens" + of +
                "; of a matmul it is ECMV_F32 or ECMV_BF16, else 0.");
    require(kernel.most_tokens >= 0 && kernel.most_tokens <= (is_matmul ? ECMV_MAX_TOKENS : 0),
            "gives " + std::to_string(kernel.most_tokens) + " as most_tokens" + of + "; of a matmul 0 to " +
                std::to_string(int{ECMV_MAX_TOKENS}) + " are possible, else 0.");
    require(kernel.reserved == 0, "sets a reserved field" + of + ".");
    check_unique(variants, std::string(kernel.backend) + "/" + op + (bf16 ? " of bf16/" : "/") + kernel.variant,
                 "kernels" + of_codec);
    check_names(kernel.policies, kernel.policy_count, "policies" + of);
  }

  void check(const ecmv_kernel& kernel, std::set<std::string, std::less<>>& variants,
             const std::string& of_codec) const {
    check_name(kernel.variant, "variant of a kernel" + of_codec);
    const std::string of = " of the kernel '" + std::string(kernel.variant) + "'" + of_codec;
    const std::string op = op_of(kernel, of);
    check_flag(kernel.on_scalar, "'on_scalar'" + of);
    check_flag(kernel.on_simd, "'on_simd'" + of);
    require(kernel.on_scalar + kernel.on_simd > 0,
            "offers the kernel '" + std::string(kernel.variant) + "'" + of_codec + " on no backend.");
    for (const char* backend : {kernel.on_scalar != 0 ? "scalar" : nullptr, kernel.on_simd != 0 ? "simd" : nullptr})
      if (backend != nullptr)
        check_unique(variants, std::string(backend) + "/" + op + "/" + kernel.variant, "kernels" + of_codec);
    check_names(kernel.policies, kernel.policy_count, "policies" + of);
  }

  const std::string& file_;
};

}  // namespace

std::vector<CodecTables> read_tables(const ecmv_codec_library* library, const std::string& file) {
  return Reader(file).read(library);
}

}  // namespace ecmv::codecs::loaded
