// A kernel may keep of a matrix only what its binding allows: if another matrix of the same shape takes its place in
// memory, the next binding must give the new results. Every kernel of CPUs is tested, and kernels that remember by
// address, which must be caught.
#include <algorithm>
#include <cstring>
#include <list>
#include <map>

#include "backends/cpu/products/dense_matvec.h"
#include "codecs/registry.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;
using backends::Op;

namespace {

// 64 bytes are the alignment that every device upholds.
struct alignas(64) Line {
  std::byte bytes[64];
};
using Lines = std::vector<Line>;
Lines lines_of(size_t bytes) { return Lines(bytes / sizeof(Line) + 2, Line{}); }
template <typename T>
T* first(Lines& lines) {
  return reinterpret_cast<T*>(lines.data());
}

// Holds the sections of one matrix after the other in the same memory.
class Memory {
 public:
  explicit Memory(std::span<const backends::CompressedMatrix> matrices) {
    for (size_t s = 0; s < matrices[0].sections.size(); ++s) {
      size_t most = 0;
      for (const auto& matrix : matrices) most = std::max(most, matrix.sections[s].bytes.size());
      sections_.push_back(lines_of(most));
    }
  }
  backends::CompressedView hold(const backends::CompressedMatrix& matrix) {
    backends::CompressedView view = matrix.view();
    for (size_t s = 0; s < sections_.size(); ++s) {
      const auto& bytes = matrix.sections[s].bytes;
      std::ranges::copy(bytes, first<std::byte>(sections_[s]));
      view.sections[s].bytes = view.sections[s].host = {first<std::byte>(sections_[s]), bytes.size()};
    }
    return view;
  }

 private:
  std::vector<Lines> sections_;
};

// A binding's memory, as a backend gives it.
class OwnPlace final : public backends::Place {
 public:
  const backends::DeviceInfo& device() const override { return device_; }
  const std::byte* describe(std::span<const std::byte> bytes) override {
    std::byte* copy = zeroed(static_cast<int64_t>(bytes.size()));
    std::ranges::copy(bytes, copy);
    return copy;
  }
  std::byte* zeroed(int64_t bytes) override {
    memory_.push_back(lines_of(static_cast<size_t>(bytes)));
    return first<std::byte>(memory_.back());
  }

 private:
  backends::DeviceInfo device_;
  std::list<Lines> memory_;
};

// "" if the kernel gives the right results for the first matrix, the second, and the first again.
std::string same_memory_violation(const backends::Kernel& kernel, const backends::Policy& policy,
                                  std::span<const backends::CompressedMatrix> compressed,
                                  std::span<const datasets::Matrix> matrices) {
  const auto [rows, cols] = matrices[0].shape;
  Lines x_lines = lines_of(static_cast<size_t>(cols + backends::kVectorPaddingBytes));
  int8_t* x = first<int8_t>(x_lines);
  std::fill_n(x, x_lines.size() * sizeof(Line), int8_t{0});
  Random random{7};
  for (int64_t i = 0; i < cols; ++i) x[i] = static_cast<int8_t>(random.next());
  Memory memory(compressed);
  for (const size_t turn : {size_t{0}, size_t{1}, size_t{0}}) {
    const backends::CompressedView view = memory.hold(compressed[turn]);
    if (!kernel.refuses(view, {}, policy).empty()) return "";
    OwnPlace place;
    const backends::Layer layer{.matrix = &view, .y = nullptr, .v = nullptr, .scale = 0};
    const backends::BoundKernel bound = kernel.bind(policy, {&layer, 1}, 1, place);
    Lines scratch = lines_of(static_cast<size_t>(bound.facts.scratch_bytes)),
          decoded = lines_of(static_cast<size_t>(rows * cols));
    std::vector<int32_t> y(static_cast<size_t>(rows), 77), expected(y);
    if (kernel.op == Op::decode) {
      bound.enqueue(nullptr,
                    backends::DecodeArgs{
                        .rows = {0, rows}, .out = first<std::byte>(decoded), .scratch = first<std::byte>(scratch)});
      if (std::memcmp(decoded.data(), matrices[turn].elements.data(), matrices[turn].elements.size()) != 0)
        return "It decodes another matrix than the one that is in memory now.";
    } else {
      backends::cpu::dense_matvec_scalar(matrices[turn].view().i8().data(), rows, cols, x, expected.data());
      bound.enqueue(nullptr, backends::MatvecArgs{
                                 .rows = {0, rows}, .x = x, .y = y.data(), .scratch = first<std::byte>(scratch)});
      if (y != expected) return "It multiplies another matrix than the one that is in memory now.";
    }
  }
  return "";
}

std::vector<datasets::Matrix> two_matrices() {
  return {gaussian_matrix({64, 512}, 4, 1), gaussian_matrix({64, 512}, 4, 2)};
}

std::vector<backends::CompressedMatrix> encoded(const codecs::CodecEntry& entry,
                                                const std::vector<datasets::Matrix>& matrices) {
  std::vector<backends::CompressedMatrix> out;
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  for (const datasets::Matrix& matrix : matrices)
    if (entry.codec->refuses(matrix.view(), settings).empty())
      out.push_back(codecs::encode_matrix(entry, matrix.view(), settings));
  return out;
}

// Kernels of raw_int8 that remember the content of an address.
const std::vector<int8_t>& known(const backends::CompressedView& view) {
  static std::map<const std::byte*, std::vector<int8_t>> all;
  const std::span<const std::byte> bytes = view.sections[0].bytes;
  std::vector<int8_t>& matrix = all[bytes.data()];
  if (matrix.empty())
    for (const std::byte byte : bytes) matrix.push_back(static_cast<int8_t>(byte));
  return matrix;
}
struct Decode {
  const backends::CompressedView* view;
  void operator()(void*, const backends::DecodeArgs& args) const {
    std::memcpy(args.out, known(*view).data(), known(*view).size());
  }
};
struct Multiply {
  const backends::CompressedView* view;
  void operator()(void*, const backends::MatvecArgs& args) const {
    backends::cpu::dense_matvec_scalar(known(*view).data(), view->shape.rows, view->shape.cols, args.x, args.y);
  }
};
template <typename Body>
backends::BoundKernel bind_remembering(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return Body{layers[0].matrix};
}

}  // namespace

TEST_CASE("kernels give the results of the matrix that is in memory, not of one that was there before") {
  const codecs::CodecEntry& entry = each_codec();
  const std::vector<datasets::Matrix> matrices = two_matrices();
  const std::vector<backends::CompressedMatrix> compressed = encoded(entry, matrices);
  if (compressed.size() < 2 || !entry.codec->lossless) return;
  for (auto& device : devices(Place::cpu, 1)) {
    device->select();
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op != Op::decode && kernel.op != Op::matvec) continue;
        INFO(entry.id << " " << kernel.variant << "/" << policy.name << " on " << device->info().simd_target);
        CHECK(same_memory_violation(kernel, policy, compressed, matrices) == "");
      }
  }
}

TEST_CASE("a kernel that remembers a matrix by its address is caught") {
  const codecs::CodecEntry& raw = codec_or_skip("raw_int8");
  const std::vector<datasets::Matrix> matrices = two_matrices();
  const std::vector<backends::CompressedMatrix> compressed = encoded(raw, matrices);
  for (const backends::Kernel& kernel :
       {backends::Kernel{.op = Op::decode, .variant = "remembering", .bind = bind_remembering<Decode>},
        backends::Kernel{.op = Op::matvec, .variant = "remembering", .bind = bind_remembering<Multiply>}})
    CHECK(same_memory_violation(kernel, kernel.policies[0], compressed, matrices).size() > 20);
}
