// GPU kernels of packed_outliers. A thread block has one block of 16 rows: its first waves multiply (or store) fields, kRows
// rows each; one wave more adds up x and follows the outlier records meanwhile. Where records are many, all waves share them
// behind the fields. A lane takes one 16-byte piece of every plane of a group, 128 columns: kBits loads a row, all of them
// issued before the first is used, as in backends/gpu/dense_matvec.h, and every piece of x serves kRows rows. Rows that do
// not begin at multiples of 16 bytes are read by 4 bytes. "Wave" means 32 lanes here, on waves of 64 as well.
#include <type_traits>

#include "backends/gpu/lanes.h"
#include "backends/gpu/requantise.h"
#include "codecs/packed_outliers/format.h"
#include "codecs/packed_outliers/records_gpu.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kBlockRows = static_cast<int>(kRowsPerBlock);
// Up to so many, the last wave follows them alone: behind the fields they would cost two memory latencies.
constexpr int kFewRecords = 2 * kRecordsOfStep;

struct Matrix {
  gpu::Pointer<const uint8_t> header, fields;
  RecordSections records;
  int64_t rows;
  int cols, row_bytes;
  int tail_width;  // of a strip of the group that is not full
};

// Of a product's block whose waves have kRows rows each.
template <int kRows>
constexpr int kTeams = kBlockRows / kRows + 1;
template <int kRows>
constexpr int kThreads = kTeams<kRows> * kLanes;

// What one load brings: uint4 or uint32_t.
template <typename Chunk>
constexpr int kWords = static_cast<int>(sizeof(Chunk) / 4);

ECMV_GPU_DEVICE uint32_t word(gpu::uint4 chunk, int i) { return i == 0 ? chunk.x : i == 1 ? chunk.y : i == 2 ? chunk.z : chunk.w; }
ECMV_GPU_DEVICE uint32_t word(uint32_t chunk, int) { return chunk; }

// Four fields of strip `strip` from the words of all planes at the same four columns; its arguments are constants once
// the loops around are unrolled, and a plane costs a shift and an and-or.
template <int kBits, typename Chunk>
ECMV_GPU_DEVICE uint32_t fields_of(const Chunk (&planes)[kBits], int strip, int i) {
  uint32_t fields = 0;
  int offset = 0;
  ECMV_GPU_UNROLL
  for (int plane = 8; plane > 0; plane /= 2) {
    if (!(kBits & plane)) continue;
    const uint32_t stored = word(planes[offset + strip % plane], i);
    const int right = strip / plane * plane - offset;
    const uint32_t mask = 0x01010101u * (((1u << plane) - 1) << offset);
    fields |= (right >= 0 ? stored >> (right & 31) : stored << (-right & 31)) & mask;
    offset += plane;
  }
  return fields;
}

template <int kBits>
ECMV_GPU_DEVICE int32_t dot_fields(uint32_t fields, uint32_t x, int32_t sum) {
  if constexpr (kBits == 8) return gpu::dot4_unsigned_signed(fields, static_cast<int32_t>(x), sum);
  return gpu::dot4(static_cast<int32_t>(fields), static_cast<int32_t>(x), sum);  // at most 127: one instruction everywhere
}

// The width of a strip where it is known, so that the planes' chunks are constant distances apart.
struct FullStrip {
  ECMV_GPU_DEVICE constexpr operator int() const { return static_cast<int>(kStripCols); }
};

// One chunk of every plane at `at`, whose strips are `width` bytes.
template <int kBits, typename Chunk, typename Width>
ECMV_GPU_DEVICE void load_planes(gpu::Pointer<const uint8_t> at, Width width, Chunk (&planes)[kBits]) {
  ECMV_GPU_UNROLL
  for (int p = 0; p < kBits; ++p) planes[p] = gpu::load_streaming(gpu::cast<const Chunk>(at + p * width));
}

// Calls step(offset of the first plane's chunk in the row, first column, width of a strip) for every chunk of this lane.
template <int kBits, typename Chunk, typename Step>
ECMV_GPU_DEVICE void for_each_chunk(const Matrix& matrix, Step step) {
  constexpr int kBytes = sizeof(Chunk), kChunks = static_cast<int>(kStripCols) / kBytes, kGroup = static_cast<int>(kGroupCols);
  const int groups = matrix.cols / kGroup, full = groups * kChunks;
  for (int chunk = Team::lane(); chunk < full; chunk += kLanes) {
    const int group = chunk / kChunks, first = chunk % kChunks * kBytes;
    step(group * (kBits * static_cast<int>(kStripCols)) + first, group * kGroup + first, FullStrip{});
  }
  for (int first = Team::lane() * kBytes; first < matrix.tail_width; first += kLanes * kBytes)
    step(groups * (kBits * static_cast<int>(kStripCols)) + first, groups * kGroup + first, matrix.tail_width);
}

// What the waves of a block tell each other, in shared memory.
struct Board {
  gpu::Pointer<int32_t> fields, outliers;  // sums of the 16 rows
  gpu::Pointer<int32_t> offset;            // lowest * sum(x)
  gpu::Pointer<int32_t> shared;            // whether all waves share the records
  gpu::Pointer<int32_t> distances;         // of a wave's records
  static constexpr int64_t bytes(int teams) { return 4 * (2 * kBlockRows + 2 + teams); }
};
ECMV_GPU_DEVICE Board board() {
  const gpu::Pointer<int32_t> words = gpu::cast<int32_t>(gpu::shared_memory());
  return {words, words + kBlockRows, words + 2 * kBlockRows, words + (2 * kBlockRows + 1), words + (2 * kBlockRows + 2)};
}

ECMV_GPU_DEVICE void add_outliers(const Records& records, const Share& share, int cols, gpu::Pointer<const int8_t> x, gpu::Pointer<int32_t> sums) {
  int sum_row = 0;
  int32_t sum = 0;
  visit_records(records, share.first, share.last, share.start, cols, [&](int64_t record, int row, int col) {
    if (row != sum_row) {
      if (sum != 0) gpu::atomic_add(sums + sum_row, sum);
      sum_row = row;
      sum = 0;
    }
    sum += records.delta(record) * gpu::load_shared_by_many(x + col);
  });
  if (sum != 0) gpu::atomic_add(sums + sum_row, sum);
}

// sum(x), whose last 16 bytes may reach into the zeros behind it.
ECMV_GPU_DEVICE int32_t sum_of(gpu::Pointer<const int8_t> x, int cols) {
  const gpu::Pointer<const gpu::uint4> chunks = gpu::cast<const gpu::uint4>(x);
  int32_t sum = 0;
  for (int chunk = Team::lane(); chunk < (cols + 15) / 16; chunk += kLanes) {
    const gpu::uint4 values = gpu::load_shared_by_many(chunks + chunk);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) sum = gpu::dot4(0x01010101, static_cast<int32_t>(word(values, i)), sum);
  }
  return Team::reduce_add(sum);
}

template <int kBits, typename Chunk, int kRows>
ECMV_GPU_DEVICE void multiply_fields(const Matrix& matrix, int64_t first_row, gpu::Pointer<const int8_t> x, gpu::Pointer<int32_t> sums) {
  gpu::Pointer<const uint8_t> rows[kRows];
  int32_t sum[kRows];
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first_row + r < matrix.rows ? first_row + r : matrix.rows - 1;
    rows[r] = matrix.fields + row * matrix.row_bytes;
    sum[r] = 0;
  }
  for_each_chunk<kBits, Chunk>(matrix, [&](int offset, int col, auto width) {
    Chunk planes[kRows][kBits];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) load_planes<kBits, Chunk>(rows[r] + offset, width, planes[r]);
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
      const Chunk inputs = gpu::load_shared_by_many(gpu::cast<const Chunk>(x + (col + strip * width)));
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ECMV_GPU_UNROLL
        for (int i = 0; i < kWords<Chunk>; ++i) sum[r] = dot_fields<kBits>(fields_of<kBits>(planes[r], strip, i), word(inputs, i), sum[r]);
      }
    }
  });
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int32_t total = Team::reduce_add(sum[r]);
    if (Team::lane() == 0) sums[r] = total;
  }
}

// `wanted` blocks on a multiprocessor, or as many as leave each lane the registers of its loads and 30 more.
template <int kBits, int kRows>
constexpr int resident_blocks(int wanted) {
  const int fit = 65536 / (kThreads<kRows> * (4 * kBits * kRows + 30));
  return fit < 1 ? 1 : fit < wanted ? fit : wanted;
}

// Four rows of 7 and 8 bits spill whatever the bound.
template <int kRows>
constexpr int kWidestFields = kRows == 4 ? 6 : 8;

template <int kBits, typename Chunk, int kRows, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads<kRows>, (resident_blocks<kBits, kRows>(kResident))) void matvec(Matrix matrix, gpu::Pointer<const int8_t> x,
                                                                                                gpu::Epilogue epilogue) {
  const Board sums = board();
  const int64_t block = gpu::block_index();
  const int team = Team::group();
  if (team < kTeams<kRows> - 1) {
    multiply_fields<kBits, Chunk, kRows>(matrix, block * kBlockRows + team * kRows, x, sums.fields + team * kRows);
  } else {
    const Records records = records_of(matrix.header, matrix.records, block);
    if (Team::lane() < kBlockRows) sums.outliers[Team::lane()] = 0;
    const int32_t sum = sum_of(x, matrix.cols);
    const bool many = records.last - records.first > kFewRecords;
    if (Team::lane() == 0) {
      *sums.offset = static_cast<int8_t>(matrix.header[1]) * sum;
      *sums.shared = many;
    }
    Team::sync();
    if (!many) add_outliers(records, {records.first, records.last, 0}, matrix.cols, x, sums.outliers);
  }
  gpu::sync_block();
  if (*sums.shared != 0) {
    const Records records = records_of(matrix.header, matrix.records, block);
    add_outliers(records, share_records(records, team, kTeams<kRows>, sums.distances), matrix.cols, x, sums.outliers);
    gpu::sync_block();
  }
  const int thread = gpu::thread_index();
  const int64_t row = block * kBlockRows + thread;
  if (thread < kBlockRows && row < matrix.rows) epilogue.store(row, sums.fields[thread] + sums.outliers[thread] + *sums.offset);
}

// Adds bytes, each modulo 256.
ECMV_GPU_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) {
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

ECMV_GPU_DEVICE void store_elements(gpu::Pointer<int8_t> row, int col, int, gpu::uint4 elements) {
  *gpu::cast<gpu::uint4>(row + col) = elements;
}
// Here a strip may reach beyond the row.
ECMV_GPU_DEVICE void store_elements(gpu::Pointer<int8_t> row, int col, int cols, uint32_t elements) {
  for (int i = 0; i < 4 && col + i < cols; ++i) row[col + i] = static_cast<int8_t>(elements >> (8 * i));
}

constexpr int kDecodeTeams = 8;

// Several records may meet at one element; the lane that has the first of them adds them all.
template <int kBits, typename Chunk>
ECMV_GPU_KERNEL void decode(Matrix matrix, gpu::Pointer<int8_t> decoded) {
  const int64_t first_row = gpu::block_index() * kBlockRows;
  const int rows = matrix.rows - first_row < kBlockRows ? static_cast<int>(matrix.rows - first_row) : kBlockRows;
  const gpu::Pointer<int8_t> out = decoded + first_row * matrix.cols;
  const uint32_t lowest = 0x01010101u * matrix.header[1];
  for (int r = Team::group(); r < rows; r += kDecodeTeams) {
    const gpu::Pointer<const uint8_t> fields = matrix.fields + (first_row + r) * matrix.row_bytes;
    const gpu::Pointer<int8_t> row = out + static_cast<int64_t>(r) * matrix.cols;
    for_each_chunk<kBits, Chunk>(matrix, [&](int offset, int col, auto width) {
      Chunk planes[kBits];
      load_planes<kBits, Chunk>(fields + offset, width, planes);
      ECMV_GPU_UNROLL
      for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
        uint32_t words[kWords<Chunk>];
        ECMV_GPU_UNROLL
        for (int i = 0; i < kWords<Chunk>; ++i) words[i] = add_bytes(fields_of<kBits>(planes, strip, i), lowest);
        if constexpr (kWords<Chunk> == 4)
          store_elements(row, col + strip * width, matrix.cols, gpu::uint4{words[0], words[1], words[2], words[3]});
        else
          store_elements(row, col + strip * width, matrix.cols, words[0]);
      }
    });
  }
  gpu::sync_block();
  const Records records = records_of(matrix.header, matrix.records, gpu::block_index());
  const Share share = share_records(records, Team::group(), kDecodeTeams, gpu::cast<int32_t>(gpu::shared_memory()));
  visit_records(records, share.first, share.last, share.start, matrix.cols, [&](int64_t record, int row, int col) {
    if (record != records.first && records.distance(record) == 0) return;
    int delta = records.delta(record);
    for (int64_t next = record + 1; next < records.last && records.distance(next) == 0; ++next) delta += records.delta(next);
    const gpu::Pointer<int8_t> element = out + (static_cast<int64_t>(row) * matrix.cols + col);
    *element = static_cast<int8_t>(*element + delta);
  });
}

// The header is in device memory; the width of a field follows from the size of the fields. Without columns any will do.
int bits_of(const codecs::CompressedView& view) {
  const int64_t bytes_of_one_bit = view.shape.rows * row_bytes(1, view.shape.cols);
  if (bytes_of_one_bit == 0) return 1;
  return static_cast<int>((static_cast<int64_t>(view.sections[kFields].bytes.size()) - kFieldPadding) / bytes_of_one_bit);
}

Matrix matrix_of(const codecs::CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  return {.header = bytes(kHeader),
          .fields = bytes(kFields),
          .records = {reinterpret_cast<const uint64_t*>(bytes(kBlocks)), bytes(kDistances), bytes(kDeltas)},
          .rows = view.shape.rows,
          .cols = static_cast<int>(view.shape.cols),
          .row_bytes = static_cast<int>(row_bytes(bits_of(view), view.shape.cols)),
          .tail_width = static_cast<int>(tail_strip(view.shape.cols))};
}

// Calls f(constant number of bits, chunk) with what this matrix has: 16 bytes where its tail has strips of 16 n.
template <typename F>
void with_layout(const codecs::CompressedView& view, F f) {
  const auto with_bits = [&](auto bits) {
    if (tail_cols(view.shape.cols) % (kStrips * 16) == 0)
      f(bits, gpu::uint4{});
    else
      f(bits, uint32_t{});
  };
  switch (bits_of(view)) {
    case 1: return with_bits(std::integral_constant<int, 1>{});
    case 2: return with_bits(std::integral_constant<int, 2>{});
    case 3: return with_bits(std::integral_constant<int, 3>{});
    case 4: return with_bits(std::integral_constant<int, 4>{});
    case 5: return with_bits(std::integral_constant<int, 5>{});
    case 6: return with_bits(std::integral_constant<int, 6>{});
    case 7: return with_bits(std::integral_constant<int, 7>{});
    case 8: return with_bits(std::integral_constant<int, 8>{});
  }
}

template <int kRows, int kResident>
void launch_rows(const backends::KernelCall& call) {
  const Matrix matrix = matrix_of(*call.matrix);
  with_layout(*call.matrix, [&](auto bits, auto chunk) {
    if constexpr (decltype(bits)::value <= kWidestFields<kRows>)
      gpu::launch(matvec<decltype(bits)::value, decltype(chunk), kRows, kResident>,
                  {block_count(matrix.rows), kThreads<kRows>, Board::bytes(kTeams<kRows>)}, call.stream, matrix, call.x, gpu::epilogue_of(call));
  });
}

void launch_matvec(const backends::KernelCall& call) {
  switch (call.tuning) {
    case 0: return launch_rows<2, 3>(call);
    case 1: return launch_rows<2, 2>(call);
    case 2: return launch_rows<4, 3>(call);
  }
}

void launch_decode(const backends::KernelCall& call) {
  const Matrix matrix = matrix_of(*call.matrix);
  with_layout(*call.matrix, [&](auto bits, auto chunk) {
    gpu::launch(decode<decltype(bits)::value, decltype(chunk)>, {block_count(matrix.rows), kDecodeTeams * kLanes, kDecodeTeams * 4}, call.stream, matrix,
                call.decoded);
  });
}

// Rows a wave, blocks of 16 rows that shall fit on a multiprocessor.
constexpr backends::Tuning kTunings[] = {{"rows2_blocks3"}, {"rows2_blocks2"}, {"rows4_blocks3"}};
constexpr int kFourRows = 2;  // among them

std::string refuses_decode(const codecs::CompressedView& matrix, const backends::DeviceInfo&, int) {
  return matrix.shape.cols < (int64_t{1} << 26) ? "" : "The kernel counts the elements of 16 rows in 32 bits: at most 2^26 columns.";
}
std::string refuses_matvec(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (tuning == kFourRows && bits_of(matrix) > kWidestFields<4>) return "Four rows a wave are for fields of up to 6 bits: wider ones do not fit the registers.";
  return refuses_decode(matrix, device, tuning);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "planes", .tunings = backends::kDefaultTuning, .refuses = refuses_decode, .launch = launch_decode},
    {.op = backends::Op::matvec, .variant = "planes", .tunings = kTunings, .refuses = refuses_matvec, .launch = launch_matvec},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
