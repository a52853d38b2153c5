// Reader of .npy. A header's dictionary has exactly three entries, so a strict scanner for the few Python literals
// that can occur (texts, True/False, tuples of integers) is enough.
#include "datasets/files/npy.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void bad_npy(const std::string& what) { throw DatasetError("Not a readable npy file: " + what); }

class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view text) : text_(text) {}

  // Skips white space. If `c` is next, skips it and returns true.
  bool accept(char c) {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad_npy(std::string("its header lacks a '") + c + "' where one must be.");
  }
  bool at_end() { return !accept('\0') && text_.empty(); }

  std::string text() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote);
    if (end == text_.npos) bad_npy("a text of its header does not end.");
    const std::string result(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return result;
  }
  bool truth() {
    accept(' ');
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    }
    bad_npy("fortran_order is neither True nor False.");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) bad_npy("its shape is not a tuple of sizes.");
      text_.remove_prefix(size_t(end - text_.data()));
      if (text_.starts_with('L')) text_.remove_prefix(1);  // a long of Python 2
      sizes.push_back(size);
      if (sizes.size() > 64) bad_npy("its shape has more than 64 sizes.");  // NumPy's own limit
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return sizes;
  }

 private:
  std::string_view text_;
};

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

NpyHeader parse_npy_header(std::string_view text) {
  HeaderScanner scan(text);
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
  scan.expect('{');
  while (!scan.accept('}')) {
    const std::string key = scan.text();
    scan.expect(':');
    if (key == "descr" && !descr) {
      if (scan.accept('[')) bad_npy("its elements are records, not numbers.");
      descr = scan.text();
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = scan.truth();
    } else if (key == "shape" && !shape) {
      shape = scan.tuple();
    } else {
      bad_npy("the key \"" + key + "\" of its header is unknown or appears twice.");
    }
    if (scan.accept(',')) continue;
    scan.expect('}');
    break;
  }
  if (!scan.at_end()) bad_npy("something follows the dictionary of its header.");
  if (!descr || !fortran_order || !shape) bad_npy("its header lacks one of descr, fortran_order and shape.");
  return {*descr, *fortran_order, *shape};
}

// NumPy's element type by its safetensors name.
std::string to_dtype(const std::string& descr) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"b1", "BOOL"}, {"i1", "I8"},  {"u1", "U8"},  {"i2", "I16"}, {"u2", "U16"}, {"i4", "I32"}, {"u4", "U32"},
      {"i8", "I64"},  {"u8", "U64"}, {"f2", "F16"}, {"f4", "F32"}, {"f8", "F64"}, {"c8", "C64"}};
  // The order of bytes stands first: '<', '>', '|' for none, '=' for the machine's; it may be left out.
  constexpr std::string_view kOrders = "<>|=";
  const bool has_order = !descr.empty() && kOrders.find(descr.front()) != kOrders.npos;
  const std::string_view type = std::string_view(descr).substr(has_order ? 1 : 0);
  const auto found = std::ranges::find(kTypes, type, &std::pair<std::string_view, std::string_view>::first);
  if (found == std::end(kTypes))
    bad_npy("elements of type \"" + descr + "\" are not read" +
            (type.starts_with('V')
                 ? ": NumPy writes bfloat16, float8 and the like as bytes without the type's name; save "
                   "the array as safetensors."
                 : "."));
  return std::string(found->second);
}

// The array at the beginning of `bytes`, which are cut off behind it.
TensorView take_array(std::span<const std::byte>& bytes, const std::string& name) {
  if (!looks_like_npy(bytes)) bad_npy("it does not begin with the npy magic.");
  const size_t version = bytes.size() > 6 ? size_t(bytes[6]) : 0;
  if (version < 1 || version > 3) bad_npy("its version " + std::to_string(version) + " is not 1, 2 or 3.");
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + length_bytes;
  if (bytes.size() < begin) bad_npy("it ends inside its header.");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t(bytes[begin - length_bytes + i]) << (8 * i);
  if (length > bytes.size() - begin) bad_npy("it ends inside its header.");

  const auto header = parse_npy_header(std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, length));
  TensorView tensor{name, to_dtype(header.descr), header.shape, bytes.subspan(begin + length)};
  if (header.fortran_order && header.shape.size() > 1) tensor.layout = Layout::columns;
  tensor.is_big_endian = header.descr.starts_with('>') && dtype_bits(tensor.dtype) > 8;
  const int64_t size = tensor_bytes(name, tensor.dtype, tensor.shape);
  const auto there = int64_t(tensor.bytes.size());
  if (size > there || (size < there && !looks_like_npy(tensor.bytes.subspan(size_t(size))))) {
    bad_npy("an array of type " + tensor.dtype + " and shape " + shape_text(tensor.shape) + " takes " +
            std::to_string(size) + " bytes, but " + std::to_string(there) + " follow the header.");
  }
  bytes = tensor.bytes.subspan(size_t(size));
  tensor.bytes = tensor.bytes.first(size_t(size));
  return tensor;
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), kMagic.size()) == kMagic;
}

std::vector<TensorView> parse_npy(std::span<const std::byte> bytes) {
  std::vector<TensorView> arrays;
  do {
    if (arrays.size() == kMaxTensors) bad_npy("it has more than " + std::to_string(kMaxTensors) + " arrays.");
    arrays.push_back(take_array(bytes, arrays.empty() ? "array" : "array." + std::to_string(arrays.size())));
  } while (!bytes.empty());
  return arrays;
}

}  // namespace ecmv::datasets
