// Encoder of rans_byte_planes. 1. choose forms from the histogram; 2. count symbols and make the models; 3. turn every
// block into symbols, raw bits and exceptions, front to back; 4. code the symbols back to front, because rANS is a stack.
#include "codecs/rans_byte_planes/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>

#include "codecs/codec.h"
#include "codecs/rans_byte_planes/model.h"

namespace ecmv::codecs::rans_byte_planes {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Rows of one block under one model.
struct Part {
  int model = 0;
  int64_t begin = 0, elements = 0;  // within the matrix
};

std::vector<Part> parts_of(const Layout& layout, const Header& header, int64_t block) {
  const int64_t rows = layout.block_rows(block), first = header.models == 1 ? rows : rows * header.first_share / 256;
  const int64_t begin = block * layout.rows_per_block * layout.cols;
  return {{0, begin, first * layout.cols}, {1, begin + first * layout.cols, (rows - first) * layout.cols}};
}

struct Exception {
  int64_t gap = 0;  // elements since the exception before, within the block
  int delta = 0;
};

class Encoder {
 public:
  Encoder(datasets::MatrixView matrix, const Settings& settings, const Choice& choice)
      : elements_(matrix.i8()), layout_(layout_of(matrix.shape, settings)), histogram_(modelling::histogram(elements_)) {
    header_.models = static_cast<uint8_t>(choice.forms.size());
    header_.first_share = static_cast<uint16_t>(choice.first_share);
    for (const Form form : choice.forms) {
      classes_.push_back(rank_values(histogram_, form));
      codes_.push_back(codes_of(form, classes_.back()));
    }
    count_symbols(choice.forms);
  }

  void run(CompressedMatrix& out) {
    for (int64_t block = 0; block < layout_.blocks; ++block) encode_block(block);
    index_.push_back({stream_.size(), raw_.size(), exceptions_.size()});
    std::vector<std::byte> exceptions = pack_exceptions();
    std::vector<std::byte> tables(sizeof(Header) + models_.size() * sizeof(Model));
    std::memcpy(tables.data(), &header_, sizeof header_);
    if (!models_.empty()) std::memcpy(tables.data() + sizeof header_, models_.data(), models_.size() * sizeof(Model));
    stream_.resize(stream_.size() + kStreamPadding, 0);
    // Kernels copy the tables into registers once a part.
    out.sections.push_back({"tables", Role::table, 64, std::move(tables)});
    out.sections.push_back({"index", Role::index, 64, bytes_of(index_)});
    out.sections.push_back({"states", Role::payload, 64, bytes_of(states_)});
    out.sections.push_back({"stream", Role::payload, 64, bytes_of(stream_), kStreamPadding});
    out.sections.push_back({"raw", Role::payload, 64, bytes_of(raw_)});
    out.sections.push_back({"exceptions", Role::payload, 64, std::move(exceptions), kExceptionPadding});
    out.sections.push_back({"elements", Role::payload, 64, {}});
  }

 private:
  // How one model codes an element value at a position of the symbol; index value + 128.
  struct ValueCode {
    std::array<int16_t, 256> class_bits;   // in place; -1: no class
    std::array<uint8_t, 256> raw_places;   // as place() puts them
  };
  static std::array<ValueCode, 3> codes_of(Form form, const Classes& classes) {
    std::array<ValueCode, 3> codes{};
    for (int i = 0; i < form.values; ++i)
      for (int v = 0; v < 256; ++v) {
        const int number = classes.class_of[v];
        codes[i].class_bits[v] = static_cast<int16_t>(number < 0 ? -1 : number << (class_bits(form.values) * i));
        codes[i].raw_places[v] = static_cast<uint8_t>(number < 0 ? 0 : deposit(classes.raw_of[v], raw_mask(form.values, form.raw_bits, i)));
      }
    return codes;
  }

  // The symbols of one step; -1 where a value has no class. Elements behind the part count as class 0.
  void symbols_at(const Part& part, int64_t base, int16_t* symbols) const {
    std::fill_n(symbols, kGroup, int16_t{0});
    for (int i = 0; i < forms_[part.model].values; ++i) {
      const int64_t first = base + i * kGroup, count = std::min<int64_t>(kGroup, part.elements - first);
      const std::array<int16_t, 256>& bits = codes_[part.model][i].class_bits;
      for (int64_t lane = 0; lane < count; ++lane) symbols[lane] |= bits[elements_[part.begin + first + lane] + 128];
    }
  }

  void count_symbols(const std::vector<Form>& forms) {
    forms_ = forms;
    std::vector<std::array<uint64_t, 64>> counts(forms.size());
    for (auto& c : counts) c.fill(0);
    for (int64_t block = 0; block < layout_.blocks; ++block)
      for (const Part& part : parts_of(layout_, header_, block)) {
        if (part.elements == 0) continue;
        const int64_t step = int64_t{kGroup} * forms[part.model].values;
        int16_t symbols[kGroup];
        for (int64_t base = 0; base < part.elements; base += step) {
          symbols_at(part, base, symbols);
          for (int16_t symbol : symbols)
            if (symbol >= 0) ++counts[part.model][symbol];
        }
      }
    for (size_t m = 0; m < forms.size(); ++m) {
      models_.push_back(make_model(histogram_, forms[m], counts[m]));
      cost_.emplace_back();
      for (int s = 0; s < 64; ++s)
        cost_[m][s] = models_[m].frequency[s] == 0 ? std::numeric_limits<int64_t>::max() / 4 : log2_fixed(kSlots) - log2_fixed(models_[m].frequency[s]);
    }
  }

  // The symbol to code for these values: their own, or else the one that needs the fewest exceptions and then the fewest bits.
  int cover(int model, const int* numbers) const {
    const Form form = forms_[model];
    const int width = class_bits(form.values);
    int best = -1;
    int64_t best_cost = 0;
    for (int s = 0; s < 64; ++s) {
      if (models_[model].frequency[s] == 0) continue;
      int64_t cost = cost_[model][s];
      for (int i = 0; i < form.values; ++i) cost += (s >> (width * i) & ((1 << width) - 1)) == numbers[i] ? 0 : int64_t{16} << 16;
      if (best < 0 || cost < best_cost) best = s, best_cost = cost;
    }
    return best;
  }

  // One part: symbols in the order of decoding, raw bits, exceptions.
  void scan_part(const Part& part, int64_t block_begin, std::vector<uint8_t>& symbols, int64_t& last_exception) {
    const int m = part.model;
    const Form form = forms_[m];
    const Model& model = models_[m];
    Placement placements[kSteps][3];
    for (int step = 0; step < kSteps; ++step)
      for (int i = 0; i < form.values; ++i) placements[step][i] = place(form.values, form.raw_bits, step, i);
    std::vector<std::pair<int64_t, int>> found;  // position in the part, delta
    for (int64_t base = 0; base < part.elements; base += round_elements(form.values)) {
      const size_t raw_base = raw_.size();
      raw_.resize(raw_base + round_raw_bytes(form), 0);
      found.clear();
      for (int step = 0; step < kSteps; ++step) {
        const int64_t first = base + int64_t{step} * form.values * kGroup;
        int16_t own[kGroup];
        symbols_at(part, first, own);
        for (int i = 0; i < form.values; ++i) {
          const int64_t begin = first + i * kGroup, count = std::min<int64_t>(kGroup, part.elements - begin);
          for (int n = 0; n < placements[step][i].count; ++n) {
            const Piece piece = placements[step][i].pieces[n];
            uint8_t* to = raw_.data() + raw_base + piece.vector * kGroup;
            for (int64_t lane = 0; lane < count; ++lane) {
              const int bits = codes_[m][i].raw_places[elements_[part.begin + begin + lane] + 128] & piece.mask;
              to[lane] |= static_cast<uint8_t>(piece.shift >= 0 ? bits << piece.shift : bits >> -piece.shift);
            }
          }
        }
        for (int lane = 0; lane < kGroup; ++lane) {
          int symbol = own[lane];
          if (symbol < 0 || model.frequency[symbol] == 0) symbol = replace(part, first + lane, found);
          symbols.push_back(static_cast<uint8_t>(symbol));
        }
      }
      std::sort(found.begin(), found.end());
      for (const auto& [position, delta] : found) {
        const int64_t in_block = part.begin + position - block_begin;
        exceptions_.push_back({in_block - last_exception, delta});
        last_exception = in_block;
      }
    }
  }

  // The symbol that stands for values that have none; what it gets wrong becomes exceptions.
  int replace(const Part& part, int64_t at, std::vector<std::pair<int64_t, int>>& found) const {
    const int m = part.model;
    const Form form = forms_[m];
    int numbers[3] = {}, values[3] = {}, places[3] = {};
    for (int i = 0; i < form.values; ++i) {
      if (at + i * kGroup >= part.elements) continue;
      values[i] = elements_[part.begin + at + i * kGroup];
      numbers[i] = classes_[m].class_of[values[i] + 128];
      places[i] = codes_[m][i].raw_places[values[i] + 128];
    }
    const int symbol = cover(m, numbers);
    for (int i = 0; i < form.values; ++i) {
      const int coded = models_[m].value[i][(symbol & class_mask(form.values, i)) | places[i]];
      if (at + i * kGroup < part.elements && coded != values[i]) found.push_back({at + i * kGroup, values[i] - coded});
    }
    return symbol;
  }

  void encode_block(int64_t block) {
    index_.push_back({stream_.size(), raw_.size(), exceptions_.size()});
    const std::vector<Part> parts = parts_of(layout_, header_, block);
    std::vector<uint8_t> symbols[2];
    int64_t last_exception = 0;
    for (const Part& part : parts)
      if (part.elements > 0) scan_part(part, parts[0].begin, symbols[part.model], last_exception);
    std::vector<uint32_t> states(kFormatLanes, kSlots);
    std::vector<uint8_t> reversed;
    for (int m = static_cast<int>(models_.size()) - 1; m >= 0; --m)
      for (size_t n = symbols[m].size(); n-- > 0;) {
        const uint32_t symbol = symbols[m][n], f = models_[m].frequency[symbol], start = static_cast<uint8_t>(-models_[m].minus_start[symbol]);
        uint32_t& state = states[n % kFormatLanes];
        if (state >= f * 256) {
          reversed.push_back(static_cast<uint8_t>(state));
          state >>= 8;
        }
        state = (state / f) * kSlots + state % f + start;
      }
    stream_.insert(stream_.end(), reversed.rbegin(), reversed.rend());
    for (uint32_t state : states) states_.push_back(static_cast<uint8_t>(state >> 8));
    for (uint32_t state : states) states_.push_back(static_cast<uint8_t>(state));
  }

  // Exceptions as entries of a gap and a delta's number. If there are more deltas than numbers, the rare ones are sums of a
  // few; a gap that is too wide takes entries whose number, the last, adds nothing.
  struct Packing {
    int gap_bits = 0, delta_bits = 0;
    std::array<int16_t, kDeltas> deltas{};
    std::vector<uint32_t> entries;
    std::vector<uint64_t> first_entry;  // by exception, and the end
    uint64_t bits() const { return entries.size() * static_cast<uint64_t>(gap_bits + delta_bits); }
  };
  Packing pack_with(int gap_bits, int delta_bits, const std::vector<std::pair<int64_t, int>>& order) const {
    Packing out;
    out.gap_bits = gap_bits;
    out.delta_bits = delta_bits;
    const size_t numbers = (size_t{1} << delta_bits) - 1;
    std::vector<int> numbered;
    if (order.size() > numbers) numbered = {128, -128, 64, -64, 16, -16, 4, -4, 1, -1};
    for (const auto& [count, delta] : order)
      if (numbered.size() < numbers && std::find(numbered.begin(), numbered.end(), delta) == numbered.end()) numbered.push_back(delta);
    std::map<int, uint32_t> number_of;
    for (size_t i = 0; i < numbered.size(); ++i) out.deltas[i] = static_cast<int16_t>(numbered[i]), number_of[numbered[i]] = static_cast<uint32_t>(i);

    const int64_t max_gap = (int64_t{1} << gap_bits) - 1;
    const auto enter = [&](int64_t gap, size_t number) { out.entries.push_back(static_cast<uint32_t>(gap | number << gap_bits)); };
    for (const Exception& exception : exceptions_) {
      out.first_entry.push_back(out.entries.size());
      int64_t gap = exception.gap;
      for (; gap > max_gap; gap -= max_gap) enter(max_gap, numbers);
      for (int delta = exception.delta; delta != 0;) {
        auto it = number_of.find(delta);
        if (it == number_of.end()) {
          const int size = delta < 0 ? -delta : delta, power = size >= 128 ? 128 : size >= 64 ? 64 : size >= 16 ? 16 : size >= 4 ? 4 : 1;
          it = number_of.find(delta < 0 ? -power : power);
        }
        enter(gap, it->second);
        gap = 0;
        delta -= it->first;
      }
    }
    out.first_entry.push_back(out.entries.size());
    return out;
  }

  // The shortest packing; the index then counts entries instead of exceptions.
  std::vector<std::byte> pack_exceptions() {
    std::map<int, int64_t> counts;
    for (const Exception& e : exceptions_) ++counts[e.delta];
    std::vector<std::pair<int64_t, int>> order;  // most frequent first
    for (const auto& [delta, count] : counts) order.push_back({-count, delta});
    std::sort(order.begin(), order.end());
    // Enough numbers for the frequent deltas, or for all, and at least for the ten that every sum needs.
    const int all = std::clamp(static_cast<int>(std::bit_width(order.size())), kMinDeltaBits, kMaxDeltaBits);
    Packing best;
    for (int delta_bits = std::min(all, 4); delta_bits <= all; ++delta_bits)
      for (int gap_bits = kMinGapBits; gap_bits <= kMaxGapBits; ++gap_bits) {
        Packing packing = pack_with(gap_bits, delta_bits, order);
        if (best.gap_bits == 0 || packing.bits() < best.bits()) best = std::move(packing);
      }
    header_.gap_bits = static_cast<uint8_t>(best.gap_bits);
    header_.delta_bits = static_cast<uint8_t>(best.delta_bits);
    std::copy(best.deltas.begin(), best.deltas.end(), header_.delta);
    for (BlockIndex& entry : index_) entry.exceptions = best.first_entry[entry.exceptions];
    std::vector<std::byte> bytes((best.bits() + 7) / 8 + kExceptionPadding, std::byte{0});
    uint64_t bit = 0;
    for (uint32_t entry : best.entries)
      for (int i = 0; i < best.gap_bits + best.delta_bits; ++i, ++bit) bytes[bit / 8] |= static_cast<std::byte>((entry >> i & 1) << bit % 8);
    return bytes;
  }

  std::span<const int8_t> elements_;
  Layout layout_;
  modelling::Histogram histogram_;
  Header header_{};
  std::vector<Form> forms_;
  std::vector<Classes> classes_;
  std::vector<std::array<ValueCode, 3>> codes_;
  std::vector<Model> models_;
  std::vector<std::array<int64_t, 64>> cost_;
  std::vector<BlockIndex> index_;
  std::vector<uint8_t> states_, stream_, raw_;
  std::vector<Exception> exceptions_;
};

CompressedMatrix store_raw(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix out = make_compressed(matrix, settings);
  std::vector<std::byte> tables(sizeof(Header), std::byte{0});
  out.sections.push_back({"tables", Role::table, 64, std::move(tables)});
  for (const char* name : {"index", "states", "stream", "raw", "exceptions"})
    out.sections.push_back({name, std::string_view(name) == "index" ? Role::index : Role::payload, 64, {}});
  out.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return out;
}

}  // namespace

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const std::string& prob_bits = settings.text("prob_bits");
  const Wishes wishes{.values = static_cast<int>(settings.integer("values_per_symbol")),
                      .raw_bits = static_cast<int>(settings.integer("raw_bits")),
                      .prob_bits = prob_bits == "auto" ? 0 : prob_bits == "7" ? 7 : 8,
                      .excess_per_mille = settings.integer("excess"),
                      .block_elements = layout_of(matrix.shape, settings).rows_per_block * matrix.shape.cols};
  const modelling::Histogram histogram = modelling::histogram(matrix.i8());
  // 5. Forms are chosen by estimates; where the bytes come out above the limit, they are chosen once more under a lower one.
  const double limit = size_limit(histogram, wishes.excess_per_mille);
  const double elements = static_cast<double>(matrix.shape.elements());
  const CompressedMatrix raw = store_raw(matrix, settings);
  CompressedMatrix best = raw;
  double tightened = limit;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Choice choice = choose_forms(histogram, wishes, tightened);
    if (choice.forms.empty()) break;
    CompressedMatrix out = make_compressed(matrix, settings);
    Encoder(matrix, settings, choice).run(out);
    const double bits = 8.0 * static_cast<double>(out.stored_bytes()) / elements;
    // Small or unruly matrices can come out larger than they are.
    if (out.stored_bytes() < best.stored_bytes()) best = std::move(out);
    if (bits <= limit || choice.smallest) break;
    tightened = tightened * (limit / bits) * 0.9999;
  }
  return best;
}

}  // namespace ecmv::codecs::rans_byte_planes
