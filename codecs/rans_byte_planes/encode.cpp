// Encoder of rans_byte_planes. 1. choose forms from the histogram; 2. count symbols and make the models; 3. turn every
// block into symbols, raw bits and exceptions, front to back; 4. code the symbols back to front, because rANS is a stack.
#include "codecs/rans_byte_planes/encode.h"

#include <algorithm>
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
    for (const Form form : choice.forms) classes_.push_back(rank_values(histogram_, form));
    count_symbols(choice.forms);
  }

  void run(CompressedMatrix& out) {
    for (int64_t block = 0; block < layout_.blocks; ++block) encode_block(block);
    index_.push_back({stream_.size(), raw_.size(), 0});
    std::vector<uint16_t> entries = pack_exceptions();
    std::vector<std::byte> tables(sizeof(Header) + models_.size() * sizeof(Model));
    std::memcpy(tables.data(), &header_, sizeof header_);
    if (!models_.empty()) std::memcpy(tables.data() + sizeof header_, models_.data(), models_.size() * sizeof(Model));
    stream_.resize(stream_.size() + kStreamPadding, 0);
    // The models follow a header of 136 bytes; kernels load them unaligned, once a call.
    out.sections.push_back({"tables", Role::table, 64, std::move(tables)});
    out.sections.push_back({"index", Role::index, 64, bytes_of(index_)});
    out.sections.push_back({"states", Role::payload, 64, bytes_of(states_)});
    out.sections.push_back({"stream", Role::payload, 64, bytes_of(stream_), kStreamPadding});
    out.sections.push_back({"raw", Role::payload, 64, bytes_of(raw_)});
    out.sections.push_back({"exceptions", Role::payload, 64, bytes_of(entries)});
    out.sections.push_back({"elements", Role::payload, 64, {}});
  }

 private:
  // The symbol of the values at `base + 64 i`; -1 if one of them has no class. Elements behind the part count as coded
  // by class 0.
  int symbol_at(const Part& part, int64_t base, int64_t lane) const {
    const Form form = forms_[part.model];
    const Classes& classes = classes_[part.model];
    int symbol = 0;
    for (int i = 0; i < form.values; ++i) {
      const int64_t at = base + i * kGroup + lane;
      if (at >= part.elements) continue;
      const int number = classes.class_of[elements_[part.begin + at] + 128];
      if (number < 0) return -1;
      symbol |= number << (class_bits(form.values) * i);
    }
    return symbol;
  }

  void count_symbols(const std::vector<Form>& forms) {
    forms_ = forms;
    std::vector<std::array<uint64_t, 64>> counts(forms.size());
    for (auto& c : counts) c.fill(0);
    for (int64_t block = 0; block < layout_.blocks; ++block)
      for (const Part& part : parts_of(layout_, header_, block)) {
        if (part.elements == 0) continue;
        const int64_t step = int64_t{kGroup} * forms[part.model].values;
        for (int64_t base = 0; base < part.elements; base += step)
          for (int64_t lane = 0; lane < kGroup; ++lane)
            if (const int symbol = symbol_at(part, base, lane); symbol >= 0) ++counts[part.model][symbol];
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
      for (int i = 0; i < form.values; ++i) cost += (s >> (width * i) & ((1 << width) - 1)) == numbers[i] ? 0 : int64_t{20} << 16;
      if (best < 0 || cost < best_cost) best = s, best_cost = cost;
    }
    return best;
  }

  // One part: symbols in the order of decoding, raw bits, exceptions.
  void scan_part(const Part& part, int64_t block_begin, std::vector<uint8_t>& symbols, int64_t& last_exception) {
    const int m = part.model;
    const Form form = forms_[m];
    const Model& model = models_[m];
    const int width = class_bits(form.values);
    const int64_t per_round = round_elements(form.values);
    for (int64_t base = 0; base < part.elements; base += per_round) {
      const size_t raw_base = raw_.size();
      raw_.resize(raw_base + round_raw_bytes(form), 0);
      std::vector<std::pair<int64_t, int>> found;  // position in the part, delta
      for (int step = 0; step < kSteps; ++step)
        for (int lane = 0; lane < kGroup; ++lane) {
          int numbers[3] = {}, raws[3] = {}, values[3] = {};
          int64_t at[3] = {};
          int symbol = 0;
          bool known = true;
          for (int i = 0; i < form.values; ++i) {
            at[i] = base + (step * form.values + i) * kGroup + lane;
            if (at[i] < part.elements) {
              values[i] = elements_[part.begin + at[i]];
              numbers[i] = classes_[m].class_of[values[i] + 128];
              raws[i] = numbers[i] < 0 ? 0 : classes_[m].raw_of[values[i] + 128];
            }
            known = known && numbers[i] >= 0;
            symbol |= (numbers[i] < 0 ? 0 : numbers[i]) << (width * i);
          }
          if (!known || model.frequency[symbol] == 0) symbol = cover(m, numbers);
          symbols.push_back(static_cast<uint8_t>(symbol));
          for (int i = 0; i < form.values; ++i) {
            const int mask = raw_mask(form.values, form.raw_bits, i), places = deposit(raws[i], mask);
            const Placement placement = place(form.values, form.raw_bits, step, i);
            for (int n = 0; n < placement.count; ++n) {
              const Piece piece = placement.pieces[n];
              const int bits = places & piece.mask;
              raw_[raw_base + piece.vector * kGroup + lane] |= static_cast<uint8_t>(piece.shift >= 0 ? bits << piece.shift : bits >> -piece.shift);
            }
            if (at[i] >= part.elements) continue;
            const int coded = model.value[i][(symbol & class_mask(form.values, i)) | places];
            if (coded != values[i]) found.push_back({at[i], values[i] - coded});
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

  // Chooses the deltas that get a number and splits gaps and deltas into entries; index entries change from exceptions to
  // entries.
  std::vector<uint16_t> pack_exceptions() {
    std::map<int, int64_t> counts;
    for (const Exception& e : exceptions_) ++counts[e.delta];
    std::vector<std::pair<int64_t, int>> order;  // most frequent first
    for (const auto& [delta, count] : counts) order.push_back({-count, delta});
    std::sort(order.begin(), order.end());
    // If there are more deltas than numbers, the rare ones are sums of a few powers of four.
    std::vector<int> numbered;
    const bool sums = order.size() > kDeltas - 1;
    if (sums) numbered = {128, -128, 64, -64, 16, -16, 4, -4, 1, -1};
    for (const auto& [count, delta] : order)
      if (numbered.size() < kDeltas - 1 && std::find(numbered.begin(), numbered.end(), delta) == numbered.end()) numbered.push_back(delta);
    std::map<int, int> number_of;
    for (size_t i = 0; i < numbered.size(); ++i) header_.delta[i] = static_cast<int16_t>(numbered[i]), number_of[numbered[i]] = static_cast<int>(i);

    std::vector<uint16_t> entries;
    size_t block = 0;
    const auto enter = [&](int64_t gap, int number) { entries.push_back(static_cast<uint16_t>(gap | number << kGapBits)); };
    for (size_t n = 0; n <= exceptions_.size(); ++n) {
      while (block < index_.size() && (block + 1 == index_.size() ? n == exceptions_.size() : index_[block].exceptions == n)) index_[block++].exceptions = entries.size();
      if (n == exceptions_.size()) break;
      int64_t gap = exceptions_[n].gap;
      for (; gap > kMaxGap; gap -= kMaxGap) enter(kMaxGap, kDeltas - 1);
      int delta = exceptions_[n].delta;
      while (delta != 0) {
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
    return entries;
  }

  std::span<const int8_t> elements_;
  Layout layout_;
  modelling::Histogram histogram_;
  Header header_{};
  std::vector<Form> forms_;
  std::vector<Classes> classes_;
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
                      .block_elements = settings.integer("block_elements")};
  const Choice choice = choose_forms(modelling::histogram(matrix.i8()), wishes);
  if (choice.forms.empty()) return store_raw(matrix, settings);
  CompressedMatrix out = make_compressed(matrix, settings);
  Encoder(matrix, settings, choice).run(out);
  // Small or unruly matrices can come out larger than they are.
  CompressedMatrix raw = store_raw(matrix, settings);
  return raw.stored_bytes() < out.stored_bytes() ? raw : out;
}

}  // namespace ecmv::codecs::rans_byte_planes
