// Tier 2b: checks that the timed passes themselves are right, and stay right. Results are wiped out before every timed
// pass, and checked after it as far as that is free. Every sample has inputs of its own. After a sample every layer's
// result is compared. Then a few layers alone run as in a timed pass, since a decoding pass leaves only its last layer
// to compare, and a kernel must not know which layer will be checked.
//
// A matrix that a device has decoded is compared there, because its way to the host takes longer than the sample. After
// the first and the last sample the host compares it as well, and the host also locates any difference that the device
// found.
#pragma once

#include <map>
#include <optional>
#include <random>

#include "backends/cpu/foreign/surroundings.h"
#include "experiments/check/expected_copies.h"
#include "experiments/check/timed/fresh_inputs.h"
#include "experiments/run/admission.h"
#include "experiments/run/measure.h"

namespace ecmv::experiments {

// Checks that stored matrices are still what was uploaded. This brings all of their bytes back to the host, so cases
// that were measured together and share matrices, as a codec's cases do, share the answer.
class UploadChecks {
 public:
  const Outcome& of(const Upload& upload);

 private:
  std::map<const Upload*, Outcome> known_;
};

class SampleCheck final : public SampleObserver {
 public:
  // `every`: compare after each sample; otherwise only finish() compares, while timed passes get their free checks as
  // always. `one_pass`: a profiler watches, so nothing but the timed pass runs.
  SampleCheck(AdmittedCase& admitted, ExpectedCopies& copies, UploadChecks& uploads, FreshInputs& fresh, bool every,
              bool one_pass)
      : admitted_(admitted),
        copies_(copies),
        uploads_(uploads),
        fresh_(fresh),
        key_(admitted.one->key()),
        name_(admitted.one->name()),
        every_(every),
        one_pass_(one_pass) {}
  void before_sample() override;
  void before_pass() override;
  Outcome after_pass() override;
  Outcome after_sample(int64_t passes, bool last) override;
  // Compares the results of the last pass once all passes of the batch have run, and fills in the record's fields about
  // checks.
  Outcome finish();

 private:
  // The reference of the running sample.
  Reference reference_now();
  // Compares the first layers' results. `on_host`: always on the host.
  Outcome compare(size_t layers, bool on_host = true);
  // The first byte that the device finds wrong, -1: none; nullopt if it does not compare.
  std::optional<int64_t> difference_on_device(size_t layers) const;
  AdmittedCase& admitted_;
  ExpectedCopies& copies_;
  UploadChecks& uploads_;
  FreshInputs& fresh_;
  const std::string key_, name_;
  bool every_, one_pass_;
  std::optional<backends::cpu::Surroundings> kept_;  // while a sample is taken
  int samples_ = 0, passes_ = 0;
  // Marks are at random places, and before some passes all of the outputs are wiped out and then compared.
  static constexpr int kWipeEvery = 61;
  std::minstd_rand random_{std::random_device{}()};
  int round_ = 0;
  bool wiped_ = false;
  size_t left_layers_ = 0;  // how many layers ran last
};

}  // namespace ecmv::experiments
