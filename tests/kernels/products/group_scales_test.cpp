// Products of matrices with a scale for each group of columns of a row.
#include "tests/kernels/products/products.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// Groups of the fewest columns, of more, and of more than the matrix has; one set of scales for all rows; rows that end
// inside a group.
void scale_groups(Devices devices) {
  int ran = 0;
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    for (const datasets::Shape shape : {datasets::Shape{67, 512}, {40, 1040}, {16, 2048}}) {
      const datasets::Matrix matrix = weights(datasets::ElementType::i8, shape);
      const backends::Settings settings = codecs::default_settings(*entry.codec);
      if (!entry.codec->lossless || !entry.codec->refuses(matrix.view(), settings).empty()) continue;
      std::optional<backends::CompressedMatrix> compressed;
      const Product product{matrix, {}, {draw_tokens(shape.cols, backends::kMaxBatch), {}}};
      Product rounded = product;
      for (float& token : rounded.bf16.tokens)
        token = std::bit_cast<float>(uint32_t{datasets::nearest_bf16(token)} << 16);
      for (auto& device : devices) {
        std::unique_ptr<backends::UploadedMatrix> uploaded;
        for (const backends::Kernel& kernel : entry.kernels(device->info().backend)) {
          if (kernel.group_cols == 0) continue;
          if (!compressed) compressed = codecs::encode_matrix(entry, matrix.view(), settings);
          if (uploaded == nullptr) uploaded = device->upload(*compressed);
          for (const backends::Policy& policy : kernel.policies)
            for (const auto& [more, for_all_rows] : {std::pair{1, false}, {1, true}, {4, false}, {64, false}})
              for (const int batch : {1, 9, 33}) {
                const datasets::Scales scales = scales_for(kernel, shape, more, for_all_rows);
                INFO(entry.id << " " << kernel.variant << "/" << policy.name << " on " << device->info().backend << ", "
                              << describe(matrix) << ", groups of " << scales.group_cols << ", batch " << batch);
                ran += product_is_right(*device, kernel, policy, *uploaded, rounded, batch, {}, &scales);
              }
        }
      }
    }
  CHECK(ran > 0);
}
}  // namespace

TEST_CASE("products with scales of groups keep the bound, in the emulator", "[emulator]") {
  scale_groups(devices_or_skip(Place::emulator));
}
TEST_CASE("products with scales of groups keep the bound on this machine's GPUs", "[gpu]") {
  scale_groups(devices_or_skip(Place::gpu));
}

TEST_CASE("a kernel takes scales of its groups and no others") {
  backends::Kernel rows, groups;
  groups.group_cols = 64;
  const datasets::Shape shape{4, 512};
  const datasets::Scales ours = scales_for(groups, shape, 2);
  datasets::Scales none, one_a_row = ours, other_type = ours, odd = ours, few = ours;
  one_a_row.groups = 1;
  other_type.type = datasets::ScaleType::e4m3;
  odd.group_cols = 192;
  few.group_cols = 32;
  CHECK(backends::takes_scales(groups, ours));
  CHECK_FALSE(backends::takes_scales(rows, ours));
  CHECK(backends::takes_scales(rows, none));
  CHECK_FALSE(backends::takes_scales(groups, none));
  CHECK(backends::takes_scales(rows, one_a_row));
  CHECK(backends::takes_scales(groups, one_a_row));
  for (datasets::Scales* other : {&other_type, &odd, &few}) CHECK_FALSE(backends::takes_scales(groups, *other));
}
