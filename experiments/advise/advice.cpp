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
    return fmt::format("There is no measured product of {} weights without loss, so there is nothing to advise.", type);
  if (raw == nullptr)
    return fmt::format(
        "Of what was measured, {} is the fastest: {} in {}. No uncompressed product of {} was measured "
        "with it, so whether it pays is not known.",
        fastest->codec, speed(*fastest), decimal_bytes(fastest->stored_bytes), type);
  if (memory_bytes > 0 && raw->stored_bytes > memory_bytes) {
    const std::string too_large =
        fmt::format("As they are, the weights do not fit: they take {}, and the device has {}.",
                    decimal_bytes(raw->stored_bytes), decimal_bytes(memory_bytes));
    if (fastest == nullptr) return too_large + " No code that was measured makes them fit without loss.";
    return fmt::format("{} Use {}: they take {} without loss, at {}.", too_large, fastest->codec,
                       decimal_bytes(fastest->stored_bytes), speed(*fastest));
  }
  const bool busy = fastest != nullptr && (fastest->disturbed || raw->disturbed);
  if (busy && raw->step_s / fastest->step_s > 1 + kLevel)
    return fmt::format(
        "Nothing is decided, because other programs were in the way: {} was measured at {:.2f} times the "
        "speed of {}, {} instead of {}, in {} instead of {}, without loss.",
        fastest->codec, raw->step_s / fastest->step_s, raw->codec, speed(*fastest), speed(*raw),
        decimal_bytes(fastest->stored_bytes), decimal_bytes(raw->stored_bytes));
  if (fastest != nullptr && raw->step_s / fastest->step_s > 1 + kLevel)
    return fmt::format("Use {}: {} instead of {} ({:.2f} times), in {} instead of {}, without loss.", fastest->codec,
                       speed(*fastest), speed(*raw), raw->step_s / fastest->step_s,
                       decimal_bytes(fastest->stored_bytes), decimal_bytes(raw->stored_bytes));
  if (smallest != nullptr && smallest->stored_bytes < (1 - kLevel) * raw->stored_bytes)
    return fmt::format(
        "Leave it as it is unless memory is short: nothing is faster than {} with {} in {}. Without loss "
        "{} takes {}, {:.2f} of that, and does {}, {:.2f} of that speed.",
        raw->codec, speed(*raw), decimal_bytes(raw->stored_bytes), smallest->codec,
        decimal_bytes(smallest->stored_bytes), smallest->stored_bytes / raw->stored_bytes, speed(*smallest),
        raw->step_s / smallest->step_s);
  const std::string least = smallest == nullptr
                                ? "no code was measured on it"
                                : fmt::format(
                                      "the smallest code here takes {:.2f} of its bytes without loss, and "
                                      "none is faster",
                                      smallest->stored_bytes / raw->stored_bytes);
  return fmt::format("Leave it as it is: {}. {} does {} in {}.", least, raw->codec, speed(*raw),
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
    const std::string snr =
        std::isfinite(one.snr_db) ? fmt::format(", {:.1f} dB of signal to noise from the weights", one.snr_db) : "";
    advice.notes.push_back(fmt::format("With loss, the fastest is {} of {}: {} in {}{}.", one.codec, one.format,
                                       speed(one), decimal_bytes(one.stored_bytes), snr));
  }
  if (std::ranges::any_of(outlooks, &Outlook::disturbed))
    advice.notes.push_back(
        "DISTURBED: other programs were in the way of the measurements marked with !; measure again when it is quiet.");
  return advice;
}

Advice advice_for_blocks(double stored_bytes, double minimum_bytes) {
  return {fmt::format("Leave it as it is: these are blocks with scales of their own. An ideal code of single numbers "
                      "would take {} of {}, {:.2f} of it, and products here decode such blocks to memory before they "
                      "multiply, coded or not.",
                      decimal_bytes(minimum_bytes), decimal_bytes(stored_bytes), minimum_bytes / stored_bytes),
          {}};
}

}  // namespace ecmv::experiments
