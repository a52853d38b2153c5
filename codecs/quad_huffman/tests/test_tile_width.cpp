// Widths of tiles that open settings choose: those that were the fastest on an H200, or within 3 % of them. How blocks
// divide fragments.
#include <optional>

#include <catch2/catch_test_macros.hpp>

#include "codecs/quad_huffman/encode/tile_width.h"
#include "codecs/quad_huffman/fragment_division.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr datasets::ElementType kBf16 = datasets::ElementType::bf16;

int width(datasets::Shape shape, int symbol_cols, datasets::ElementType type = kBf16) {
  return tile_cols_for_fragments(fragments_shape(shape), type, symbol_cols, 12);
}
double cost(datasets::Shape shape, int symbol_cols) {
  return fragments_cost(fragments_shape(shape), symbol_cols, 12, 10.8);
}

TEST_CASE("Open tiles of fragments are as wide as is fastest for 1, 16 and 64 tokens together", "[quad_huffman]") {
  CHECK(width({2880, 2880}, 8) == 256);
  CHECK(width({9728, 896}, 8) == 256);
  CHECK(width({5120, 5120}, 8) == 512);
  CHECK(width({6144, 4096}, 8) == 512);
  CHECK(width({4096, 12288}, 8) == 768);
  CHECK(width({28672, 4096}, 8) == 1024);
  CHECK(width({16384, 16384}, 8) == 1024);
  CHECK(width({5120, 25600}, 8) == 1280);
  CHECK(width({5120, 3072}, 4) == 256);
  CHECK(width({16, 16}, 4) == 128);
  CHECK(width({6144, 1024}, 4) == 128);
  CHECK(width({6144, 1024}, 8) == 256);
  CHECK(width({2880, 2880}, 4) == 256);
  CHECK(width({5760, 2880}, 8, datasets::ElementType::f8_e4m3) == 256);
  CHECK(width({3072, 8192}, 8, datasets::ElementType::f8_e4m3) == 512);
  CHECK(width({5120, 5120}, 8, datasets::ElementType::f8_e4m3) == 512);
}

TEST_CASE("Symbols of four or eight exponents are chosen by the shape", "[quad_huffman]") {
  CHECK(cost({14336, 4096}, 8) < cost({14336, 4096}, 4));
  CHECK(cost({2880, 2880}, 8) < cost({2880, 2880}, 4));
  CHECK(cost({16384, 16384}, 8) < cost({16384, 16384}, 4));
  CHECK(cost({5120, 5120}, 8) < cost({5120, 5120}, 4));
  CHECK(cost({4096, 4096}, 4) < cost({4096, 4096}, 8));
  CHECK(cost({4096, 1024}, 4) < cost({4096, 1024}, 8));
  CHECK(cost({1024, 3072}, 4) < cost({1024, 3072}, 8));
  CHECK(cost({5760, 2880}, 4) < cost({5760, 2880}, 8));
}

// As warpgroup32 divides tiles of 1024 or 256 columns for 16 tokens on an H200, T = 12.
std::optional<FragmentDivision> divide(int64_t row_groups, int64_t column_tiles, int tile_cols) {
  return divide_few(row_groups, column_tiles,
                    {.most_groups = 32,
                     .multiple = 4,
                     .least_groups = 16,
                     .least_of_rounds = 24,
                     .equal_rows = false,
                     .shared_bytes = 226 * 1024,
                     .fixed_bytes = 1024,
                     .bytes_of_group = 4384,
                     .bytes_of_tile = int64_t{tile_cols} * 64,
                     .compute_units = 132},
                    [](int64_t bytes) { return table_copies(12, 32, bytes); });
}

TEST_CASE("Small matrices are divided among many blocks, large ones into few rounds", "[quad_huffman]") {
  const auto small = divide(256, 2, 256), large = divide(8016, 2, 1024);  // 4096 x 1024, 128256 x 4096
  REQUIRE(small);
  CHECK(small->lane_groups == 8);
  CHECK(small->row_blocks * small->shares == 64);
  REQUIRE(large);
  CHECK(large->lane_groups == 32);
  CHECK(large->rounds == 4);
  CHECK_FALSE(divide(0, 2, 256));
  CHECK_FALSE(divide(256, 1, 1 << 20));  // its tokens do not fit
}

TEST_CASE("A fixed width is taken as it is", "[quad_huffman]") {
  const datasets::Shape stored = fragments_shape({18944, 3584});
  CHECK(fragments_cost(stored, 4, 12, 10.8, 896) == fragments_cost(stored, 4, 12, 10.8));
  CHECK(fragments_cost(stored, 4, 12, 10.8, 1280) > fragments_cost(stored, 4, 12, 10.8));
}

}  // namespace
}  // namespace ecmv::codecs::quad_huffman
