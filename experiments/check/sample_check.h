// Tier 2b: whether what is timed is right, and not only once. Results are wiped out before every timed pass and looked at
// after it as far as that is free; samples take turns with two inputs; after a sample every layer's result is compared,
// and then a few layers alone run as in a timed pass, because of decoding only the last layer is left to compare, and
// because a kernel must not know which layer will be.
//
// A matrix that a device has decoded is compared there, because its way to the host takes longer than the sample. Of the
// first and the last sample the host compares it as well, and what the device finds is looked for on the host.
#pragma once

#include <map>
#include <optional>

#include "experiments/check/expected_copies.h"
#include "experiments/run/admission.h"
#include "experiments/run/measure.h"

namespace ecmv::experiments {

// Whether stored matrices are what was uploaded. All of their bytes come back to the host for that, so cases that were measured
// together and share matrices, as those of one codec do, share the answer.
class UploadChecks {
 public:
  const Outcome& of(const Upload& upload);

 private:
  std::map<const Upload*, Outcome> known_;
};

class SampleCheck final : public SampleObserver {
 public:
  // `every`: after each sample; otherwise finish() compares alone, and timed passes are looked at as ever. `one_pass`:
  // a profiler watches, and nothing but the timed pass runs.
  SampleCheck(AdmittedCase& admitted, ExpectedCopies& copies, UploadChecks& uploads, bool every, bool one_pass)
      : admitted_(admitted),
        copies_(copies),
        uploads_(uploads),
        key_(admitted.one->key()),
        name_(admitted.one->name()),
        every_(every),
        one_pass_(one_pass) {}
  void before_sample() override;
  void before_pass() override;
  Outcome after_pass() override;
  Outcome after_sample(int64_t passes, bool last) override;
  // Compares what the last pass left when all passes of the batch have run, and fills in what the record says of checks.
  Outcome finish();

 private:
  // The first layers' results. `on_host`: by the host in any case.
  Outcome compare(size_t layers, bool on_host = true);
  // The first byte that the device finds to be wrong, -1: none; nothing where it does not compare.
  std::optional<int64_t> difference_on_device(size_t layers) const;
  AdmittedCase& admitted_;
  ExpectedCopies& copies_;
  UploadChecks& uploads_;
  const std::string key_, name_;
  bool every_, one_pass_;
  bool changed_ = false;  // the inputs are
  int samples_ = 0, passes_ = 0;
  size_t left_layers_ = 0;  // how many layers ran last
};

}  // namespace ecmv::experiments
