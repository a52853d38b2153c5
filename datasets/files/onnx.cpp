// See onnx.h. Field numbers come from onnx.proto.
#include "datasets/files/onnx.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "datasets/files/protobuf.h"
#include "datasets/layers/onnx_nodes.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

constexpr size_t kMostOnnxDimensions = 16;
constexpr int kDeepestGraph = 8;

namespace model {
enum : uint32_t { ir_version = 1, graph = 7, functions = 25, last = 26 };
}
namespace graph {
enum : uint32_t { node = 1, initializer = 5, sparse_initializer = 15 };
}
namespace function {
enum : uint32_t { node = 7, attribute = 11 };
}
namespace entry {
enum : uint32_t { key = 1, value = 2 };
}
namespace node {
enum : uint32_t { input = 1, output = 2, op_type = 4, attribute = 5 };
}
namespace attribute {
enum : uint32_t { name = 1, number = 3, tensor = 5, graph = 6, tensors = 10, graphs = 11 };
}
namespace sparse {
enum : uint32_t { values = 1, dims = 3 };
}
namespace tensor {
enum : uint32_t {
  dims = 1,
  data_type = 2,
  segment = 3,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  external_data = 13,
  data_location = 14
};
}

[[noreturn]] void bad_onnx(const std::string& what) { throw DatasetError("Not a readable ONNX file: " + what); }

// Calls use(field) for every field of a message.
template <typename Use>
void for_each_field(std::span<const std::byte> message, const std::string& what, Use use) {
  ProtobufReader reader(message);
  while (const auto field = reader.next()) use(*field);
  if (reader.malformed()) bad_onnx(what + " is cut or is no protobuf message.");
}

std::span<const std::byte> run_of(const ProtobufField& field, const std::string& what) {
  if (field.type != ProtobufField::bytes) bad_onnx(what + " is not a run of bytes.");
  return field.run;
}

std::string text_of(const ProtobufField& field) {
  const std::span<const std::byte> bytes = run_of(field, "a name");
  if (bytes.size() > kMaxNameBytes)
    bad_onnx("it has a name of " + std::to_string(bytes.size()) + " bytes, more than " + std::to_string(kMaxNameBytes) +
             ".");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An element type, and the field that may hold its numbers in place of raw_data.
struct OnnxType {
  std::string_view dtype;
  uint32_t numbers;
};
OnnxType onnx_type(uint64_t data_type) {
  static constexpr OnnxType kTypes[] = {{"", 0},
                                        {"F32", tensor::float_data},
                                        {"U8", tensor::int32_data},
                                        {"I8", tensor::int32_data},
                                        {"U16", tensor::int32_data},
                                        {"I16", tensor::int32_data},
                                        {"I32", tensor::int32_data},
                                        {"I64", tensor::int64_data},
                                        {"STRING", tensor::string_data},
                                        {"BOOL", tensor::int32_data},
                                        {"F16", tensor::int32_data},
                                        {"F64", tensor::double_data},
                                        {"U32", tensor::uint64_data},
                                        {"U64", tensor::uint64_data},
                                        {"C64", tensor::float_data},
                                        {"COMPLEX128", tensor::double_data},
                                        {"BF16", tensor::int32_data},
                                        {"F8_E4M3", tensor::int32_data},
                                        {"F8_E4M3FNUZ", tensor::int32_data},
                                        {"F8_E5M2", tensor::int32_data},
                                        {"F8_E5M2FNUZ", tensor::int32_data},
                                        {"UINT4", tensor::int32_data},
                                        {"INT4", tensor::int32_data},
                                        {"F4", tensor::int32_data},
                                        {"F8_E8M0", tensor::int32_data},
                                        {"UINT2", tensor::int32_data},
                                        {"INT2", tensor::int32_data},
                                        {"F6_E2M3", tensor::int32_data},
                                        {"F6_E3M2", tensor::int32_data}};
  return data_type < std::size(kTypes) ? kTypes[data_type] : OnnxType{"", 0};
}

// Whether a number consists of nothing but the low bits of the type's width. Numbers of less than 8 bits come by bytes,
// which some writers extend by the sign.
bool holds(std::string_view dtype, uint64_t value) {
  const int bits = std::max(8, dtype_bits(dtype));
  if (dtype_bits(dtype) < 8) return value >> bits == 0 || int64_t(value) >> (bits - 1) == -1;
  if (bits == 64 || dtype == "I32") return true;  // writers of negative int32 differ, their low bits do not
  if (dtype.starts_with("I")) {
    const int64_t number = int64_t(value);
    return number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1);
  }
  return value >> bits == 0;
}

// Where a tensor lies in another file; without a length it goes to the end.
struct ExternalPlace {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length = {};
};

// Sizes come one a field, or all packed into one field.
void take_dims(const ProtobufField& field, std::vector<int64_t>& shape, const std::string& who) {
  const auto take = [&](uint64_t size) {
    if (shape.size() == kMostOnnxDimensions)
      bad_onnx(who + " has more than " + std::to_string(kMostOnnxDimensions) + " dimensions.");
    shape.push_back(int64_t(size));
  };
  if (field.type == ProtobufField::varint) return take(field.value);
  std::span<const std::byte> left = run_of(field, "the shape of " + who);
  while (!left.empty()) {
    const auto value = ProtobufReader::varint(left);
    if (!value) bad_onnx("the shape of " + who + " is cut.");
    take(*value);
  }
}

class TensorReader {
 public:
  TensorReader(std::span<const std::byte> message, std::string name_if_none) {
    view_.name = std::move(name_if_none);
    // Reads the name first, because sentences about other fields mention it.
    for_each_field(message, "a tensor", [&](const ProtobufField& field) {
      if (field.number == tensor::name && !field.run.empty()) view_.name = text_of(field);
    });
    for_each_field(message, who(), [&](const ProtobufField& field) { take(field); });
  }

  // `other_file(tensor, place)` gives the bytes of a tensor that is stored elsewhere.
  TensorView view(auto& other_file) {
    const OnnxType type = onnx_type(data_type_);
    view_.dtype = type.dtype.empty() ? "ONNX_TYPE_" + std::to_string(data_type_) : std::string(type.dtype);
    const int64_t elements = tensor_elements(view_.name, view_.shape);
    if (is_external_ && (raw_ || numbers_)) bad_onnx(who() + " is stored in another file, and here as well.");
    if (is_external_) raw_ = other_file(who(), place_);
    if (dtype_bits(view_.dtype) == 0) {  // known by name or number only
      view_.bytes = raw_ ? *raw_ : numbers_ ? *numbers_ : std::span<const std::byte>{};
      return std::move(view_);
    }
    if (numbers_ && (raw_ || numbers_field_ != type.numbers))
      bad_onnx(who() + " of type " + view_.dtype + " has its numbers in a field of another type, or twice.");
    const bool plain = !numbers_ || type.numbers == tensor::float_data || type.numbers == tensor::double_data;
    view_.bytes = numbers_ ? *numbers_ : raw_ ? *raw_ : std::span<const std::byte>{};
    // Elements of less than 8 bits fill the last byte up. Those of 6 bits come by themselves in numbers.
    const int bits = dtype_bits(view_.dtype), of_byte = bits < 8 ? 8 / bits : 1;
    if (elements > INT64_MAX / 64)
      expect(int64_t(view_.bytes.size()) == tensor_bytes(view_.name, view_.dtype, view_.shape), elements);
    else if (plain)
      expect(int64_t(view_.bytes.size()) == (elements * bits + 7) / 8, elements);
    else
      check_varints(bits == 6 ? elements : (elements + of_byte - 1) / of_byte, elements);
    return std::move(view_);
  }

 private:
  std::string who() const { return "the tensor \"" + view_.name + "\""; }

  void take(const ProtobufField& field) {
    switch (field.number) {
      case tensor::dims: take_dims(field, view_.shape, who()); break;
      case tensor::data_type: data_type_ = field.value; break;
      case tensor::segment: bad_onnx(who() + " is stored in segments, which are not read.");
      case tensor::raw_data:
        if (raw_) bad_onnx(who() + " has its raw_data twice.");
        raw_ = run_of(field, "the raw_data of " + who());
        break;
      case tensor::float_data:
      case tensor::int32_data:
      case tensor::int64_data:
      case tensor::double_data:
      case tensor::uint64_data:
        if (numbers_ || field.type != ProtobufField::bytes)
          bad_onnx(who() + " has its numbers one by one, not as one packed run.");
        numbers_ = field.run;
        numbers_field_ = field.number;
        break;
      case tensor::external_data: take_place(run_of(field, "the place of " + who())); break;
      case tensor::data_location: is_external_ = is_external_ || field.value == 1; break;
      default: break;
    }
  }

  void take_place(std::span<const std::byte> message) {
    is_external_ = true;
    std::string key, value;
    for_each_field(message, "the place of " + who(), [&](const ProtobufField& field) {
      if (field.number == entry::key) key = text_of(field);
      if (field.number == entry::value) value = text_of(field);
    });
    if (key == "location") place_.location = value;
    if (key == "offset") place_.offset = number_of(value);
    if (key == "length") place_.length = number_of(value);
  }
  uint64_t number_of(const std::string& text) const {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      bad_onnx(who() + " has the place \"" + text + "\" in another file, which is no number.");
    return value;
  }

  void check_varints(int64_t numbers, int64_t elements) {
    view_.layout = Layout::varints;
    int64_t count = 0;
    for (std::span<const std::byte> left = view_.bytes; !left.empty(); ++count) {
      const auto value = ProtobufReader::varint(left);
      if (!value) bad_onnx("the numbers of " + who() + " are cut.");
      if (!holds(view_.dtype, *value))
        bad_onnx(who() + " of type " + view_.dtype + " has the number " + std::to_string(int64_t(*value)) +
                 ", which that type does not hold.");
    }
    expect(count == numbers, elements);
  }

  void expect(bool right, int64_t elements) const {
    if (!right)
      bad_onnx(who() + " of type " + view_.dtype + " and shape " + shape_text(view_.shape) + " has " +
               std::to_string(elements) + " elements, but its data, of " + std::to_string(view_.bytes.size()) +
               " bytes, holds another number of them.");
  }

  TensorView view_;
  uint64_t data_type_ = 0;
  std::optional<std::span<const std::byte>> raw_, numbers_;
  uint32_t numbers_field_ = 0;
  bool is_external_ = false;
  ExternalPlace place_;
};

// The other files of a model, each opened once.
class ExternalFiles {
 public:
  ExternalFiles(std::filesystem::path folder, std::vector<FileBytes>& files)
      : folder_(folder.empty() ? "." : std::move(folder)), files_(files) {}

  std::span<const std::byte> operator()(const std::string& who, const ExternalPlace& place) {
    const std::span<const std::byte> bytes = bytes_of(who, place.location);
    if (place.offset > bytes.size() || place.length.value_or(0) > bytes.size() - place.offset)
      bad_onnx(who + " has its bytes beyond the end of \"" + place.location + "\".");
    const auto from = bytes.subspan(size_t(place.offset));
    return place.length ? from.first(size_t(*place.length)) : from;
  }

 private:
  std::span<const std::byte> bytes_of(const std::string& who, const std::string& location) {
    if (const auto known = known_.find(location); known != known_.end()) return known->second;
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path home = fs::weakly_canonical(folder_, error), file = fs::weakly_canonical(folder_ / location, error);
    const auto [end, other] = std::mismatch(home.begin(), home.end(), file.begin(), file.end());
    if (error || location.empty() || location.find('\0') != location.npos || fs::path(location).is_absolute() ||
        end != home.end() || other == file.end())
      bad_onnx(who + " is stored in \"" + location + "\", which is no file of the model's folder.");
    if (known_.size() == kMostFiles) bad_onnx("it is spread over more than " + std::to_string(kMostFiles) + " files.");
    files_.emplace_back(file.string());
    return known_[location] = files_.back().bytes();
  }

  static constexpr size_t kMostFiles = 1024;
  std::filesystem::path folder_;
  std::vector<FileBytes>& files_;
  std::map<std::string, std::span<const std::byte>> known_;
};

class GraphReader {
 public:
  explicit GraphReader(ExternalFiles& other_files) : other_files_(other_files) {}
  std::vector<TensorView> tensors;
  std::vector<OnnxNode> nodes;  // that say something of them

  void read_function(std::span<const std::byte> message) {
    for_each_field(message, "a function", [&](const ProtobufField& field) {
      if (field.number == function::node) read_node(run_of(field, "a node"), 0);
      if (field.number == function::attribute) read_attribute(run_of(field, "an attribute"), "", 0);
    });
  }

  void read_graph(std::span<const std::byte> message, int depth) {
    if (depth > kDeepestGraph) bad_onnx("its graphs are nested too deeply.");
    for_each_field(message, "a graph", [&](const ProtobufField& field) {
      if (field.number == graph::initializer)
        add(run_of(field, "an initialiser"), "");
      else if (field.number == graph::node)
        read_node(run_of(field, "a node"), depth);
      else if (field.number == graph::sparse_initializer)
        add_sparse(run_of(field, "a sparse initialiser"));
    });
  }

 private:
  void add(std::span<const std::byte> message, const std::string& name_if_none) {
    if (tensors.size() == kMaxTensors) bad_onnx("it has more than " + std::to_string(kMaxTensors) + " tensors.");
    tensors.push_back(TensorReader(message, name_if_none).view(other_files_));
  }

  // Named, and sized by all that is stored: values and their places.
  void add_sparse(std::span<const std::byte> message) {
    TensorView whole{"", "SPARSE", {}, message};
    for_each_field(message, "a sparse initialiser", [&](const ProtobufField& field) {
      if (field.number == sparse::values)
        whole.name = TensorReader(run_of(field, "values"), "").view(other_files_).name;
      else if (field.number == sparse::dims)
        take_dims(field, whole.shape, "a sparse initialiser");
    });
    tensor_elements(whole.name, whole.shape);
    tensors.push_back(std::move(whole));
  }

  // A constant has the name of its output.
  void read_node(std::span<const std::byte> message, int depth) {
    std::string output;
    OnnxNode node;
    for_each_field(message, "a node", [&](const ProtobufField& field) {
      if (field.number == node::output && output.empty()) output = text_of(field);
      if (field.number == node::op_type) node.op = text_of(field);
      if (field.number == node::attribute) read_attribute(run_of(field, "an attribute"), output, depth);
    });
    if (!tells_of_weights(node.op)) return;
    for_each_field(message, "a node", [&](const ProtobufField& field) {
      if (field.number == node::input) node.inputs.push_back(text_of(field));
      if (field.number == node::attribute) read_number(run_of(field, "an attribute"), node);
    });
    nodes.push_back(std::move(node));
  }
  static void read_number(std::span<const std::byte> message, OnnxNode& node) {
    std::string name;
    std::optional<uint64_t> number;
    for_each_field(message, "an attribute", [&](const ProtobufField& part) {
      if (part.number == attribute::name) name = text_of(part);
      if (part.number == attribute::number && part.type == ProtobufField::varint) number = part.value;
    });
    if (number) node.numbers[name] = int64_t(*number);
  }
  void read_attribute(std::span<const std::byte> message, const std::string& output, int depth) {
    for_each_field(message, "an attribute", [&](const ProtobufField& part) {
      if (part.number == attribute::tensor || part.number == attribute::tensors)
        add(run_of(part, "a constant"), output);
      else if (part.number == attribute::graph || part.number == attribute::graphs)
        read_graph(run_of(part, "a graph"), depth + 1);
    });
  }

  ExternalFiles& other_files_;
};

}  // namespace

bool looks_like_onnx(std::span<const std::byte> bytes) {
  bool has_version = false, has_graph = false;
  ProtobufReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->number > model::last) return false;
    if (field->number == model::ir_version) has_version = field->type == ProtobufField::varint;
    if (field->number == model::graph) has_graph = field->type == ProtobufField::bytes;
  }
  return !reader.malformed() && has_version && has_graph;
}

std::vector<TensorView> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                                   std::vector<FileBytes>& files) {
  ExternalFiles other_files(folder, files);
  GraphReader reader(other_files);
  for_each_field(bytes, "the model", [&](const ProtobufField& field) {
    if (field.number == model::graph) reader.read_graph(run_of(field, "the graph"), 0);
    if (field.number == model::functions) reader.read_function(run_of(field, "a function"));
  });
  apply_onnx_nodes(reader.nodes, reader.tensors);
  return std::move(reader.tensors);
}

}  // namespace ecmv::datasets
