// The encoder of rans_byte_planes
//   1. chooses forms from the histogram,
//   2. counts symbols and makes the models,
//   3. turns every block into symbols, raw bits and exceptions, front to back,
//   4. packs the exceptions,
//   5. codes the symbols back to front, because rANS is a stack.
#include "codecs/rans_byte_planes/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "codecs/codec.h"
#include "codecs/rans_byte_planes/deltas.h"
#include "codecs/rans_byte_planes/model.h"
#include "codecs/rans_byte_planes/packing.h"

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

constexpr int64_t kCostOfByte = int64_t{8} << 16;  // costs are in 2^-16 of a bit

// The mapping of elements to symbols: forms and models of the parts, and substitutes for values without a symbol. It
// counts the symbols of the matrix twice, the second time with the substitutes.
class Coding {
 public:
  Coding(std::span<const int8_t> elements, const Layout& layout, const Header& header, const Choice& choice)
      : elements_(elements), layout_(layout), header_(header), histogram_(modelling::histogram(elements)) {
    for (const Form form : choice.forms) {
      classes_.push_back(rank_values(histogram_, form));
      codes_.push_back(codes_of(form, classes_.back()));
    }
    count_symbols(choice.forms);
  }

  const std::vector<Model>& models() const { return models_; }
  Form form(int model) const { return forms_[model]; }
  int64_t cost(int model, int symbol) const { return cost_[model][symbol]; }  // in 2^-16 of a bit
  // A value's raw bits, as place() puts them.
  int raw_places(int model, int position, int value) const { return codes_[model][position].raw_places[value + 128]; }

  // The symbols of one step; -1 where a value has no class. Elements past the part count as class 0.
  void symbols_at(const Part& part, int64_t base, int16_t* symbols) const {
    std::fill_n(symbols, kGroup, int16_t{0});
    for (int i = 0; i < forms_[part.model].values; ++i) {
      const int64_t first = base + i * kGroup, count = std::min<int64_t>(kGroup, part.elements - first);
      const std::array<int16_t, 256>& bits = codes_[part.model][i].class_bits;
      for (int64_t lane = 0; lane < count; ++lane) symbols[lane] |= bits[elements_[part.begin + first + lane] + 128];
    }
  }

  // The symbol for values that have none of their own. Exceptions repair what it gets wrong.
  int replace(const Part& part, int64_t at, std::vector<std::pair<int64_t, int>>& found) const {
    const Tuple tuple = tuple_at(part, at);
    const int symbol = cover(part.model, tuple, deltas_).first;
    for (int i = 0; i < forms_[part.model].values; ++i)
      if (const int delta = delta_of(part.model, tuple, symbol, i); delta != 0)
        found.push_back({at + i * kGroup, delta});
    return symbol;
  }

 private:
  // How one model codes an element value at a position of the symbol; the index is value + 128.
  struct ValueCode {
    std::array<int16_t, 256> class_bits;  // in place; -1: no class
    std::array<uint8_t, 256> raw_places;  // as place() puts them
  };
  static std::array<ValueCode, 3> codes_of(Form form, const Classes& classes) {
    std::array<ValueCode, 3> codes{};
    for (int i = 0; i < form.values; ++i)
      for (int v = 0; v < 256; ++v) {
        const int number = classes.class_of[v];
        codes[i].class_bits[v] = static_cast<int16_t>(number < 0 ? -1 : number << (class_bits(form.values) * i));
        codes[i].raw_places[v] =
            static_cast<uint8_t>(deposit(classes.raw_of[v], raw_mask(form.values, form.raw_bits, i)));
      }
    return codes;
  }

  // The elements that one symbol codes. At the end of a part not all of them exist.
  struct Tuple {
    int values[3] = {};
    bool exists[3] = {};
  };

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
      update_costs(static_cast<int>(m));
    }
    choose_deltas(counts);
    // Counts once more, now with the tuples that replace others as often as they will be coded.
    for (size_t m = 0; m < forms.size(); ++m) {
      std::array<uint64_t, 64> coded = counts[m];
      for (int s = 0; s < 64; ++s)
        if (counts[m][s] > 0 && models_[m].frequency[s] == 0) {
          coded[s] = 0;
          coded[cover(static_cast<int>(m), tuple_of(static_cast<int>(m), s), deltas_).first] += counts[m][s];
        }
      models_[m] = make_model(histogram_, forms[m], coded);
      update_costs(static_cast<int>(m));
    }
  }

  void update_costs(int m) {
    for (int s = 0; s < 64; ++s)
      cost_[m][s] = models_[m].frequency[s] == 0 ? std::numeric_limits<int64_t>::max() / 4
                                                 : log2_fixed(kSlots) - log2_fixed(models_[m].frequency[s]);
  }

  // The deltas that make it cheapest to replace the symbols without a slot.
  void choose_deltas(const std::vector<std::array<uint64_t, 64>>& counts) {
    double best = 0;
    for (const DeltaCost& candidate : DeltaCost::candidates()) {
      double cost = 0;
      for (size_t m = 0; m < counts.size(); ++m)
        for (int s = 0; s < 64; ++s)
          if (counts[m][s] > 0 && models_[m].frequency[s] == 0)
            cost += static_cast<double>(counts[m][s]) *
                    static_cast<double>(cover(static_cast<int>(m), tuple_of(static_cast<int>(m), s), candidate).second);
      if (&candidate == &DeltaCost::candidates().front() || cost < best) best = cost, deltas_ = candidate;
    }
  }

  // The values of a symbol, with all raw bits 0.
  Tuple tuple_of(int model, int symbol) const {
    Tuple tuple;
    for (int i = 0; i < forms_[model].values; ++i)
      tuple.values[i] = models_[model].value[i][symbol & class_mask(forms_[model].values, i)], tuple.exists[i] = true;
    return tuple;
  }
  Tuple tuple_at(const Part& part, int64_t at) const {
    Tuple tuple;
    for (int i = 0; i < forms_[part.model].values; ++i)
      if (at + i * kGroup < part.elements)
        tuple.values[i] = elements_[part.begin + at + i * kGroup], tuple.exists[i] = true;
    return tuple;
  }
  int delta_of(int model, const Tuple& tuple, int symbol, int i) const {
    const int index =
        (symbol & class_mask(forms_[model].values, i)) | codes_[model][i].raw_places[tuple.values[i] + 128];
    return tuple.exists[i] ? tuple.values[i] - models_[model].value[i][index] : 0;
  }

  // The cheapest symbol for a tuple that has none: its own bits and its exceptions' bits.
  std::pair<int, int64_t> cover(int model, const Tuple& tuple, const DeltaCost& deltas) const {
    int best = -1;
    int64_t best_cost = 0;
    for (int s = 0; s < 64; ++s) {
      if (models_[model].frequency[s] == 0) continue;
      int64_t cost = cost_[model][s];
      for (int i = 0; i < forms_[model].values; ++i) cost += deltas.of(delta_of(model, tuple, s, i));
      if (best < 0 || cost < best_cost) best = s, best_cost = cost;
    }
    return {best, best_cost};
  }

  std::span<const int8_t> elements_;
  const Layout& layout_;
  const Header& header_;
  modelling::Histogram histogram_;
  std::vector<Form> forms_;
  std::vector<Classes> classes_;
  std::vector<std::array<ValueCode, 3>> codes_;
  std::vector<Model> models_;
  std::vector<std::array<int64_t, 64>> cost_;
  DeltaCost deltas_;
};

class Encoder {
 public:
  // `heads`: a block's first exceptions go into its head.
  Encoder(std::span<const int8_t> elements, const Layout& layout, bool heads, const Choice& choice)
      : elements_(elements),
        layout_(layout),
        heads_(heads),
        header_(header_of(choice)),
        coding_(elements_, layout_, header_, choice) {}

  void run(CompressedMatrix& out) {
    for (int64_t block = 0; block < layout_.blocks; ++block) scan_block(block);
    const Packing packing = pack_exceptions(exceptions_);
    header_.gap_bits = static_cast<uint8_t>(packing.gap_bits);
    header_.delta_bits = static_cast<uint8_t>(packing.delta_bits);
    std::copy(packing.deltas.begin(), packing.deltas.end(), header_.delta);
    const uint64_t width = packing.gap_bits + packing.delta_bits, in_head = 8 * kHeadBytes / width;
    const uint32_t nothing = (uint32_t{1} << width) - 1;
    std::vector<uint32_t> later;  // entries that no head holds
    for (const Scanned& scanned : scanned_) {
      const uint64_t begin = packing.first_entry[scanned.first_exception],
                     end = packing.first_entry[scanned.end_exception];
      std::vector<uint32_t> head(packing.entries.begin() + begin,
                                 packing.entries.begin() + std::min(end, begin + (heads_ ? in_head : 0)));
      index_.push_back({stream_.size(), scanned.first_raw, later.size()});
      later.insert(later.end(), packing.entries.begin() + begin + head.size(), packing.entries.begin() + end);
      head.resize(in_head, nothing);
      std::vector<std::byte> bytes = packed(head, width);
      bytes.resize(kHeadBytes, std::byte{0});
      encode_block(scanned, bytes);
    }
    index_.push_back({stream_.size(), raw_.size(), later.size()});
    std::vector<std::byte> exceptions = packed(later, width);
    exceptions.resize(exceptions.size() + kExceptionPadding, std::byte{0});
    const std::vector<Model>& models = coding_.models();
    std::vector<std::byte> tables(sizeof(Header) + models.size() * sizeof(Model));
    std::memcpy(tables.data(), &header_, sizeof header_);
    if (!models.empty()) std::memcpy(tables.data() + sizeof header_, models.data(), models.size() * sizeof(Model));
    // Filler takes from the states whatever it does not find in the stream.
    const int64_t filler = filler_cost_ / kCostOfByte,
                  in_stream = std::min(filler, static_cast<int64_t>(stream_.size()));
    stream_.resize(stream_.size() + kStreamPadding, 0);
    // Kernels copy the tables into registers once a part.
    out.sections.push_back({"tables", Role::table, 64, std::move(tables)});
    out.sections.push_back({"index", Role::index, 64, bytes_of(index_)});
    out.sections.push_back({"states", Role::payload, 64, bytes_of(states_), filler - in_stream});
    out.sections.push_back({"stream", Role::payload, 64, bytes_of(stream_), kStreamPadding + in_stream});
    out.sections.push_back(
        {"raw", Role::payload, 64, bytes_of(raw_), static_cast<int64_t>(raw_.size()) - (raw_bits_ + 7) / 8});
    out.sections.push_back({"exceptions", Role::payload, 64, std::move(exceptions), kExceptionPadding});
    out.sections.push_back({"elements", Role::payload, 64, {}});
  }

 private:
  static Header header_of(const Choice& choice) {
    Header header{};
    header.models = static_cast<uint8_t>(choice.forms.size());
    header.first_share = static_cast<uint16_t>(choice.first_share);
    return header;
  }

  // One part: symbols in the order of decoding, raw bits, exceptions.
  void scan_part(const Part& part, int64_t block_begin, std::vector<uint8_t>& symbols, int64_t& last_exception) {
    const int m = part.model;
    const Form form = coding_.form(m);
    const Model& model = coding_.models()[m];
    Placement placements[kSteps][3];
    for (int step = 0; step < kSteps; ++step)
      for (int i = 0; i < form.values; ++i) placements[step][i] = place(form.values, form.raw_bits, step, i);
    std::vector<std::pair<int64_t, int>> found;  // position in the part, delta
    for (int64_t base = 0; base < part.elements; base += round_elements(form.values)) {
      raw_bits_ += std::min(round_elements(form.values), part.elements - base) * form.raw_bits;
      const size_t raw_base = raw_.size();
      raw_.resize(raw_base + round_raw_bytes(form), 0);
      found.clear();
      for (int step = 0; step < kSteps; ++step) {
        const int64_t first = base + int64_t{step} * form.values * kGroup;
        int16_t own[kGroup];
        coding_.symbols_at(part, first, own);
        for (int i = 0; i < form.values; ++i) {
          const int64_t begin = first + i * kGroup, count = std::min<int64_t>(kGroup, part.elements - begin);
          for (int n = 0; n < placements[step][i].count; ++n) {
            const Piece piece = placements[step][i].pieces[n];
            uint8_t* to = raw_.data() + raw_base + piece.vector * kGroup;
            for (int64_t lane = 0; lane < count; ++lane) {
              const int bits = coding_.raw_places(m, i, elements_[part.begin + begin + lane]) & piece.mask;
              to[lane] |= static_cast<uint8_t>(piece.shift >= 0 ? bits << piece.shift : bits >> -piece.shift);
            }
          }
        }
        for (int lane = 0; lane < kGroup; ++lane) {
          int symbol = own[lane];
          if (symbol < 0 || model.frequency[symbol] == 0) symbol = coding_.replace(part, first + lane, found);
          symbols.push_back(static_cast<uint8_t>(symbol));
          if (first + lane >= part.elements) filler_cost_ += coding_.cost(m, symbol);
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

  // A block before its symbols are coded.
  struct Scanned {
    std::vector<uint8_t> symbols[kMaxModels];
    size_t first_exception = 0, end_exception = 0;
    uint64_t first_raw = 0;
  };
  void scan_block(int64_t block) {
    Scanned scanned;
    scanned.first_exception = exceptions_.size();
    scanned.first_raw = raw_.size();
    const std::vector<Part> parts = parts_of(layout_, header_, block);
    int64_t last_exception = 0;
    for (const Part& part : parts)
      if (part.elements > 0) scan_part(part, parts[0].begin, scanned.symbols[part.model], last_exception);
    scanned.end_exception = exceptions_.size();
    scanned_.push_back(std::move(scanned));
  }

  // The decoder ends in the states that encoding begins with. Beginning with 256 + byte instead of 256 costs 0.6 bits a
  // state and stores 8.
  void encode_block(const Scanned& scanned, const std::vector<std::byte>& head) {
    const std::vector<Model>& models = coding_.models();
    const std::vector<uint8_t>(&symbols)[kMaxModels] = scanned.symbols;
    std::vector<uint32_t> states(kFormatLanes);
    for (int i = 0; i < kFormatLanes; ++i) states[i] = kSlots + static_cast<uint32_t>(head[i]);
    std::vector<uint8_t> reversed;
    for (int m = static_cast<int>(models.size()) - 1; m >= 0; --m)
      for (size_t n = symbols[m].size(); n-- > 0;) {
        const uint32_t symbol = symbols[m][n], f = models[m].frequency[symbol],
                       start = static_cast<uint8_t>(-models[m].minus_start[symbol]);
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

  std::span<const int8_t> elements_;
  Layout layout_;
  bool heads_;
  Header header_;
  Coding coding_;
  std::vector<BlockIndex> index_;
  int64_t raw_bits_ = 0;     // of elements that exist
  int64_t filler_cost_ = 0;  // of symbols that only fill up a part's last round, as in cost_
  std::vector<uint8_t> states_, stream_, raw_;
  std::vector<Exception> exceptions_;
  std::vector<Scanned> scanned_;
};

CompressedMatrix store_raw(datasets::MatrixView matrix, std::span<const int8_t> bytes, const Settings& settings) {
  CompressedMatrix out = make_compressed(matrix, settings);
  std::vector<std::byte> tables(sizeof(Header), std::byte{0});
  out.sections.push_back({"tables", Role::table, 64, std::move(tables)});
  for (const char* name : {"index", "states", "stream", "raw", "exceptions"})
    out.sections.push_back({name, std::string_view(name) == "index" ? Role::index : Role::payload, 64, {}});
  const std::span<const std::byte> stored = std::as_bytes(bytes);
  out.sections.push_back({"elements", Role::payload, 64, {stored.begin(), stored.end()}});
  return out;
}

// `bytes` is the coded part of the matrix, one byte an element.
CompressedMatrix encode_bytes(datasets::MatrixView matrix, std::span<const int8_t> bytes, const Settings& settings) {
  const Layout layout = layout_of(matrix.shape, matrix.type, settings);
  const std::string& prob_bits = settings.text("prob_bits");
  const Constraints constraints{.values = static_cast<int>(settings.integer("values_per_symbol")),
                                .raw_bits = static_cast<int>(settings.integer("raw_bits")),
                                .runs = prob_bits == "auto" ? -1
                                        : prob_bits == "7"  ? kTwos
                                        : prob_bits == "8"  ? kAnyRuns
                                                            : kFours,
                                .excess_per_mille = settings.integer("excess"),
                                .block_elements = layout.rows_per_block * matrix.shape.cols};
  const modelling::Histogram histogram = modelling::histogram(bytes);
  // Estimates choose the forms. If the bytes miss the limit, forms are chosen again under a corrected limit.
  const double limit = size_limit(histogram, constraints.excess_per_mille);
  const double elements = static_cast<double>(matrix.shape.elements());
  const CompressedMatrix raw = store_raw(matrix, bytes, settings);
  CompressedMatrix best = raw;
  double tried = limit, best_cycles = 0;
  bool within = false;
  Choice last;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const Choice choice = choose_forms(histogram, constraints, tried);
    if (choice.forms.empty() || choice == last) break;
    last = choice;
    CompressedMatrix out = make_compressed(matrix, settings);
    Encoder(bytes, layout, matrix.type == datasets::ElementType::i8, choice).run(out);
    const double bits = 8.0 * static_cast<double>(out.stored_bytes()) / elements;
    const bool fits = bits <= limit;
    // Takes the fastest within the limit, otherwise the smallest. Small or unruly matrices can come out larger than
    // they are.
    if (out.stored_bytes() < raw.stored_bytes() &&
        (fits ? !within || choice.cycles < best_cycles : !within && out.stored_bytes() < best.stored_bytes())) {
      best = std::move(out);
      best_cycles = choice.cycles;
    }
    within = within || fits;
    if (choice.smallest || (fits && bits > limit * 0.9998)) break;
    tried *= limit / bits * 0.9999;
  }
  return best;
}

}  // namespace

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  if (matrix.type == datasets::ElementType::i8) return encode_bytes(matrix, matrix.i8(), settings);
  const size_t count = static_cast<size_t>(matrix.shape.elements());
  std::vector<int8_t> exponents(count);
  std::vector<std::byte> fractions(count + kFractionPadding, std::byte{0});
  for (size_t i = 0; i < count; ++i) {
    uint16_t element;
    std::memcpy(&element, &matrix.elements[2 * i], sizeof(element));
    exponents[i] = coded_exponent(element);
    fractions[i] = static_cast<std::byte>(fraction(element));
  }
  CompressedMatrix out = encode_bytes(matrix, exponents, settings);
  out.sections.push_back({"fractions", Role::payload, 64, std::move(fractions), kFractionPadding});
  return out;
}

}  // namespace ecmv::codecs::rans_byte_planes
