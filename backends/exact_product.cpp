// See exact_product.h. Products of two float32 numbers are exact in double, so only additions round. Tokens are taken
// eight at a time and stored column by column, so that the compiler vectorises.
#include "backends/exact_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/team.h"

namespace ecmv::backends {
namespace {

constexpr int kTokensAtOnce = 8;
constexpr double kUnitRoundoff = 0x1p-24;
// With more columns g would near 1.
constexpr int64_t kMaxCols = int64_t{1} << 22;
// Every partial sum stays below float32's greatest number, with room for an offset.
constexpr double kMaxMagnitude = 0x1p126;

// A sum that is no larger than this part of its magnitude may cancel to zero in float32.
constexpr double kNextToNothing = 0x1p-8;

double square(double value) { return value * value; }

// The part of a bound that does not come from roundings: numbers below the normal ones, and the double sums themselves.
double small_bound(const ProductRounding& rounding, int64_t terms, double magnitude, double x_magnitude, double scale,
                   double w_magnitude) {
  const auto count = static_cast<double>(terms);
  const double small = scale == 1 ? count : count * std::max(scale, 1.0) + 1;
  const double flushed =
      rounding.flushes_subnormals ? (2 * count + x_magnitude) * std::max(scale, 1.0) + w_magnitude : 0;
  return small * 0x1p-149 + flushed * 0x1p-126 + count * 0x1p-52 * magnitude;
}

// Whether a row's sum, or its elements, may become infinite while they are larger (ProductRounding::raised).
bool may_be_infinite(const ProductRounding& rounding, double magnitude, double w_magnitude) {
  return rounding.raised > 0 && std::max(magnitude, w_magnitude) >= std::ldexp(1, 127 - rounding.raised);
}

// The part of a bound that grows with the terms, relative to them.
double relative_bound(const ProductRounding& rounding, int64_t terms) {
  const double n = roundings_of(rounding, terms);
  return n * kUnitRoundoff / (1 - n * kUnitRoundoff) + rounding.narrowing;
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

// Sums, magnitudes and squares of one row and eight tokens, x as [cols, 8].
// Returns the sum of |w|.
double multiply_row(const float* row, int64_t cols, const double* x, std::array<double, kTokensAtOnce>& sums,
                    std::array<double, kTokensAtOnce>& magnitudes, std::array<double, kTokensAtOnce>& squares) {
  double s[kTokensAtOnce] = {}, m[kTokensAtOnce] = {}, q[kTokensAtOnce] = {}, weights = 0;
  for (int64_t c = 0; c < cols; ++c) {
    const double w = row[c];
    weights += std::fabs(w);
    for (int t = 0; t < kTokensAtOnce; ++t) {
      const double product = w * x[c * kTokensAtOnce + t];
      s[t] += product;
      m[t] += std::fabs(product);
      q[t] += product * product;
    }
  }
  std::copy_n(s, kTokensAtOnce, sums.begin());
  std::copy_n(m, kTokensAtOnce, magnitudes.begin());
  std::copy_n(q, kTokensAtOnce, squares.begin());
  return weights;
}

}  // namespace

std::string why_no_float_product(const datasets::MatrixView& matrix) {
  using enum datasets::ElementType;
  switch (matrix.type) {
    case f64:
    case i32:
    case u32:
    case i64:
    case u64:
      return "Float products take elements that float32 holds exactly, which it does not all of the type " +
             std::string(datasets::element_type_name(matrix.type)) + ".";
    default: break;
  }
  if (matrix.shape.cols > kMaxCols)
    return "The bound of float32 sums over " + std::to_string(matrix.shape.cols) + " columns says nothing; at most " +
           std::to_string(kMaxCols) + " are multiplied.";
  return {};
}

ExactProduct exact_product(const datasets::MatrixView& matrix, std::span<const float> tokens, int batch,
                           const datasets::Scales* scales) {
  if (scales != nullptr && scales->empty()) scales = nullptr;
  const int64_t rows = matrix.shape.rows, cols = matrix.shape.cols;
  ExactProduct exact;
  exact.shape = matrix.shape;
  exact.batch = batch;
  exact.sums.resize(static_cast<size_t>(batch * rows));
  exact.magnitudes.resize(exact.sums.size());
  exact.norms.resize(exact.sums.size());
  for (int token = 0; token < batch; ++token) {
    const auto numbers = tokens.subspan(static_cast<size_t>(token * cols), static_cast<size_t>(cols));
    double sum = 0;
    for (const float x : numbers) sum += std::fabs(double{x});
    exact.x_magnitudes.push_back(sum);
    exact.terms = std::max<int64_t>(exact.terms, cols - std::count(numbers.begin(), numbers.end(), 0.0f));
  }
  if (scales != nullptr) exact.scales.resize(static_cast<size_t>(rows));
  exact.w_magnitudes.resize(static_cast<size_t>(rows));
  const cpu::Team team(cpu::Team::available_threads());
  const int64_t row_bytes = cols * datasets::element_bytes(matrix.type);
  std::vector<double> x(static_cast<size_t>(cols * kTokensAtOnce));
  std::atomic<int64_t> unbounded = -1;  // a result that has no bound
  for (int first = 0; first < batch; first += kTokensAtOnce) {
    const int count = std::min(kTokensAtOnce, batch - first);
    std::fill(x.begin(), x.end(), 0.0);
    for (int64_t c = 0; c < cols; ++c)
      for (int t = 0; t < count; ++t)
        x[static_cast<size_t>(c * kTokensAtOnce + t)] = tokens[static_cast<size_t>((first + t) * cols + c)];
    team.run([&](int thread, int threads) {
      std::vector<float> row(static_cast<size_t>(cols));
      std::vector<float> of_groups(static_cast<size_t>(scales == nullptr ? 0 : scales->groups)), minimums = of_groups;
      std::array<double, kTokensAtOnce> sums{}, magnitudes{}, squares{};
      for (int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; ++r) {
        cpu::elements_to_floats(matrix.type, matrix.elements.data() + r * row_bytes, cols, row.data());
        if (scales != nullptr) {
          scales->of_row(r, of_groups);
          for (int64_t c = 0; c < cols; ++c)
            row[static_cast<size_t>(c)] *= of_groups[static_cast<size_t>(c / scales->group_cols)];
          if (scales->has_minimums) {
            scales->minimums_of_row(r, minimums);
            for (int64_t c = 0; c < cols; ++c)
              row[static_cast<size_t>(c)] += minimums[static_cast<size_t>(c / scales->group_cols)];
          }
          for (const float scale : of_groups)
            exact.scales[static_cast<size_t>(r)] =
                std::max(exact.scales[static_cast<size_t>(r)], std::fabs(double{scale}));
        }
        exact.w_magnitudes[static_cast<size_t>(r)] =
            multiply_row(row.data(), cols, x.data(), sums, magnitudes, squares);
        for (int t = 0; t < count; ++t) {
          const int64_t at = (first + t) * rows + r;
          exact.sums[static_cast<size_t>(at)] = sums[static_cast<size_t>(t)];
          exact.magnitudes[static_cast<size_t>(at)] = magnitudes[static_cast<size_t>(t)];
          exact.norms[static_cast<size_t>(at)] = std::sqrt(squares[static_cast<size_t>(t)]);
          if (!(magnitudes[static_cast<size_t>(t)] < kMaxMagnitude)) unbounded = at;
        }
      }
    });
  }
  if (const int64_t at = unbounded; at >= 0)
    exact.refused = "The product of row " + std::to_string(at % rows) +
                    " is not held to anything: it has NaN, an infinity, or sums that float32 does not hold.";
  return exact;
}

ExactProduct chosen_tokens(const ExactProduct& exact, std::span<const int> tokens) {
  ExactProduct chosen{
      exact.shape,       static_cast<int>(tokens.size()), exact.terms, exact.refused, {}, {}, {}, {}, exact.scales,
      exact.w_magnitudes};
  for (const int token : tokens) {
    const auto begin = token * exact.shape.rows, end = begin + exact.shape.rows;
    chosen.sums.insert(chosen.sums.end(), exact.sums.begin() + begin, exact.sums.begin() + end);
    chosen.magnitudes.insert(chosen.magnitudes.end(), exact.magnitudes.begin() + begin, exact.magnitudes.begin() + end);
    chosen.norms.insert(chosen.norms.end(), exact.norms.begin() + begin, exact.norms.begin() + end);
    chosen.x_magnitudes.push_back(exact.x_magnitudes[static_cast<size_t>(token)]);
  }
  return chosen;
}

void change_columns(ExactProduct& exact, const datasets::MatrixView& matrix, std::span<float> tokens,
                    std::span<const int64_t> columns, std::span<const float> values, const datasets::Scales* scales) {
  if (scales != nullptr && scales->empty()) scales = nullptr;
  const int64_t rows = matrix.shape.rows, cols = matrix.shape.cols, bytes = datasets::element_bytes(matrix.type);
  const size_t count = columns.size(), batch = static_cast<size_t>(exact.batch);
  const auto before = [&](size_t token, size_t k) {
    return double{tokens[token * static_cast<size_t>(cols) + static_cast<size_t>(columns[k])]};
  };
  // Some rows at a time, so that a token's results, which lie side by side, are changed together.
  constexpr int64_t kRows = 64;
  cpu::Team::for_each((rows + kRows - 1) / kRows, [&](int64_t part) {
    const int64_t first = part * kRows, end = std::min(rows, first + kRows);
    std::vector<float> w(static_cast<size_t>(kRows) * count),
        of_groups(static_cast<size_t>(scales == nullptr ? 0 : scales->groups)), minimums = of_groups;
    for (int64_t row = first; row < end; ++row) {
      if (scales != nullptr) scales->of_row(row, of_groups);
      if (scales != nullptr && scales->has_minimums) scales->minimums_of_row(row, minimums);
      for (size_t k = 0; k < count; ++k) {
        float& weight = w[static_cast<size_t>(row - first) * count + k];
        cpu::elements_to_floats(matrix.type, matrix.elements.data() + (row * cols + columns[k]) * bytes, 1, &weight);
        if (scales == nullptr) continue;
        weight *= of_groups[static_cast<size_t>(columns[k] / scales->group_cols)];
        if (scales->has_minimums) weight += minimums[static_cast<size_t>(columns[k] / scales->group_cols)];
      }
    }
    for (size_t token = 0; token < batch; ++token)
      for (int64_t row = first; row < end; ++row) {
        double sum = 0, magnitude = 0, squares = 0;
        for (size_t k = 0; k < count; ++k) {
          const double weight = w[static_cast<size_t>(row - first) * count + k], old = weight * before(token, k),
                       fresh = weight * values[token * count + k];
          sum += fresh - old;
          magnitude += std::fabs(fresh) - std::fabs(old);
          squares += fresh * fresh - old * old;
        }
        const size_t at = token * static_cast<size_t>(rows) + static_cast<size_t>(row);
        exact.sums[at] += sum;
        exact.magnitudes[at] = std::max(0.0, exact.magnitudes[at] + magnitude);
        exact.norms[at] = std::sqrt(std::max(0.0, square(exact.norms[at]) + squares));
      }
  });
  for (size_t token = 0; token < batch; ++token) {
    for (size_t k = 0; k < count; ++k)
      exact.x_magnitudes[token] += std::fabs(double{values[token * count + k]}) - std::fabs(before(token, k));
    const auto numbers = tokens.subspan(token * static_cast<size_t>(cols), static_cast<size_t>(cols));
    for (size_t k = 0; k < count; ++k) numbers[static_cast<size_t>(columns[k])] = values[token * count + k];
    exact.terms = std::max<int64_t>(exact.terms, cols - std::ranges::count(numbers, 0.0f));
  }
}

double roundings_of(const ProductRounding& rounding, int64_t terms) {
  if (rounding.unit_cols == 0) return static_cast<double>(terms) + rounding.more_roundings;
  const int64_t products = std::min(terms, rounding.chain_cols),
                additions = std::min(products, (rounding.chain_cols + rounding.unit_cols - 1) / rounding.unit_cols);
  return 2 * static_cast<double>(products) + 4 * static_cast<double>(additions) + rounding.more_roundings;
}

ProductRounding looser_of(const ProductRounding& one, const ProductRounding& other) {
  if ((one.unit_cols == 0) != (other.unit_cols == 0)) {
    // Express the units' rounding as sums in float32, with as many more roundings as units make at most.
    ProductRounding units = one.unit_cols == 0 ? other : one;
    units.more_roundings = static_cast<int>(roundings_of(units, units.chain_cols));
    units.unit_cols = 0;
    units.chain_cols = 0;
    return looser_of(units, one.unit_cols == 0 ? one : other);
  }
  return {.more_roundings = std::max(one.more_roundings, other.more_roundings),
          .offset = std::max(one.offset, other.offset),
          .narrowing = std::max(one.narrowing, other.narrowing),
          .unit_cols = std::min(one.unit_cols, other.unit_cols),
          .chain_cols = std::max(one.chain_cols, other.chain_cols),
          .flushes_subnormals = one.flushes_subnormals || other.flushes_subnormals,
          .raised = std::max(one.raised, other.raised)};
}

double product_bound(const ProductRounding& rounding, int64_t terms, double magnitude, double x_magnitude, double scale,
                     double w_magnitude) {
  if (may_be_infinite(rounding, magnitude, w_magnitude)) return std::numeric_limits<double>::infinity();
  return relative_bound(rounding, terms) * (magnitude + rounding.offset * scale * x_magnitude) +
         small_bound(rounding, terms, magnitude, x_magnitude, scale, w_magnitude);
}

double typical_error_limit(const ProductRounding& rounding, int64_t terms) {
  constexpr double kApart = 8, kOfLargeTerms = 0x1p-6;
  constexpr int kFewRoundings = 64;
  const bool large_terms = rounding.unit_cols > 0 || rounding.offset > 0 || rounding.more_roundings > kFewRoundings;
  return kApart * kUnitRoundoff * std::sqrt(static_cast<double>(terms + rounding.more_roundings + 1)) +
         rounding.narrowing + (large_terms ? kOfLargeTerms : 0);
}

namespace {

constexpr size_t kFewResults = size_t{1} << 17;  // too few for several threads

// What the results of a token, or of some, show.
struct TokenCheck {
  int64_t first = -1, wrong = 0;  // the first result outside its bound, and how many there are
  double first_bound = 0, used = 0, errors = 0, expected = 0;
  bool nothing = true, next_to_nothing = true;

  void add(const TokenCheck& next) {
    if (wrong == 0) first = next.first, first_bound = next.first_bound;
    wrong += next.wrong;
    used = std::max(used, next.used);
    errors += next.errors;
    expected += next.expected;
    nothing = nothing && next.nothing;
    next_to_nothing = next_to_nothing && next.next_to_nothing;
  }
};

TokenCheck check_token(std::span<const float> got, const ExactProduct& exact, const ProductRounding& rounding,
                       double relative, size_t token) {
  const auto rows = static_cast<size_t>(exact.shape.rows);
  TokenCheck check;
  for (size_t row = 0; row < rows; ++row) {
    const size_t i = token * rows + row;
    const double scale = exact.scales.empty() ? 1 : exact.scales[row];
    const double magnitude = exact.magnitudes[i], x_magnitude = exact.x_magnitudes[token];
    if (may_be_infinite(rounding, magnitude, exact.w_magnitudes[row])) {
      check.nothing = check.nothing && got[i] == 0;
      check.next_to_nothing = false;
      continue;
    }
    const double small = small_bound(rounding, exact.terms, magnitude, x_magnitude, scale, exact.w_magnitudes[row]);
    const double bound = relative * (magnitude + rounding.offset * scale * x_magnitude) + small;
    const double sum = std::fabs(exact.sums[i]), error = std::fabs(double{got[i]} - exact.sums[i]);
    check.errors += square(std::max(0.0, error - small));
    check.expected += square(std::max(sum, exact.norms[i]));
    check.nothing = check.nothing && got[i] == 0;
    check.next_to_nothing = check.next_to_nothing && sum <= std::max(small, magnitude * kNextToNothing);
    // A product spares most results the division.
    if (error <= bound) {
      if (error > check.used * bound) check.used = error / bound;
    } else if (check.wrong++ == 0) {
      check.first = static_cast<int64_t>(i);
      check.first_bound = bound;
    }
  }
  return check;
}

}  // namespace

ProductCheck check_product(std::span<const float> got, const ExactProduct& exact, const ProductRounding& rounding,
                           bool all_threads) {
  const int64_t rows = exact.shape.rows;
  ProductCheck check;
  if (rows == 0
          ? !got.empty()
          : got.size() % static_cast<size_t>(rows) != 0 || static_cast<int64_t>(got.size()) > exact.batch * rows) {
    check.violation =
        "there are " + std::to_string(got.size()) + " results instead of " + std::to_string(rows) + " a token";
    return check;
  }
  if (!(roundings_of(rounding, exact.terms) * kUnitRoundoff < 0.5)) {
    check.violation = "the kernel's bound says nothing for so many roundings";
    return check;
  }
  const double relative = relative_bound(rounding, exact.terms);  // two divisions a case, not a result
  std::vector<TokenCheck> tokens(rows == 0 ? 0 : got.size() / static_cast<size_t>(rows));
  const auto check_one = [&](int64_t token) {
    tokens[static_cast<size_t>(token)] = check_token(got, exact, rounding, relative, static_cast<size_t>(token));
  };
  if (all_threads && got.size() > kFewResults)
    cpu::Team::for_each(std::ssize(tokens), check_one);
  else
    for (int64_t token = 0; token < std::ssize(tokens); ++token) check_one(token);
  TokenCheck all;
  for (const TokenCheck& token : tokens) all.add(token);
  const auto [first, wrong, first_bound, used, errors, expected, nothing, next_to_nothing] = all;
  check.used = used;
  if (wrong > 0)
    check.violation = "row " + std::to_string(first % rows) + ", token " + std::to_string(first / rows) + " is " +
                      text_of(got[static_cast<size_t>(first)]) + " instead of " +
                      text_of(exact.sums[static_cast<size_t>(first)]) + ", further away than the bound " +
                      text_of(first_bound) + " (" + std::to_string(wrong) + " of " + std::to_string(got.size()) +
                      " results are)";
  else if (nothing && !next_to_nothing)
    check.violation = "all results are zero, and those of the exact product are not";
  check.typical = expected > 0 ? std::sqrt(errors / expected) : 0;
  return check;
}

}  // namespace ecmv::backends
