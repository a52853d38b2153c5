// What the generic conformance tests cannot know of bzip2: its size on elements without repetitions, that blocks decode
// by themselves in a scratch of the promised size, and what damage it must notice.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codecs/modelling/library_blocks.h"
#include "codecs/registry.h"
#include "datasets/discrete_sampler.h"
#include "datasets/distributions.h"

namespace {

using namespace ecmv;
using namespace ecmv::codecs;

datasets::Matrix gaussian(int64_t rows, int64_t cols) {
  datasets::Matrix matrix;
  matrix.shape = {rows, cols};
  matrix.elements.resize(rows * cols);
  datasets::DiscreteSampler(datasets::gaussian_table(4.0))
      .draw({7, 0, datasets::RandomStream::Purpose::matrix}, 0, {reinterpret_cast<int8_t*>(matrix.elements.data()), matrix.elements.size()});
  return matrix;
}

const CodecEntry& entry() { return *find_codec("bzip2"); }

CompressedMatrix encode(const datasets::Matrix& matrix, const std::map<std::string, std::string>& given = {}) {
  std::vector<std::string> errors;
  return encode_matrix(entry(), matrix.view(), resolve_settings(entry().codec->settings, given, errors));
}

std::vector<std::byte> decode(const CompressedMatrix& compressed) {
  std::vector<std::byte> out(compressed.shape.elements());
  entry().codec->decode(compressed.view(), out);
  return out;
}

}  // namespace

TEST_CASE("bzip2 stores Gaussian elements of entropy 4.05 as its Huffman code allows", "[bzip2]") {
  const CompressedMatrix compressed = encode(gaussian(256, 4096));
  const double bits = 8.0 * compressed.stored_bytes() / compressed.shape.elements();
  CHECK(bits > 4.30);
  CHECK(bits < 4.45);
}

TEST_CASE("bzip2 decodes every block alone within the scratch it asks for", "[bzip2]") {
  const datasets::Matrix matrix = gaussian(70, 3000);
  const std::vector<std::map<std::string, std::string>> all_settings = {
      {{"block_kib", "16"}}, {{"block_kib", "1"}}, {{"block_kib", "128"}}, {{"level", "1"}}, {{"block_kib", "1"}}};
  for (const auto& settings : all_settings) {
    const CompressedMatrix compressed = encode(matrix, settings);
    REQUIRE(decode(compressed) == matrix.elements);
    const CompressedView view = compressed.view();
    const backends::Kernel& kernel = entry().cpu_kernels[0];
    const int64_t step = kernel.rows_per_block(view), scratch_bytes = kernel.scratch_bytes(view, 0);
    std::vector<std::byte> scratch(scratch_bytes + 64 + 64, std::byte{0x5a});
    void* aligned = scratch.data();
    size_t space = scratch_bytes + 64;
    REQUIRE(std::align(64, scratch_bytes, aligned, space) != nullptr);
    std::vector<int8_t> decoded(step * 3000 + 1, 0x5a);
    for (int64_t row = 0; row < 70; row += step) {
      backends::KernelCall call;
      call.matrix = &view;
      call.row_begin = row;
      call.row_end = std::min<int64_t>(70, row + step);
      call.decoded = decoded.data();
      call.scratch = static_cast<std::byte*>(aligned);
      kernel.launch(call);
      const int64_t count = (call.row_end - row) * 3000;
      CHECK(std::equal(decoded.begin(), decoded.begin() + count, matrix.view().i8().begin() + row * 3000));
      CHECK(decoded.back() == 0x5a);
    }
    CHECK(std::all_of(static_cast<std::byte*>(aligned) + scratch_bytes, scratch.data() + scratch.size(), [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

TEST_CASE("bzip2 notices streams that are cut, longer or of another size", "[bzip2]") {
  const datasets::Matrix matrix = gaussian(64, 500);
  const CompressedMatrix good = encode(matrix, {{"block_kib", "8"}});
  CompressedMatrix cut = good, longer = good, falling = good, taller = good;
  cut.sections[modelling::kBlockPayload].bytes.pop_back();
  longer.sections[modelling::kBlockPayload].bytes.push_back(std::byte{0});
  falling.sections[modelling::kBlockOffsets].bytes[15] = std::byte{255};
  taller.shape.rows = 65;
  for (const CompressedMatrix& bad : {cut, longer, falling, taller}) CHECK_THROWS_AS(decode(bad), MalformedStream);
  // The whole end of the last block is gone, but the index fits.
  CompressedMatrix shorter = good;
  std::vector<std::byte>&payload = shorter.sections[modelling::kBlockPayload].bytes, &offsets = shorter.sections[modelling::kBlockOffsets].bytes;
  payload.erase(payload.end() - 40, payload.end());
  const uint64_t end = payload.size();
  std::copy_n(reinterpret_cast<const std::byte*>(&end), 8, offsets.end() - 8);
  CHECK_THROWS_AS(decode(shorter), MalformedStream);
}
