// Tier 2b: checks that the timed passes themselves are right, and stay right. Results are wiped out before every timed
// pass, and checked after it: products of all layers, or of one that is drawn where they are many; of a decoded matrix
// places that a kernel cannot know, now and then all of it. Every sample has inputs of its own. After a sample every
// layer's result is compared.
//
// A decoding pass leaves only its last layer to compare, and a kernel must not know which layer will be checked. So
// passes that are drawn are followed by one that is not timed and whose layers are all compared, each after it ran. It
// calls kernels as a timed pass does. Another pass follows, so that the next timed one finds the caches as ever. Ranks
// have a pass with an input of its own for one of them instead.
//
// A matrix that a device has decoded is compared there, because its way to the host takes longer than the sample. After
// the first and the last sample the host compares it as well, and the host also locates any difference that the device
// found.
#pragma once

#include <chrono>
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
        one_pass_(one_pass),
        draws_(!admitted.device->info().emulated) {}
  void before_sample() override;
  void before_pass() override;
  Outcome after_pass() override;
  int64_t more_passes() const override { return more_passes_; }
  Outcome after_sample(int64_t passes, bool last) override;
  // Compares the results of the last pass once all passes of the batch have run, and fills in the record's fields about
  // checks.
  Outcome finish();

 private:
  // The reference of the running sample.
  Reference reference_now();
  // Compares the first layers' results. `on_host`: always on the host.
  Outcome compare(size_t layers, bool on_host = true);
  // Compares products of the last pass, or of one of its layers.
  Outcome compare_products();
  // Whether reading results disturbs nothing that is timed.
  bool is_near() const;
  // Draws whether a device's products are compared after a pass.
  bool compares();
  // Runs and compares each layer of a decoding pass.
  Outcome walk();
  // Whether all ranks have the same bytes where they must.
  Outcome compare_ranks();
  // The same where one rank has another input: a rank that plays back what the others once gave it for its own part has
  // other bytes then.
  Outcome mix_inputs();
  bool drawn(unsigned one_of) { return random_() % one_of == 0; }
  // Draws whether the pass is followed by a walk, or by one with unlike inputs.
  bool walks();
  // Takes the time of one.
  Outcome timed_walk();
  // The first byte that the device finds wrong, -1: none; nullopt if it does not compare.
  std::optional<int64_t> difference_on_device(size_t layers) const;
  AdmittedCase& admitted_;
  ExpectedCopies& copies_;
  UploadChecks& uploads_;
  FreshInputs& fresh_;
  const std::string key_, name_;
  bool every_, one_pass_;
  bool draws_;  // what it looks at; in the emulator, which times nothing, a run is repeated exactly
  std::optional<backends::cpu::Surroundings> kept_;  // while a sample is taken
  int samples_ = 0;
  int64_t passes_ = 0, more_passes_ = 0;
  std::minstd_rand random_{std::random_device{}()};
  int round_ = 0;
  // One of so many passes is followed by the comparison of all that it left. Before some of these, all outputs are
  // wiped out.
  static constexpr unsigned kWhole = 8, kWiped = 8;
  // One of so many passes is followed by a walk, or of ranks by one with unlike inputs, the first ones more often.
  static constexpr unsigned kWalk = 16, kFirstWalks = 8;
  bool whole_ = false;
  int other_rank_ = -1;  // that had another input last
  // Together walks take no more than this part of the time of the case's samples, except for the first one: where a
  // device has no room for expected copies, they are slow.
  static constexpr double kShareOfWalks = 0.25;
  // The same for comparing products of a device, which with many tokens and rows takes longer than many passes.
  static constexpr double kShareOfCompares = 0.4;
  using Clock = std::chrono::steady_clock;
  Clock::time_point sample_begun_;
  std::chrono::duration<double> in_samples_{0}, in_walks_{0}, in_compares_{0};
  size_t left_layers_ = 0;  // how many layers ran last
};

}  // namespace ecmv::experiments
