// Tier 2b: whether what is timed is right, and not only once. Results are wiped out before every timed pass and looked at
// after it as far as that is free; samples take turns with two inputs; after a sample every layer's result is compared,
// and then a few layers alone run as in a timed pass, because of decoding only the last layer is left to compare, and
// because a kernel must not know which layer will be.
#pragma once

#include "experiments/admission.h"
#include "experiments/measure.h"

namespace ecmv::experiments {

class SampleCheck final : public SampleObserver {
 public:
  // `every`: after each sample; otherwise finish() compares alone, and timed passes are looked at as ever. `one_pass`:
  // a profiler watches, and nothing but the timed pass runs.
  SampleCheck(AdmittedCase& admitted, bool every, bool one_pass)
      : admitted_(admitted),
        key_(admitted.one->key()),
        name_(admitted.one->name()),
        every_(every),
        one_pass_(one_pass) {}
  void before_sample() override;
  void before_pass() override;
  Outcome after_pass() override;
  Outcome after_sample(int64_t passes) override;
  // Compares what the last pass left, and fills in what the record says of checks.
  Outcome finish();

 private:
  Outcome compare(size_t layers);
  AdmittedCase& admitted_;
  const std::string key_, name_;
  bool every_, one_pass_;
  bool changed_ = false;  // the inputs are
  int samples_ = 0, passes_ = 0;
  size_t left_layers_ = 0;  // how many layers ran last
};

}  // namespace ecmv::experiments
