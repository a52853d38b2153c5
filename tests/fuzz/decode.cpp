// Streams from anywhere: the reference decoder takes or refuses them, and every scalar kernel decodes and multiplies an
// accepted stream alike. ECMV_FUZZ_CODEC=ID makes every input a stream of that codec.
//
// An input has 2 bytes that name the codec, 2 for each of its settings, element type (1), rows (2), columns (2), number
// of sections (1), the length of each but the last (2), and the sections themselves.
#include <algorithm>

#include "backends/pass.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "tests/fuzz/target.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

namespace ecmv::tests::fuzz {
namespace {

constexpr int64_t kMostBytes = 1 << 17;  // of a decoded matrix: more only takes time
constexpr size_t kTypes = static_cast<size_t>(datasets::ElementType::f8_e4m3) + 1;

// Reads numbers off an input; zeros past its end.
class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : left_(bytes) {}
  size_t number(size_t bytes) {
    size_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      if (i < left_.size()) value |= size_t{left_[i]} << 8 * i;
    take(bytes);
    return value;
  }
  std::span<const std::byte> take(size_t bytes) {
    const auto taken = std::as_bytes(left_.first(std::min(bytes, left_.size())));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take(left_.size()); }

 private:
  std::span<const uint8_t> left_;
};

void put(Bytes& out, size_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> 8 * i));
}

// Depends only on the id, so an input keeps its meaning when codecs are added.
uint16_t number_of(std::string_view id) {
  uint32_t hash = 0;
  for (const char letter : id) hash = hash * 31 + static_cast<uint8_t>(letter);
  return static_cast<uint16_t>(hash ^ hash >> 16);
}

// The codec with that number or the next one above.
const codecs::CodecEntry& codec_of(size_t number) {
  static const char* const only = std::getenv("ECMV_FUZZ_CODEC");
  if (only != nullptr) {
    if (const codecs::CodecEntry* entry = codecs::find_codec(only)) return *entry;
    broken("ECMV_FUZZ_CODEC names a codec");
  }
  const auto distance = [&](const codecs::CodecEntry& entry) {
    return static_cast<uint16_t>(number_of(entry.id) - number);
  };
  return *std::ranges::min_element(codecs::all_codecs(), {}, distance);
}

// The values of a setting in the order of its numbers.
std::string value_of(const codecs::SettingInfo& info, size_t number) {
  const std::vector<std::string> listed = codecs::listed_values(info);
  if (!listed.empty()) return listed[number % listed.size()];
  const auto range = static_cast<uint64_t>(info.max) - static_cast<uint64_t>(info.min) + 1;
  return std::to_string(info.min + static_cast<int64_t>(range == 0 ? number : number % range));
}

size_t number_of(const codecs::SettingInfo& info, const backends::SettingValue& value) {
  const bool is_number = std::holds_alternative<int64_t>(value);
  const std::string text = is_number ? std::to_string(std::get<int64_t>(value)) : std::get<std::string>(value);
  const std::vector<std::string> listed = codecs::listed_values(info);
  if (listed.empty()) return static_cast<size_t>(std::get<int64_t>(value) - info.min);
  return static_cast<size_t>(std::ranges::find(listed, text) - listed.begin());
}

Bytes input_of(const codecs::CodecEntry& entry, const backends::CompressedMatrix& stored) {
  Bytes out;
  put(out, number_of(entry.id), 2);
  for (const codecs::SettingInfo& info : entry.codec->settings)
    put(out, number_of(info, stored.settings.values().find(info.name)->second), 2);
  put(out, static_cast<size_t>(stored.type), 1);
  put(out, static_cast<size_t>(stored.shape.rows), 2);
  put(out, static_cast<size_t>(stored.shape.cols), 2);
  put(out, stored.sections.size(), 1);
  for (size_t i = 0; i + 1 < stored.sections.size(); ++i) put(out, stored.sections[i].bytes.size(), 2);
  for (const backends::Section& section : stored.sections)
    for (const std::byte byte : section.bytes) out.push_back(static_cast<uint8_t>(byte));
  return out;
}

backends::CompressedMatrix stream_of(const codecs::CodecEntry& entry, Input& input) {
  constexpr size_t kMostSections = 32;
  backends::CompressedMatrix stored;
  std::map<std::string, std::string> given;
  for (const codecs::SettingInfo& info : entry.codec->settings)
    given[std::string(info.name)] = value_of(info, input.number(2));
  std::vector<std::string> errors;
  stored.settings = codecs::resolve_settings(entry.codec->settings, given, errors);
  if (!errors.empty()) broken("Listed values of settings are accepted: " + errors.front());
  stored.type = static_cast<datasets::ElementType>(input.number(1) % kTypes);
  stored.shape.rows = static_cast<int64_t>(input.number(2));
  stored.shape.cols = static_cast<int64_t>(input.number(2));
  std::vector<size_t> lengths(input.number(1) % kMostSections);
  for (size_t i = 0; i + 1 < lengths.size(); ++i) lengths[i] = input.number(2);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto bytes = i + 1 < lengths.size() ? input.take(lengths[i]) : input.rest();
    stored.sections.push_back({.name = "fuzzed", .bytes = {bytes.begin(), bytes.end()}});
  }
  return stored;
}

// The pass must give the reference's elements, or the product with them.
void run(backends::Device& device, const backends::PassPlan& plan, const datasets::Matrix& matrix,
         const std::string& who) {
  const auto pass = backends::prepare(device, plan);
  pass->poison_outputs(0);
  pass->run();
  if (plan.op == backends::Op::decode && !std::ranges::equal(pass->decoded(), matrix.view().i8()))
    broken(who + " decodes as the reference does");
  if (plan.op == backends::Op::matvec)
    for (int64_t row = 0; row < matrix.shape.rows; ++row) {
      int32_t sum = 0;
      for (int64_t col = 0; col < matrix.shape.cols; ++col)
        sum += static_cast<int8_t>(matrix.elements[static_cast<size_t>(row * matrix.shape.cols + col)]) *
               plan.inputs[0][static_cast<size_t>(col)];
      if (pass->accumulators(0)[static_cast<size_t>(row)] != sum)
        broken(who + " multiplies what the reference decodes");
    }
  if (!pass->broken_guards().empty()) broken(who + " writes its results only: " + pass->broken_guards());
}

void run_kernels(const codecs::CodecEntry& entry, const backends::CompressedMatrix& stored,
                 const datasets::Matrix& matrix) {
  using backends::Op;
  static const auto device = backends::find_backend("scalar")->open({.threads = 1});
  const auto uploaded = device->upload(stored);
  for (const backends::Kernel& kernel : entry.cpu_kernels)
    for (const backends::Policy& policy : kernel.policies) {
      if (!kernel.refuses(uploaded->view(), device->info(), policy).empty()) continue;
      backends::PassPlan plan;
      plan.kernel = &kernel;
      plan.policy = &policy;
      plan.op = kernel.op;
      plan.layers = {uploaded.get()};
      plan.chained = false;
      if (kernel.op == Op::matvec) {
        if (matrix.type != datasets::ElementType::i8) continue;
        plan.inputs.emplace_back(static_cast<size_t>(matrix.shape.cols));
        for (size_t i = 0; i < plan.inputs[0].size(); ++i) plan.inputs[0][i] = static_cast<int8_t>(37 * i + 5);
        plan.scales = {1};
      }
      if (kernel.op == Op::matmul) {
        plan.batch = 2;
        plan.tokens.emplace_back(static_cast<size_t>(2 * matrix.shape.cols), 0.5f);
      }
      run(*device, plan, matrix,
          std::string(entry.id) + "'s " + std::string(kernel.variant) + "/" + std::string(policy.name));
    }
}

}  // namespace

// The smallest matrix that the codec takes, for every codec, choice of settings and type.
std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  std::vector<std::vector<datasets::Matrix>> families(4);  // each from small to large
  for (const datasets::Shape shape : {datasets::Shape{3, 65}, {4, 128}, {32, 32}, {32, 128}, {32, 512}}) {
    families[0].push_back(gaussian_matrix(shape, 4));
    families[1].push_back(bf16_matrix(shape));
    families[2].push_back(ternary_matrix(shape));
    families[3].push_back(ternary_matrix(shape, true));
  }
  for (const datasets::Matrix& matrix : typed_matrices())
    if (matrix.shape.elements() <= 3 * 1024) families.push_back({matrix});
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    for (const backends::Settings& settings : settings_to_test(*entry.codec))
      for (size_t family = 0; family < families.size(); ++family) {
        // Ternary and odd types with the default settings only, unless nothing else is taken.
        if (family > 1 && settings != codecs::default_settings(*entry.codec)) continue;
        const auto found = std::ranges::find_if(families[family], [&](const datasets::Matrix& matrix) {
          return entry.codec->refuses(matrix.view(), settings).empty();
        });
        if (found == families[family].end()) continue;
        out.push_back(input_of(entry, codecs::encode_matrix(entry, found->view(), settings)));
      }
  return out;
}

void try_input(std::span<const uint8_t> bytes) {
  Input input(bytes);
  const codecs::CodecEntry& entry = codec_of(input.number(2));
  const backends::CompressedMatrix stored = stream_of(entry, input);
  if (stored.shape.elements() * datasets::element_bytes(stored.type) > kMostBytes) return;
  datasets::Matrix matrix;
  try {
    matrix = codecs::read_stream(*entry.codec, stored.view());
  } catch (const codecs::MalformedStream&) {
    return;
  }
  run_kernels(entry, stored, matrix);
}

}  // namespace ecmv::tests::fuzz
