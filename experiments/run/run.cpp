// The flow of one run: dataset -> codecs -> admission of each kernel -> batch -> records. An error on the way becomes
// the outcome of its cases (outcome.h); only a record that cannot be written ends the run.
#include "experiments/run/run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "experiments/check/encoding/fresh_decoder.h"
#include "experiments/plan/entrants.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/run/admission.h"
#include "experiments/run/batch.h"
#include "experiments/run/case_record.h"
#include "experiments/run/loaded_dataset.h"
#include "experiments/run/recorder.h"
#include "experiments/run/running_case.h"

namespace ecmv::experiments {
namespace {

using reports::Status;

std::string names_of(std::span<const CodecChoice> codecs) {
  std::string names;
  const codecs::CodecEntry* last = nullptr;
  for (const CodecChoice& choice : codecs)
    for (const CodecChoice* one : choice.all())
      if (const auto* before = std::exchange(last, one->entry); before != last)
        names += (names.empty() ? "" : ", ") + std::string(last->id);
  return names;
}

// Not where ranks share all cases: each encodes parts of its own. A lossy codec's reference is its decoded whole.
bool needs_whole_layers(const CodecChoice& codec, const std::vector<const Case*>& cases) {
  return std::ranges::any_of(cases, [](const Case* one) { return one->kernel.ranks <= 1; }) ||
         std::ranges::any_of(codec.all(), [](const CodecChoice* one) { return !one->entry->codec->lossless; });
}

class Run {
 public:
  Run(const Experiment& experiment, const RunOptions& options)
      : experiment_(experiment),
        options_(options),
        devices_(options.open_device),
        recorder_(experiment, options),
        batch_(experiment, options, devices_, recorder_) {
    if (RankTeam::get() == nullptr) fresh_.emplace();
  }

  RunSummary run() {
    for (std::span<const Case> rest = experiment_.cases; !rest.empty() && !options_.interrupted();) {
      const auto end = std::ranges::find_if(rest, [&](const Case& one) { return one.data != rest.front().data; });
      entrants_ = Entrants({rest.begin(), end}, options_.codecs);
      run_dataset(recorder_.left({rest.begin(), end}));
      rest = {end, rest.end()};
    }
    set_running_case({}, {});
    recorder_.summary.interrupted = options_.interrupted();
    return recorder_.summary;
  }

 private:
  void run_dataset(const std::vector<const Case*>& cases) {
    if (cases.empty()) return;
    recorder_.progress.data(cases.front()->data);
    LoadedDataset dataset;
    const Outcome loaded = guarded([&] { dataset = load_for(cases); });
    std::vector<CodecChoice> codecs;
    std::vector<std::vector<const Case*>> cases_of;  // by codec
    for (const Case* one : cases) {
      std::string missing;
      const auto choice = choice_of(one->codec, options_.codecs, missing);
      Outcome known = loaded;
      if (known.fine() && !one->unavailable.empty()) known = {Status::unavailable, one->unavailable};
      if (known.fine() && !choice) known = {Status::error, "There is no codec '" + missing + "' in this build."};
      if (!known.fine()) {
        recorder_.finish(*one, describe(*one, dataset), known);
        continue;
      }
      if (codecs.empty() || cases_of.back().front()->codec != one->codec) {
        codecs.push_back(*choice);
        cases_of.emplace_back();
      }
      cases_of.back().push_back(one);
    }
    for (size_t next = 0; next < codecs.size() && !options_.interrupted();) {
      size_t whole = next;
      while (whole < codecs.size() && needs_whole_layers(codecs[whole], cases_of[whole])) ++whole;
      if (whole == next) {
        run_codec(dataset, codecs[next], {}, cases_of[next]);
        ++next;
        continue;
      }
      const auto rest = std::span(codecs).subspan(next, whole - next);
      const auto together = rest.first(encoded_at_once(rest, dataset.layers()));
      recorder_.progress.phase("encoding with " + names_of(together));
      set_running_case({}, {});  // encoders are no kernels, and may take long
      std::vector<EncodedLayers> all = encode_and_check(together, dataset.layers(), options_.interrupted);
      if (options_.interrupted()) break;
      for (EncodedLayers& encoded : all) {
        run_codec(dataset, codecs[next], std::exchange(encoded, {}), cases_of[next]);
        ++next;
      }
    }
    batch_.measure();
  }

  void run_codec(const LoadedDataset& dataset, const CodecChoice& codec, const EncodedLayers& encoded,
                 const std::vector<const Case*>& cases) {
    Admission admission(experiment_, options_, dataset, devices_, codec, encoded);
    for (const Case* one : cases) {
      if (options_.interrupted()) return;
      recorder_.progress.phase("verifying " + one->codec.short_name());
      AdmittedCase admitted = admission.admit(*one, describe(*one, dataset));
      // There may be no room for other layers beside these: of other codecs, or of this one for other devices.
      if (admitted.outcome.status == Status::out_of_memory && (admission.forget_uploads() || !batch_.empty())) {
        batch_.measure();
        admitted = {};  // its layers leave as well
        admitted = admission.admit(*one, describe(*one, dataset));
      }
      if (admitted.pass == nullptr)
        recorder_.finish(*one, admitted.record, admitted.outcome);
      else
        batch_.add(std::move(admitted));
      if (batch_.full()) batch_.measure();
    }
  }

  reports::CaseRecord describe(const Case& one, const LoadedDataset& dataset) const {
    reports::CaseRecord record = describe_case(one, experiment_.name, options_.run_id);
    record.entrants = entrants_.of(one);
    if (dataset.description) record.data = *dataset.description;
    if (dataset.description && one.kernel.task == Task::step) fill_step(record, dataset.layers(), one.kernel.repeat);
    return record;
  }

  const Experiment& experiment_;
  const RunOptions& options_;
  std::optional<FreshDecoder> fresh_;  // a process from before anything was encoded; ranks have processes of their own
  DevicePool devices_;
  Recorder recorder_;
  Batch batch_;
  Entrants entrants_{{}, {}};  // of the dataset that runs
};

}  // namespace

RunSummary run_experiment(const Experiment& experiment, const RunOptions& options) {
  return Run(experiment, options).run();
}

}  // namespace ecmv::experiments
