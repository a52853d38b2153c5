// Golden streams: frozen bytes of every codec, codecs/ID/golden/v<format version>/. `NAME.safetensors` holds the
// sections of one encoded test matrix as U8 tensors "<index>.<section>"; `sizes.csv` holds stored bytes and a hash of
// the stream for more matrices and settings, so that a change of ratio is a line in a review.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <cstdio>

#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/safetensors.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

namespace ecmv::tests {

inline std::filesystem::path golden_folder(const codecs::CodecEntry& entry, uint32_t version) {
  return std::filesystem::path(ECMV_SOURCE_DIR) / "codecs" / entry.id / "golden" /
         std::string("v").append(std::to_string(version));
}

inline bool takes_f8_alone(const codecs::CodecEntry& entry) {
  const auto takes = [&](const datasets::Matrix& matrix) {
    return entry.codec->refuses(matrix.view(), codecs::default_settings(*entry.codec)).empty();
  };
  return takes(f8_matrix({32, 512})) && !takes(bf16_matrix({32, 512})) && !takes(gaussian_matrix({32, 512}, 4));
}

// The matrices with golden streams, for the codec's default settings: of int8, of bf16, or both, else of f8, else of
// three values; of all three types if the codec does more than take elements of any type.
inline std::vector<datasets::Matrix> golden_matrices(const codecs::CodecEntry& entry) {
  const auto takes = [&](const datasets::Matrix& matrix) {
    return entry.codec->refuses(matrix.view(), codecs::default_settings(*entry.codec)).empty();
  };
  std::vector<datasets::Matrix> matrices = {gaussian_matrix({33, 331}, 4), gaussian_matrix({32, 512}, 4),
                                            distributions({32, 512})[8]};
  if (takes_f8_alone(entry)) return {f8_matrix({33, 331}), f8_matrix({32, 512})};
  if (!takes(matrices[1]) && takes(bf16_matrix({32, 512}))) return {bf16_matrix({33, 331}), bf16_matrix({32, 512})};
  if (!takes(matrices[1])) return {ternary_matrix({33, 331}), ternary_matrix({32, 512})};
  if (takes(bf16_matrix({33, 331}))) matrices.push_back(bf16_matrix({33, 331}));
  const datasets::Matrix f32 =
      make_typed_matrix("f32", datasets::ElementType::f32, {32, 512}, [](int64_t) -> uint64_t { return 0x3F800000; });
  if (takes(f8_matrix({33, 331})) && !takes(f32)) matrices.push_back(f8_matrix({33, 331}));
  return matrices;
}

inline std::string golden_name(const datasets::Matrix& matrix) {
  return matrix.name + "_" + std::to_string(matrix.shape.rows) + "x" + std::to_string(matrix.shape.cols);
}

inline std::vector<std::byte> to_golden(const backends::CompressedMatrix& compressed) {
  std::vector<datasets::TensorView> tensors;
  for (size_t i = 0; i < compressed.sections.size(); ++i) {
    const backends::Section& section = compressed.sections[i];
    tensors.push_back({std::to_string(i) + "." + std::string(section.name),
                       "U8",
                       {static_cast<int64_t>(section.bytes.size())},
                       section.bytes});
  }
  return datasets::write_safetensors(tensors, {{"settings", compressed.settings.to_string()}});
}

// The stream of a golden file as a view of `bytes`, for a matrix of that shape and type; settings must be the codec's
// defaults.
inline backends::CompressedView from_golden(const datasets::Safetensors& file, const datasets::MatrixView& matrix,
                                            const backends::Settings& settings) {
  backends::CompressedView view{matrix.shape, matrix.type, &settings,
                                std::vector<backends::SectionView>(file.tensors.size())};
  // Empty tensors may stand elsewhere in the file: the index in the name gives the order.
  for (const datasets::TensorView& tensor : file.tensors)
    view.sections.at(std::stoul(tensor.name)) = {"golden", backends::Role::payload, tensor.bytes, tensor.bytes};
  return view;
}

// All lines of sizes.csv as the codec writes them now.
inline std::vector<std::string> size_lines(const codecs::CodecEntry& entry) {
  std::vector<std::string> lines = {"matrix,settings,stored_bytes,stream_hash"};
  const auto add = [&](const datasets::Matrix& matrix, const backends::Settings& settings) {
    if (!entry.codec->refuses(matrix.view(), settings).empty()) return;
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    uint64_t hash = 0;
    for (const backends::Section& section : compressed.sections) {
      const datasets::Shape shape{1, static_cast<int64_t>(section.bytes.size())};
      hash = hash * 0x100000001B3u ^ datasets::content_hash({shape, datasets::ElementType::u8, section.bytes});
    }
    char text[32];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    lines.push_back(golden_name(matrix) + ",\"" + settings.to_string() + "\"," +
                    std::to_string(compressed.stored_bytes()) + "," + text);
  };
  for (const datasets::Matrix& matrix : distributions({64, 512})) add(matrix, codecs::default_settings(*entry.codec));
  add(gaussian_matrix({37, 203}, 4), codecs::default_settings(*entry.codec));
  add(gaussian_matrix({512, 2048}, 4), codecs::default_settings(*entry.codec));
  if (takes_f8_alone(entry)) add(f8_matrix({64, 512}), codecs::default_settings(*entry.codec));
  for (const backends::Settings& settings : settings_to_test(*entry.codec)) {
    // The first that the codec accepts with these settings.
    for (const datasets::Matrix& matrix : {gaussian_matrix({64, 512}, 4, 2), bf16_matrix({64, 512}),
                                           ternary_matrix({64, 512}), ternary_matrix({64, 512}, true)})
      if (entry.codec->refuses(matrix.view(), settings).empty()) {
        add(matrix, settings);
        break;
      }
  }
  return lines;
}

}  // namespace ecmv::tests
