// See verify_files.h. The order is: read, reference decode, twin, hashes, bytes, then backend by backend and kernel by
// kernel.
#include "experiments/check/verify_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <stdexcept>

#include <fmt/format.h>

#include "backends/backend.h"
#include "backends/cpu/products/dense_matvec.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/matvans.h"
#include "experiments/check/check.h"
#include "experiments/check/outcome.h"

namespace ecmv::experiments {
namespace {

using codecs::ChainFile;
using codecs::CodecEntry;
using Bytes = std::vector<std::byte>;
using reports::Status;
using Result = FileCheck::Result;

// A chain file, or a file of modules, with its layers decoded by the reference.
struct OpenedFile {
  const CodecEntry* entry = nullptr;
  ChainFile chain;
  std::vector<datasets::Matrix> matrices;
  bool is_chain() const { return chain.names.empty(); }
};

OpenedFile open_file(std::span<const std::byte> bytes) {
  OpenedFile file;
  for (const CodecEntry& entry : codecs::all_codecs()) {
    if (entry.codec->recognises_file == nullptr || !entry.codec->recognises_file(bytes)) continue;
    if (file.entry != nullptr)
      throw std::runtime_error(fmt::format("It may be a file of {} or of {}.", file.entry->id, entry.id));
    file.entry = &entry;
  }
  if (file.entry == nullptr) throw std::runtime_error("No codec of this build reads this file.");
  codecs::ReadFile read = codecs::read_chain_file(*file.entry->codec, bytes);
  file.chain = std::move(read.chain);
  file.matrices = std::move(read.matrices);
  size_t length = file.chain.initial_vector.size();
  for (const backends::CompressedMatrix& layer : file.chain.layers) {
    if (file.is_chain() && layer.shape.cols != static_cast<int64_t>(length))
      throw std::runtime_error("Its layers do not fit together as a chain.");
    length = static_cast<size_t>(layer.shape.rows);
  }
  return file;
}

// Computes the chain by plain loops, with the file's scales or, if it has none, 127 / max|acc|.
ReferenceChain chain_of(const OpenedFile& file) {
  ReferenceChain chain = compute_reference_chain({file.matrices, file.chain.initial_vector});
  if (file.chain.scales.empty()) return chain;
  chain.scales = file.chain.scales;
  std::vector<int8_t> x = file.chain.initial_vector;
  for (size_t layer = 0; layer < file.matrices.size(); ++layer) {
    const datasets::Matrix& matrix = file.matrices[layer];
    x.resize(x.size() + backends::kVectorPaddingBytes);
    std::vector<int32_t>& y = chain.accumulators[layer];
    backends::cpu::dense_matvec_scalar(matrix.view().i8().data(), matrix.shape.rows, matrix.shape.cols, x.data(),
                                       y.data());
    x.resize(y.size());
    for (size_t row = 0; row < y.size(); ++row) x[row] = backends::requantise(y[row], chain.scales[layer]);
    chain.outputs[layer] = x;
  }
  return chain;
}

// The first stored hash that does not match these vectors; "" if all match.
template <class OutputOf>
std::string wrong_hash(const ChainFile& chain, const OutputOf& output_of) {
  for (const auto& [layer, expected] : chain.hashes) {
    const uint32_t got = datasets::matvans_hash(output_of(layer));
    if (got != expected)
      return fmt::format("the vector after layer {} hashes to {:08x}, the file says {:08x}", layer, got, expected);
  }
  return {};
}

FileCheck make_check(std::string what, const std::string& failure, std::string success) {
  return {std::move(what), failure.empty() ? Result::ok : Result::failed,
          failure.empty() ? std::move(success) : failure};
}

std::optional<std::filesystem::path> twin_of(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const size_t underscore = stem.rfind('_');
  if (underscore == std::string::npos) return std::nullopt;
  const auto twin = path.parent_path() / (stem.substr(0, underscore) + "_uncompressed" + path.extension().string());
  std::error_code ignored;
  return std::filesystem::exists(twin, ignored) && twin != path ? std::optional(twin) : std::nullopt;
}

FileCheck compare_twin(const OpenedFile& file, const std::filesystem::path& twin_path) {
  std::string failure;
  try {
    const datasets::FileBytes bytes(twin_path.string());
    const OpenedFile twin = open_file(bytes.bytes());
    if (twin.matrices.size() != file.matrices.size() || twin.chain.initial_vector != file.chain.initial_vector)
      failure = "it has other layers or another initial vector";
    for (size_t layer = 0; layer < file.matrices.size() && failure.empty(); ++layer)
      if (twin.matrices[layer].shape != file.matrices[layer].shape ||
          twin.matrices[layer].elements != file.matrices[layer].elements)
        failure = fmt::format("layer {} has other elements", layer);
  } catch (...) {
    failure = outcome_of_exception().reason;
  }
  return make_check("twin " + twin_path.filename().string(), failure, "all elements equal");
}

// Another program may have coded the modules with another code of the same elements, so only the decoded elements must
// agree.
FileCheck compare_modules_reencoded(const OpenedFile& file) {
  std::string failure;
  int64_t stored = 0, encoded = 0;
  for (size_t layer = 0; layer < file.matrices.size() && failure.empty(); ++layer) {
    try {
      const datasets::Matrix& matrix = file.matrices[layer];
      const backends::Settings& settings = file.chain.layers[layer].settings;
      failure = file.entry->codec->refuses(matrix.view(), settings);
      if (!failure.empty()) break;
      const backends::CompressedMatrix again = codecs::encode_matrix(*file.entry, matrix.view(), settings);
      if (codecs::read_stream(*file.entry->codec, again.view()).elements != matrix.elements)
        failure = fmt::format("the module {} has other elements then", file.chain.names[layer]);
      stored += file.chain.layers[layer].stored_bytes();
      encoded += again.stored_bytes();
    } catch (...) {
      failure = outcome_of_exception().reason;
    }
  }
  return make_check("modules encoded again", failure,
                    fmt::format("the same elements in {} bytes, the file's {}", encoded, stored));
}

// Reads the layers again from the output of write_file; the container around them may differ.
FileCheck compare_modules_rewritten(const OpenedFile& file, std::span<const std::byte> bytes) {
  std::string failure, success = "identical";
  try {
    const Bytes written = file.entry->codec->write_file(file.chain);
    if (!std::ranges::equal(written, bytes)) {
      success = file.chain.has_more ? "the same modules; the file's other tensors are not written"
                                    : "the same modules in another order or with another header";
      const ChainFile again = codecs::read_chain_file(*file.entry->codec, written).chain;
      const auto same = [](const backends::CompressedMatrix& a, const backends::CompressedMatrix& b) {
        return a.shape == b.shape && a.type == b.type &&
               std::ranges::equal(a.sections, b.sections, {}, &backends::Section::bytes, &backends::Section::bytes);
      };
      if (again.names != file.chain.names || !std::ranges::equal(again.layers, file.chain.layers, same))
        failure = "other modules are read from the written file";
    }
  } catch (...) {
    failure = outcome_of_exception().reason;
  }
  return make_check("modules written again", failure, success);
}

// Counts bytes in which two layers' sections differ though no reader uses them: the encoder's left-overs in padding. To
// show that, they are inverted in the file's layer, which must still decode to the same elements. nullopt if they do
// matter.
std::optional<int64_t> unread_differences(const CodecEntry& entry, backends::CompressedMatrix stored,
                                          const backends::CompressedMatrix& encoded, const datasets::Matrix& matrix) {
  if (stored.sections.size() != encoded.sections.size()) return std::nullopt;
  int64_t count = 0;
  for (size_t section = 0; section < stored.sections.size(); ++section) {
    Bytes& bytes = stored.sections[section].bytes;
    const Bytes& other = encoded.sections[section].bytes;
    if (bytes.size() != other.size()) return std::nullopt;
    for (size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != other[i]) {
        bytes[i] = ~bytes[i];
        ++count;
      }
  }
  try {
    return count == 0 || codecs::read_stream(*entry.codec, stored.view()).elements == matrix.elements
               ? std::optional(count)
               : std::nullopt;
  } catch (const codecs::MalformedStream&) {
    return std::nullopt;
  }
}

FileCheck compare_reencoded(const OpenedFile& file, std::span<const std::byte> bytes) {
  std::string failure, success = "identical";
  try {
    ChainFile chain = file.chain;
    int64_t unread = 0;
    for (size_t layer = 0; layer < chain.layers.size() && failure.empty(); ++layer) {
      const datasets::Matrix& matrix = file.matrices[layer];
      const backends::Settings settings = codecs::default_settings(*file.entry->codec);
      failure = file.entry->codec->refuses(matrix.view(), settings);
      if (!failure.empty()) break;
      chain.layers[layer] = codecs::encode_matrix(*file.entry, matrix.view(), settings);
      const auto differences = unread_differences(*file.entry, file.chain.layers[layer], chain.layers[layer], matrix);
      if (!differences) failure = fmt::format("layer {} is stored with other bytes", layer);
      unread += differences.value_or(0);
    }
    if (failure.empty()) {
      const Bytes written = file.entry->codec->write_file(chain);
      if (unread > 0) success = fmt::format("identical but for {} bytes of padding that no decoder reads", unread);
      if (unread == 0 ? !std::ranges::equal(written, bytes) : written.size() != bytes.size())
        failure = "the container around equal layers differs";
    }
  } catch (...) {
    failure = outcome_of_exception().reason;
  }
  return make_check("bytes encoded again", failure, success);
}

FileCheck compare_rewritten(const OpenedFile& file, std::span<const std::byte> bytes) {
  std::string failure;
  try {
    if (!std::ranges::equal(file.entry->codec->write_file(file.chain), bytes))
      failure = "the bytes differ from the file's";
  } catch (...) {
    failure = outcome_of_exception().reason;
  }
  return make_check("bytes written again", failure, "identical");
}

// Checks one kernel with one policy on one device.
FileCheck check_kernel(const OpenedFile& file, const Reference& reference, backends::Device& device,
                       const backends::Kernel& kernel, const backends::Policy& policy,
                       const std::vector<std::unique_ptr<backends::UploadedMatrix>>& uploaded) {
  const std::string what = fmt::format("{} {}{}{} {} {}", device.info().backend, device.info().simd_target,
                                       device.info().simd_target.empty() ? "" : " ", backends::op_name(kernel.op),
                                       kernel.variant, policy.name);
  const Outcome outcome = guarded([&]() -> Outcome {
    backends::PassPlan plan;
    plan.kernel = &kernel;
    plan.policy = &policy;
    plan.op = kernel.op;
    plan.inputs = reference.chain->inputs;
    plan.scales = reference.chain->scales;
    device.select();
    for (const auto& layer : uploaded) {
      plan.layers.push_back(layer.get());
      if (const std::string reason = kernel.refuses(layer->view(), device.info(), policy); !reason.empty())
        return {Status::refused, reason};
    }
    const auto pass = backends::prepare(device, plan);
    OutputCheck found = check_every_layer(*pass, kernel.op, reference);
    if (found.fine()) {
      pass->run();
      found = check_last_pass(*pass, kernel.op, reference, uploaded.size());
    }
    if (found.fine() && kernel.op == backends::Op::matvec)
      found.outputs = wrong_hash(file.chain, [&](int layer) { return pass->outputs(layer); });
    return found.outcome();
  });
  if (outcome.status == Status::refused) return {what, Result::refused, outcome.reason};
  return make_check(what, outcome.reason,
                    kernel.op == backends::Op::matvec ? "every layer equal, hashes match" : "every layer equal");
}

void check_backend(const OpenedFile& file, const Reference& reference, const backends::Backend& backend,
                   std::vector<FileCheck>& checks) {
  const auto kernels = file.entry->kernels(backend.id);
  if (kernels.empty()) return;
  for (const backends::DeviceInfo& info : backend.devices()) {
    const std::string name =
        info.simd_target.empty() ? std::string(backend.id) : fmt::format("{} {}", backend.id, info.simd_target);
    if (!info.unavailable.empty()) {
      checks.push_back({name, Result::refused, info.unavailable});
      continue;
    }
    try {
      const auto device = backend.open({.threads = 0, .simd_target = info.simd_target});
      std::vector<std::unique_ptr<backends::UploadedMatrix>> uploaded;
      for (const backends::CompressedMatrix& layer : file.chain.layers) uploaded.push_back(device->upload(layer));
      for (const backends::Kernel& kernel : kernels) {
        // Modules are not multiplied, since nothing gives an input. No file has float products.
        if (kernel.op == backends::Op::matmul || (!file.is_chain() && kernel.op != backends::Op::decode)) continue;
        for (const backends::Policy& policy : kernel.policies)
          checks.push_back(check_kernel(file, reference, *device, kernel, policy, uploaded));
      }
    } catch (...) {
      checks.push_back({name, Result::failed, outcome_of_exception().reason});
    }
  }
}

void check_chain(const OpenedFile& file, const ReferenceChain& chain, std::span<const std::byte> bytes,
                 std::vector<FileCheck>& checks) {
  checks.push_back(
      make_check("reference chain",
                 wrong_hash(file.chain, [&](int layer) { return std::span<const int8_t>(chain.outputs.at(layer)); }),
                 fmt::format("the file's hashes match: {} of {} layers have one", file.chain.hashes.size(),
                             file.matrices.size())));
  if (file.entry->codec->write_file != nullptr) {
    checks.push_back(compare_rewritten(file, bytes));
    checks.push_back(compare_reencoded(file, bytes));
  }
}

void check_opened(const std::string& path, std::span<const std::byte> bytes, const OpenedFile& file,
                  FileVerification& verification) {
  std::vector<FileCheck>& checks = verification.checks;
  checks.push_back({"reference decode", Result::ok, fmt::format("{} layers", file.matrices.size())});
  if (const auto twin = twin_of(path)) checks.push_back(compare_twin(file, *twin));
  // The file owns the matrices.
  const Reference reference{
      {std::shared_ptr<void>(), &file.matrices},
      std::make_shared<const ReferenceChain>(file.is_chain() ? chain_of(file) : ReferenceChain{})};
  if (!file.is_chain()) {
    checks.push_back(compare_modules_rewritten(file, bytes));
    checks.push_back(compare_modules_reencoded(file));
  } else {
    check_chain(file, *reference.chain, bytes, checks);
  }
  const size_t before_kernels = checks.size();
  for (const backends::Backend& backend : backends::all_backends()) check_backend(file, reference, backend, checks);
  if (std::none_of(checks.begin() + before_kernels, checks.end(),
                   [](const FileCheck& check) { return check.result == Result::ok; }))
    checks.push_back({"kernels", Result::failed, "no kernel of this codec has run"});
}

}  // namespace

bool FileVerification::passed() const {
  return unreadable.empty() && !checks.empty() &&
         std::ranges::none_of(checks, [](const FileCheck& check) { return check.result == Result::failed; });
}

FileVerification verify_file(const std::string& path) {
  FileVerification verification;
  verification.path = path;
  std::optional<datasets::FileBytes> bytes;
  OpenedFile file;
  try {
    bytes.emplace(path);
    file = open_file(bytes->bytes());
  } catch (...) {
    verification.unreadable = outcome_of_exception().reason;
    return verification;
  }
  verification.codec = file.entry->id;
  int64_t stored_bytes = 0, elements = 0;
  for (const backends::CompressedMatrix& layer : file.chain.layers) {
    verification.shapes.push_back(layer.shape);
    stored_bytes += layer.stored_bytes();
    elements += layer.shape.elements();
  }
  verification.bits_per_element =
      elements == 0 ? 0 : 8.0 * static_cast<double>(stored_bytes) / static_cast<double>(elements);
  try {
    check_opened(path, bytes->bytes(), file, verification);
  } catch (...) {
    verification.checks.push_back({"verification", Result::failed, outcome_of_exception().reason});
  }
  return verification;
}

void print_verification(const FileVerification& verification, std::ostream& out) {
  if (!verification.unreadable.empty()) {
    out << verification.path << ": cannot be verified. " << verification.unreadable << "\n";
    return;
  }
  std::vector<std::pair<datasets::Shape, int>> shapes;  // in the order of first appearance, with their layers
  for (const datasets::Shape& shape : verification.shapes) {
    const auto known = std::ranges::find(shapes, shape, &std::pair<datasets::Shape, int>::first);
    if (known == shapes.end())
      shapes.push_back({shape, 1});
    else
      ++known->second;
  }
  std::string layers;
  for (const auto& [shape, count] : shapes)
    layers += fmt::format("{}{} of [{}, {}]", layers.empty() ? "" : ", ", count, shape.rows, shape.cols);
  out << fmt::format("{}: {}, {} layers ({}), {:.3f} stored bits an element\n", verification.path, verification.codec,
                     verification.shapes.size(), layers, verification.bits_per_element);
  int counts[3] = {};
  for (const FileCheck& check : verification.checks) {
    constexpr const char* kWords[] = {"ok", "FAILED", "refused"};
    out << fmt::format("  {:8}{:44} {}\n", kWords[static_cast<int>(check.result)], check.what, check.detail);
    ++counts[static_cast<int>(check.result)];
  }
  out << fmt::format("  {}: {} checks ok, {} failed, {} refused\n", verification.passed() ? "passed" : "FAILED",
                     counts[0], counts[1], counts[2]);
}

int verify_files(std::span<const std::string> paths, std::ostream& out) {
  bool failed = false, unreadable = paths.empty();
  for (const std::string& path : paths) {
    const FileVerification verification = verify_file(path);
    print_verification(verification, out);
    if (!verification.unreadable.empty())
      unreadable = true;
    else if (!verification.passed())
      failed = true;
  }
  return failed ? 3 : unreadable ? 2 : 0;
}

}  // namespace ecmv::experiments
