// Widths of tiles that open settings choose: those that were the fastest on an H200, or within 5 % of them.
#include <catch2/catch_test_macros.hpp>

#include "codecs/quad_huffman/encode/tile_width.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr datasets::ElementType kBf16 = datasets::ElementType::bf16;

int width(datasets::Shape shape, int symbol_cols) {
  return tile_cols_for_fragments(fragments_shape(shape), kBf16, symbol_cols, 12);
}
double cost(datasets::Shape shape, int symbol_cols) {
  return fragments_cost(fragments_shape(shape), symbol_cols, 12, 10.8);
}

TEST_CASE("Open tiles of fragments are as wide as is fastest for 1, 16 and 64 tokens together", "[quad_huffman]") {
  CHECK(width({2880, 2880}, 8) == 256);
  CHECK(width({9728, 896}, 8) == 256);
  CHECK(width({3584, 18944}, 8) == 768);
  CHECK(width({28672, 4096}, 8) == 1024);
  CHECK(width({16384, 16384}, 8) == 1024);
  CHECK(width({5120, 3072}, 4) == 256);
  CHECK(width({16, 16}, 4) == 256);
}

TEST_CASE("Symbols of four or eight exponents are chosen by the shape", "[quad_huffman]") {
  CHECK(cost({14336, 4096}, 8) < cost({14336, 4096}, 4));
  CHECK(cost({2880, 2880}, 8) < cost({2880, 2880}, 4));
  CHECK(cost({16384, 16384}, 8) < cost({16384, 16384}, 4));
  CHECK(cost({5760, 2880}, 4) < cost({5760, 2880}, 8));
}

TEST_CASE("A fixed width is taken as it is", "[quad_huffman]") {
  const datasets::Shape stored = fragments_shape({18944, 3584});
  CHECK(fragments_cost(stored, 4, 12, 10.8, 896) == fragments_cost(stored, 4, 12, 10.8));
  CHECK(fragments_cost(stored, 4, 12, 10.8, 1280) > fragments_cost(stored, 4, 12, 10.8));
}

}  // namespace
}  // namespace ecmv::codecs::quad_huffman
