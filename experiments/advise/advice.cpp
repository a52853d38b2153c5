// See advice.h.
#include "experiments/advise/advice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

std::string speed(const Outlook& one) { return reports::si_text(one.tokens_per_s()) + " tokens/s"; }

// The first of the best lossless outlooks, uncompressed or not; null if there is none.
template <typename Better>
const Outlook* best_of(const std::vector<Outlook>& outlooks, bool uncompressed, double memory_bytes, Better better) {
  const Outlook* best = nullptr;
  for (const Outlook& one : outlooks) {
    if (!one.lossless || one.uncompressed != uncompressed) continue;
    if (memory_bytes > 0 && one.stored_bytes > memory_bytes) continue;
    if (best == nullptr || better(one, *best)) best = &one;
  }
  return best;
}

bool is_faster(const Outlook& a, const Outlook& b) { return a.step_s < b.step_s; }
bool is_smaller(const Outlook& a, const Outlook& b) { return a.stored_bytes < b.stored_bytes; }

std::string verdict_of(const std::vector<Outlook>& outlooks, const std::string& type, double memory_bytes) {
  const Outlook* const raw = best_of(outlooks, true, 0, is_faster);
  const Outlook* const fastest = best_of(outlooks, false, memory_bytes, is_faster);
  const Outlook* const smallest = best_of(outlooks, false, memory_bytes, is_smaller);
  if (raw == nullptr && fastest == nullptr)
    return fmt::format("No lossless product of {} weights was measured, so there is no advice.", type);
  if (raw == nullptr)
    return fmt::format(
        "{} is the fastest measured: {} in {}. No uncompressed {} product was measured, so whether coding pays is "
        "unknown.",
        fastest->codec, speed(*fastest), decimal_bytes(fastest->stored_bytes), type);
  if (memory_bytes > 0 && raw->stored_bytes > memory_bytes) {
    const std::string too_large = fmt::format("The uncompressed weights do not fit: they take {}, the device has {}.",
                                              decimal_bytes(raw->stored_bytes), decimal_bytes(memory_bytes));
    if (fastest == nullptr) return too_large + " No lossless code that was measured fits either.";
    return fmt::format("{} Use {}: it takes {} without loss and runs at {}.", too_large, fastest->codec,
                       decimal_bytes(fastest->stored_bytes), speed(*fastest));
  }
  const bool busy = fastest != nullptr && (fastest->disturbed || raw->disturbed);
  if (busy && raw->step_s / fastest->step_s > 1 + kLevel)
    return fmt::format(
        "Undecided, because other programs disturbed the run: {} ran at {:.2f} times the speed of {} ({} against {}), "
        "in {} against {}, without loss.",
        fastest->codec, raw->step_s / fastest->step_s, raw->codec, speed(*fastest), speed(*raw),
        decimal_bytes(fastest->stored_bytes), decimal_bytes(raw->stored_bytes));
  if (fastest != nullptr && raw->step_s / fastest->step_s > 1 + kLevel)
    return fmt::format("Use {}: {} against {} ({:.2f} times as fast), in {} against {}, without loss.", fastest->codec,
                       speed(*fastest), speed(*raw), raw->step_s / fastest->step_s,
                       decimal_bytes(fastest->stored_bytes), decimal_bytes(raw->stored_bytes));
  if (smallest != nullptr && smallest->stored_bytes < (1 - kLevel) * raw->stored_bytes)
    return fmt::format(
        "Keep the weights uncompressed unless memory is short: {} is the fastest, {} in {}. {} takes {} ({:.2f} of the "
        "size) without loss and runs at {} ({:.2f} of the speed).",
        raw->codec, speed(*raw), decimal_bytes(raw->stored_bytes), smallest->codec,
        decimal_bytes(smallest->stored_bytes), smallest->stored_bytes / raw->stored_bytes, speed(*smallest),
        raw->step_s / smallest->step_s);
  const std::string least = smallest == nullptr
                                ? "no code was measured"
                                : fmt::format("the smallest lossless code takes {:.2f} of the size, and none is faster",
                                              smallest->stored_bytes / raw->stored_bytes);
  return fmt::format("Keep the weights uncompressed: {}. {} runs at {} in {}.", least, raw->codec, speed(*raw),
                     decimal_bytes(raw->stored_bytes));
}

}  // namespace

std::string decimal_bytes(double bytes) {
  for (const auto& [unit, name] : {std::pair{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}})
    if (bytes >= unit) {
      const double value = bytes / unit;
      return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, name);
    }
  return fmt::format("{:.0f} B", bytes);
}

Advice advice(const std::vector<Outlook>& outlooks, const std::string& type, double memory_bytes) {
  Advice advice{verdict_of(outlooks, type, memory_bytes), {}};
  const auto smaller_and_faster = std::ranges::find_if(outlooks, [](const Outlook& one) { return !one.lossless; });
  if (smaller_and_faster != outlooks.end()) {
    const Outlook& one = *smaller_and_faster;
    const std::string snr = std::isfinite(one.snr_db) ? fmt::format(", {:.1f} dB SNR", one.snr_db) : "";
    advice.notes.push_back(fmt::format("The fastest with loss is {} of {}: {} in {}{}.", one.codec, one.format,
                                       speed(one), decimal_bytes(one.stored_bytes), snr));
  }
  if (std::ranges::any_of(outlooks, &Outlook::disturbed))
    advice.notes.push_back(
        "DISTURBED: other programs ran during the measurements marked with !; repeat them on a quiet machine.");
  return advice;
}

Advice advice_for_blocks(double stored_bytes, double minimum_bytes) {
  return {fmt::format("Keep the file as it is: its blocks have their own scales. An ideal code of single numbers would "
                      "take {} of {} ({:.2f}), and products here decode such blocks to memory before they multiply, "
                      "coded or not.",
                      decimal_bytes(minimum_bytes), decimal_bytes(stored_bytes), minimum_bytes / stored_bytes),
          {}};
}

}  // namespace ecmv::experiments
