// packed_outliers: fixed-length fields of b bits around a window of values, and a sparse list of the elements outside.
// Any entropy coder has to beat it, since unpacking costs two or three operations for a whole vector. The idea is that
// of PFOR (Zukowski, Heman, Nes, Boncz: Super-Scalar RAM-CPU Cache Compression, ICDE 2006), with additive patches
// instead of exception values.
#include "codecs/codec.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "codecs/modelling/histogram.h"
#include "codecs/packed_outliers/packed.h"

namespace ecmv::codecs::packed_outliers {
namespace {

constexpr int kForms = std::size(kRecordForms);

struct Window {
  int bits = 8;
  int lowest = -128;
  uint64_t outliers = 0;  // elements outside
  int highest() const { return lowest + (1 << bits) - 1; }
  // The part of `value` that clamping takes away.
  int excess(int value) const { return value < lowest ? value - lowest : value > highest() ? value - highest() : 0; }
};

// The window of `bits` with the fewest elements outside; among equals the one whose middle is nearest to zero.
Window best_window(const modelling::Histogram& histogram, int bits) {
  const int width = 1 << bits;
  std::array<uint64_t, 257> below{};
  for (int i = 0; i < 256; ++i) below[i + 1] = below[i] + histogram[i];
  Window best{bits, -128, UINT64_MAX};
  for (int low = 0; low + width <= 256; ++low) {
    const Window window{bits, low - 128, below[256] - (below[low + width] - below[low])};
    const auto from_zero = [](const Window& w) { return std::abs(w.lowest + w.highest()); };
    if (window.outliers < best.outliers || (window.outliers == best.outliers && from_zero(window) < from_zero(best)))
      best = window;
  }
  return best;
}

// Records of `form` for one outlier that lies `distance` elements after the record before and exceeds the window by
// `excess`.
int64_t filler_records(RecordForm form, int64_t distance) {
  return distance == 0 ? 0 : (distance - 1) / form.max_distance();
}
int64_t delta_records(RecordForm form, int excess) {
  return excess > 0 ? (excess + form.max_up() - 1) / form.max_up() : (-excess + form.max_down() - 1) / form.max_down();
}

// Calls f(block, distance, excess) for every outlier in order of the elements.
template <class F>
void for_each_outlier(datasets::MatrixView matrix, const Window& window, F f) {
  const std::span<const int8_t> elements = matrix.i8();
  const int64_t block_elements = kRowsPerBlock * matrix.shape.cols;
  const uint8_t lowest = static_cast<uint8_t>(window.lowest);
  const uint8_t largest_field = static_cast<uint8_t>((1 << window.bits) - 1);
  for (int64_t block = 0; block < block_count(matrix.shape.rows); ++block) {
    const int64_t begin = block * block_elements, end = std::min(begin + block_elements, matrix.shape.elements());
    int64_t last = begin;
    for (int64_t i = begin; i < end; ++i) {
      if (static_cast<uint8_t>(static_cast<uint8_t>(elements[i]) - lowest) <= largest_field) continue;
      f(block, i - last, window.excess(elements[i]));
      last = i;
    }
  }
}

int64_t fixed_bytes(datasets::Shape shape, int bits) {
  return kHeaderBytes + shape.rows * row_bytes(bits, shape.cols) + kFieldPadding + 8 * (block_count(shape.rows) + 1);
}

struct Plan {
  Window window;
  RecordForm form = kRecordForms[0];
  int64_t records = 0;
  int64_t bytes = INT64_MAX;
};

// The cheapest form of the records for this window, found exactly by a walk over the matrix.
Plan plan_for(datasets::MatrixView matrix, const Window& window) {
  std::array<int64_t, kForms> records{};
  if (window.outliers > 0)
    for_each_outlier(matrix, window, [&](int64_t, int64_t distance, int excess) {
      for (int f = 0; f < kForms; ++f)
        records[f] += filler_records(kRecordForms[f], distance) + delta_records(kRecordForms[f], excess);
    });
  Plan best;
  for (int f = 0; f < kForms; ++f) {
    const int64_t bytes = fixed_bytes(matrix.shape, window.bits) + kRecordForms[f].bytes(records[f]);
    if (bytes < best.bytes) best = {window, kRecordForms[f], records[f], bytes};
  }
  return best;
}

Plan choose_plan(datasets::MatrixView matrix, int64_t bits) {
  const modelling::Histogram histogram = modelling::histogram(matrix.i8());
  if (bits != 0) return plan_for(matrix, best_window(histogram, static_cast<int>(bits)));
  // Tries bits in the order of a lower bound of their size (12 bits an outlier), so most widths need no walk over the
  // matrix.
  std::array<std::pair<int64_t, Window>, 8> candidates;
  for (int b = 1; b <= 8; ++b) {
    const Window window = best_window(histogram, b);
    candidates[b - 1] = {fixed_bytes(matrix.shape, b) + static_cast<int64_t>(window.outliers + window.outliers / 2),
                         window};
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Plan best;
  for (const auto& [least_bytes, window] : candidates) {
    if (least_bytes >= best.bytes) break;
    const Plan plan = plan_for(matrix, window);
    if (plan.bytes < best.bytes) best = plan;
  }
  return best;
}

Section pack_fields(datasets::MatrixView matrix, const Window& window) {
  const int64_t cols = matrix.shape.cols, stride = row_bytes(window.bits, cols);
  // The strips of a tail have fields for columns that do not exist.
  const int64_t unused_fields = matrix.shape.rows * (kStrips * tail_strip(cols) - tail_cols(cols));
  Section section{"fields", Role::payload, 64, {}, kFieldPadding + unused_fields * window.bits / 8};
  std::vector<std::byte>& packed = section.bytes;
  packed.resize(matrix.shape.rows * stride + kFieldPadding);
  uint8_t* out = reinterpret_cast<uint8_t*>(packed.data());
  const int8_t* in = matrix.i8().data();
  std::array<uint8_t, kGroupCols> fields;
  for (int64_t row = 0; row < matrix.shape.rows; ++row)
    for (int64_t col = 0; col < cols; col += kGroupCols) {
      const int64_t here = std::min(cols - col, kGroupCols), width = here == kGroupCols ? kStripCols : tail_strip(cols);
      fields.fill(0);
      for (int64_t i = 0; i < here; ++i) {
        const int w = in[row * cols + col + i];
        fields[i] = static_cast<uint8_t>(std::clamp(w, window.lowest, window.highest()) - window.lowest);
      }
      pack_group(window.bits, fields.data(), width, out);
      out += window.bits * width;
    }
  return section;
}

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::i8 ? "" : "packed_outliers stores int8 elements only.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Plan plan = choose_plan(matrix, settings.integer("bits"));
  const Window& window = plan.window;
  const RecordForm form = plan.form;

  std::vector<std::byte> header = {std::byte(window.bits), std::byte(static_cast<uint8_t>(window.lowest)),
                                   std::byte(form.distance_bytes), std::byte(form.delta_bits)};
  std::vector<uint64_t> firsts(block_count(matrix.shape.rows) + 1, 0);
  std::vector<std::byte> distances(plan.records * form.distance_bytes),
      deltas((plan.records * form.delta_bits + 7) / 8);
  uint64_t count = 0;
  const auto add_record = [&](int64_t distance, int delta) {
    std::memcpy(distances.data() + count * form.distance_bytes, &distance, form.distance_bytes);
    if (form.delta_bits == 8)
      deltas[count] = std::byte(static_cast<uint8_t>(delta));
    else
      deltas[count / 2] |= std::byte((delta & 15) << (count % 2 * 4));
    ++count;
  };
  if (plan.records > 0)
    for_each_outlier(matrix, window, [&](int64_t block, int64_t distance, int excess) {
      const uint64_t before = count;
      for (int64_t fillers = filler_records(form, distance); fillers > 0; --fillers, distance -= form.max_distance())
        add_record(form.max_distance(), 0);
      for (; excess != 0; distance = 0) {
        const int delta = std::clamp(excess, -form.max_down(), form.max_up());
        add_record(distance, delta);
        excess -= delta;
      }
      firsts[block + 1] += count - before;
    });
  for (size_t block = 1; block < firsts.size(); ++block) firsts[block] += firsts[block - 1];
  std::vector<std::byte> blocks(firsts.size() * 8);
  std::memcpy(blocks.data(), firsts.data(), blocks.size());

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"header", Role::table, 4, std::move(header)});
  compressed.sections.push_back(pack_fields(matrix, window));
  compressed.sections.push_back({"blocks", Role::index, 8, std::move(blocks)});
  compressed.sections.push_back({"distances", Role::index, 64, std::move(distances)});
  compressed.sections.push_back({"deltas", Role::payload, 64, std::move(deltas)});
  return compressed;
}

void require(bool condition, const char* sentence) {
  if (!condition) throw MalformedStream(sentence);
}

// Checks everything that could mislead a reader, except the records' positions, which decode() follows one by one.
Packed open_checked(const CompressedView& view) {
  require(view.sections.size() == kSections, "A packed_outliers stream has five sections.");
  const auto bytes = [&](int section) { return static_cast<int64_t>(view.sections[section].bytes.size()); };
  require(bytes(kHeader) == kHeaderBytes, "The header of a packed_outliers stream has 4 bytes.");
  const Packed packed = open_packed(view);
  require(packed.bits >= 1 && packed.bits <= 8, "The width of a packed_outliers field must be 1 to 8 bits.");
  require(packed.lowest + (1 << packed.bits) <= 128, "The window of a packed_outliers stream ends beyond 127.");
  require(std::any_of(std::begin(kRecordForms), std::end(kRecordForms),
                      [&](RecordForm form) {
                        return form.distance_bytes == packed.form.distance_bytes &&
                               form.delta_bits == packed.form.delta_bits;
                      }),
          "The outlier records of a packed_outliers stream have an unknown form.");
  require(bytes(kFields) == packed.rows * packed.row_bytes + kFieldPadding,
          "The fields of a packed_outliers stream do not have the size that the shape asks for.");
  const int64_t blocks = block_count(packed.rows);
  require(bytes(kBlocks) == 8 * (blocks + 1), "The block index of a packed_outliers stream has a wrong size.");
  const int64_t records = bytes(kDistances) / packed.form.distance_bytes;
  require(bytes(kDistances) % packed.form.distance_bytes == 0 &&
              bytes(kDeltas) == (records * packed.form.delta_bits + 7) / 8,
          "The outlier records of a packed_outliers stream have no whole number.");
  require(first_record(packed, 0) == 0 && first_record(packed, blocks) == static_cast<uint64_t>(records),
          "The block index of a packed_outliers stream does not cover its records.");
  for (int64_t block = 0; block < blocks; ++block)
    require(first_record(packed, block) <= first_record(packed, block + 1),
            "The block index of a packed_outliers stream falls.");
  return packed;
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  const Packed packed = open_checked(view);
  int8_t* elements = reinterpret_cast<int8_t*>(out.data());

  const uint8_t* group = packed.fields;
  std::array<uint8_t, kGroupCols> fields;
  for (int64_t row = 0; row < packed.rows; ++row)
    for (int64_t col = 0; col < packed.cols; col += kGroupCols) {
      const int64_t here = std::min(packed.cols - col, kGroupCols);
      const int64_t width = here == kGroupCols ? kStripCols : tail_strip(packed.cols);
      unpack_group(packed.bits, group, width, fields.data());
      group += packed.bits * width;
      for (int64_t i = 0; i < here; ++i)
        elements[row * packed.cols + col + i] = static_cast<int8_t>(fields[i] + packed.lowest);
    }

  for (int64_t block = 0; block < block_count(packed.rows); ++block) {
    const int64_t begin = block * kRowsPerBlock * packed.cols;
    const int64_t end = std::min(begin + kRowsPerBlock * packed.cols, packed.rows * packed.cols);
    int64_t element = begin;
    for (uint64_t i = first_record(packed, block); i < first_record(packed, block + 1); ++i) {
      element +=
          packed.form.distance_bytes == 1 ? distance_at<1>(packed.distances, i) : distance_at<2>(packed.distances, i);
      const int delta = packed.form.delta_bits == 8 ? delta_at<8>(packed.deltas, i) : delta_at<4>(packed.deltas, i);
      require(element < end, "An outlier record of a packed_outliers stream leaves its block of rows.");
      const int value = elements[element] + delta;
      require(value >= -128 && value <= 127, "An outlier record of a packed_outliers stream leaves the range of int8.");
      elements[element] = static_cast<int8_t>(value);
    }
  }
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const int64_t bits = settings.integer("bits");
  if (bits == 0 || bits == 8) return fixed_bytes(shape, 8);  // 8 bits have no outliers; `auto` takes no more bytes
  // The form with bytes for distance and delta is the largest: at most two records an outlier, and fillers 255 elements
  // apart.
  const int64_t records = 2 * shape.elements() + shape.elements() / 255;
  return fixed_bytes(shape, static_cast<int>(bits)) + kRecordForms[0].bytes(records);
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "b-bit fixed length with a sparse list of outliers, no entropy code",
      .source = "after PFOR: Zukowski et al., Super-Scalar RAM-CPU Cache Compression, ICDE 2006",
      .settings = {{.name = "bits",
                    .unit = "bit",
                    .help = "width of a field; 0: the width that stores the fewest bytes",
                    .default_value = int64_t{0},
                    .max = 8,
                    .open = "0"}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::packed_outliers
