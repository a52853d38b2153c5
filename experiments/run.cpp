// The flow of one run. For each dataset: load, compute the reference chain or the reference products. For each codec: encode, check (tier 1), several codecs
// at once where threads would be idle. For each kernel: refuses?, upload, check every layer (tier 2a), one pass as an
// estimate. When a batch is full or the dataset ends: measure all of the batch interleaved, check what the last passes left
// (tier 2b), write the records.
#include "experiments/run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/team.h"
#include "experiments/block_counts.h"
#include "experiments/chain.h"
#include "experiments/check.h"
#include "experiments/device_pool.h"
#include "experiments/fill_record.h"
#include "experiments/measure.h"
#include "experiments/plan.h"
#include "experiments/products.h"

namespace ecmv::experiments {
namespace {

using reports::Status;

// Layers of one codec in one device memory; alive as long as some pass of the batch needs them.
struct Upload {
  std::vector<std::unique_ptr<backends::UploadedMatrix>> matrices;
};

// A verified case that waits for its batch to be measured.
struct Prepared {
  const Case* one = nullptr;
  reports::CaseRecord record;
  std::shared_ptr<Upload> upload;
  backends::PassPlan plan;
  std::unique_ptr<backends::Pass> pass;
  std::shared_ptr<const std::vector<datasets::Matrix>> decoded;  // of lossy codecs: what kernels must reproduce
  std::shared_ptr<const ReferenceProducts> products;             // matmul
  double bound_used = 0;                                         // matmul: in tier 2a
  double estimate_s = 0;
  std::string failed;  // tier 2b after a sample
};

// Cases of one codec with one choice of settings that are to be run.
struct CodecCases {
  CodecChoice choice;
  std::vector<const Case*> cases;
};

class Run {
 public:
  Run(const Experiment& experiment, const RunOptions& options) : experiment_(experiment), options_(options) {}

  RunSummary run() {
    const auto& cases = experiment_.cases;
    for (size_t begin = 0; begin < cases.size() && !stopped();) {
      const size_t end = end_of(begin, [&](const Case& a, const Case& b) { return a.data == b.data; });
      run_dataset(begin, end);
      begin = end;
    }
    summary_.interrupted = stopped();
    return summary_;
  }

 private:
  template <typename Same>
  size_t end_of(size_t begin, Same same) const {
    size_t end = begin;
    while (end < experiment_.cases.size() && same(experiment_.cases[begin], experiment_.cases[end])) ++end;
    return end;
  }

  bool stopped() const { return options_.interrupted(); }
  bool done(const Case& one) const { return options_.done.contains(one.key()); }

  void run_dataset(size_t begin, size_t end) {
    const auto range = std::span(experiment_.cases).subspan(begin, end - begin);
    if (std::all_of(range.begin(), range.end(), [&](const Case& c) { return done(c); })) {
      for (const Case& one : range) skip(one);
      return;
    }
    if (const auto [status, reason] = load(range); status != Status::ok) {
      for (const Case& one : range) {
        if (done(one))
          skip(one);
        else
          finish(one, begin_record(one), status, reason);
      }
      return;
    }
    std::vector<CodecCases> codecs;
    for (size_t i = begin; i < end;) {
      const size_t last = std::min(end, end_of(i, [&](const Case& a, const Case& b) { return a.data == b.data && a.codec == b.codec; }));
      CodecCases one = cases_to_run(std::span(experiment_.cases).subspan(i, last - i));
      if (!one.cases.empty()) codecs.push_back(std::move(one));
      i = last;
    }
    for (size_t i = 0; i < codecs.size() && !stopped();) {
      const auto together = std::span(codecs).subspan(i, codecs_at_once(std::span(codecs).subspan(i)));
      std::vector<CodecChoice> choices;
      for (const CodecCases& one : together) choices.push_back(one.choice);
      std::vector<EncodedLayers> encoded = encode_and_check(choices, dataset_.layers);
      for (size_t k = 0; k < together.size() && !stopped(); ++k) {
        run_codec(together[k], encoded[k]);
        encoded[k] = {};
      }
      i += together.size();
    }
    measure_batch();
  }

  std::pair<Status, std::string> load(std::span<const Case> cases) {
    const DataSpec& data = cases.front().data;
    data_.reset();
    float_reference_ = {};
    largest_batch_ = 0;
    for (const Case& one : cases)
      if (one.kernel.op == backends::Op::matmul && !done(one)) largest_batch_ = std::max(largest_batch_, one.kernel.batch);
    const bool chain_wanted = std::any_of(cases.begin(), cases.end(), [](const Case& c) { return c.kernel.op == backends::Op::matvec; });
    if (std::string reason = lacks_memory(data); !reason.empty()) return {Status::out_of_memory, reason};
    try {
      dataset_ = {};  // the old one first, or both must fit
      dataset_ = load_dataset(data);
      no_product_ = why_no_product(dataset_.layers);
      chain_ = no_product_.empty() && chain_wanted ? compute_reference_chain(dataset_) : ReferenceChain{};
      data_ = describe_data(data, dataset_);
      entropy_ = entropy_of(dataset_);
    } catch (const std::bad_alloc&) {
      return {Status::out_of_memory, "There is no memory for the matrices of " + data.name() + "."};
    } catch (const std::exception& e) {
      return {Status::error, e.what()};
    }
    return {Status::ok, ""};
  }

  // What is left to run of the cases of one codec with one choice of settings; the others get their records.
  CodecCases cases_to_run(std::span<const Case> cases) {
    CodecCases out;
    const auto entry = std::find_if(options_.codecs.begin(), options_.codecs.end(),
                                    [&](const codecs::CodecEntry& e) { return e.id == cases.front().codec.id; });
    for (const Case& one : cases) {
      if (done(one))
        skip(one);
      else if (!one.unavailable.empty())
        finish(one, begin_record(one), Status::unavailable, one.unavailable);
      else if (entry == options_.codecs.end())
        finish(one, begin_record(one), Status::error, "There is no codec '" + one.codec.id + "' in this build.");
      else
        out.cases.push_back(&one);
    }
    if (!out.cases.empty()) out.choice = {&*entry, cases.front().codec.settings};
    return out;
  }

  // How many of these codecs are encoded together: as many as give each thread up to four layers (less leaves many idle at the end:
  // 10 layers of one codec at a time on 16 threads took 13 s of 24) and half of the memory holds.
  size_t codecs_at_once(std::span<const CodecCases> codecs) const {
    const auto layers = static_cast<int64_t>(std::max<size_t>(1, dataset_.layers.size()));
    const int64_t threads = backends::cpu::Team::available_threads(), available = backends::cpu::available_memory_bytes() / 2;
    size_t count = 0;
    int64_t bytes = 0;
    for (const CodecCases& one : codecs) {
      for (const datasets::Matrix& matrix : dataset_.layers) {
        const auto bound = one.choice.entry->codec->max_stored_bytes;
        const auto raw = static_cast<int64_t>(matrix.elements.size());
        bytes += raw + (bound == nullptr ? 2 * raw : bound(codecs::shape_in_bytes(matrix.view()), one.choice.settings));
      }
      if (count > 0 && (static_cast<int64_t>(count + 1) * layers > 4 * threads || bytes > available)) break;
      ++count;
    }
    return count;
  }

  void run_codec(const CodecCases& codec, const EncodedLayers& encoded) {
    uploads_.clear();
    lossy_reference_ = {};
    for (const Case* one : codec.cases) {
      if (stopped()) return;
      reports::CaseRecord record = begin_record(*one);
      if (!encoded.error.empty()) {
        finish(*one, record, Status::error, encoded.error);
      } else if (!encoded.refused.empty()) {
        finish(*one, record, Status::refused, encoded.refused);
      } else if (!encoded.incorrect.empty()) {
        record.check.decode = encoded.incorrect;
        finish(*one, record, Status::incorrect, encoded.incorrect);
      } else {
        record.check.decode = encoded.decode;
        fill_size(record, entropy_, encoded.layers);
        record.size.ideal_bits_per_element = encoded.ideal_bits_per_element;
        try {
          if (one->kernel.op == backends::Op::size) {
            for (const datasets::Matrix& matrix : dataset_.layers) record.time.elements += matrix.shape.elements();
            const std::string wrong = fill_blocks(record, codec.choice, dataset_.layers, encoded.layers);
            finish(*one, record, wrong.empty() ? Status::ok : Status::incorrect, wrong);
          } else if (one->kernel.op == backends::Op::matvec && !no_product_.empty()) {
            finish(*one, record, Status::refused, no_product_);
          } else if (one->kernel.op == backends::Op::matvec && encoded.decoded != nullptr) {
            finish(*one, record, Status::refused, "Products are compared with those of the source, which a lossy codec does not keep.");
          } else {
            prepare_kernel(*one, *codec.choice.entry, encoded, record);
          }
        } catch (const backends::OutOfMemory& e) {
          finish(*one, record, Status::out_of_memory, e.what());
        } catch (const std::bad_alloc&) {
          finish(*one, record, Status::out_of_memory, "The host has no memory left for this case.");
        } catch (const std::exception& e) {
          finish(*one, record, Status::error, e.what());
        }
      }
    }
    uploads_.clear();
  }

  void prepare_kernel(const Case& one, const codecs::CodecEntry& entry, const EncodedLayers& encoded, reports::CaseRecord record) {
    const std::vector<codecs::CompressedMatrix>& layers = encoded.layers;
    backends::Device* device = devices_.find(one.kernel);
    if (device == nullptr) return finish(one, record, Status::unavailable, devices_.reason(one.kernel));
    device->select();
    fill_device(record, *device);
    Prepared prepared;
    prepared.one = &one;
    prepared.decoded = encoded.decoded;
    if (one.kernel.op == backends::Op::matmul) {
      prepared.products = products_for(one, encoded);
      if (!prepared.products->refused.empty()) return finish(one, record, Status::refused, prepared.products->refused);
    }
    prepared.plan = plan_for(one.kernel, entry, chain_);
    if (prepared.products != nullptr) {
      prepared.plan.chained = false;
      prepared.plan.tokens = prepared.products->first_tokens(one.kernel.batch);
    }
    if (prepared.plan.kernel != nullptr && prepared.plan.kernel->refuses != nullptr)
      for (const codecs::CompressedMatrix& layer : layers) {
        const std::string reason = prepared.plan.kernel->refuses(layer.view(), device->info(), prepared.plan.tuning);
        if (!reason.empty()) return finish(one, record, Status::refused, reason);
      }
    prepared.upload = upload(*device, layers);
    for (const auto& matrix : prepared.upload->matrices) prepared.plan.layers.push_back(matrix.get());
    prepared.pass = device->prepare(prepared.plan);
    OutputCheck check = check_every_layer(*prepared.pass, prepared.plan, reference(prepared));
    if (check.fine() && prepared.products != nullptr) {
      const double used = check.bound_used;
      check = check_probes(*device, prepared.plan, *probes_for(one, encoded));
      prepared.bound_used = check.bound_used = std::max(check.bound_used, used);
    }
    fill_check(record, check);
    if (!check.fine()) return finish(one, record, Status::incorrect, check.outputs.empty() ? check.guards : check.outputs);
    if (!options_.time || device->info().emulated) return finish(one, record, Status::ok, "");
    if (batch_.empty()) measure_bandwidth(one.kernel);  // with every batch anew
    if (!is_single_pass(experiment_.measure)) prepared.estimate_s = prepared.pass->run();
    if (prepared.estimate_s > experiment_.measure.max_seconds)
      return finish(one, record, Status::timed_out,
                    fmt::format("One pass takes {:.3g} s, more than the {:.3g} s that a case may take.", prepared.estimate_s,
                                experiment_.measure.max_seconds));
    prepared.record = record;
    batch_seconds_ += std::min(experiment_.measure.max_seconds,
                               experiment_.measure.repetitions * std::max(prepared.estimate_s, 1.5 * experiment_.measure.min_time_s));
    batch_.push_back(std::move(prepared));
    if (batch_seconds_ > options_.batch_seconds || memory_is_short()) measure_batch();
  }

  Reference reference(const Prepared& prepared) const {
    return {prepared.decoded == nullptr ? &dataset_.layers : prepared.decoded.get(), &chain_, prepared.products.get()};
  }

  // Of the source, computed once for its largest batch; of a lossy codec those of what its reference decoder made.
  std::shared_ptr<const ReferenceProducts> products_for(const Case& one, const EncodedLayers& encoded) {
    FloatReference& kept = encoded.decoded == nullptr ? float_reference_ : lossy_reference_;
    if (kept.products == nullptr)
      kept.products = std::make_shared<ReferenceProducts>(compute_reference_products(encoded.decoded == nullptr ? dataset_.layers : *encoded.decoded, one.data.seed, largest_batch_));
    return kept.products;
  }
  std::shared_ptr<const ReferenceProducts> probes_for(const Case& one, const EncodedLayers& encoded) {
    FloatReference& kept = encoded.decoded == nullptr ? float_reference_ : lossy_reference_;
    if (kept.probes == nullptr)
      kept.probes = std::make_shared<ReferenceProducts>(compute_probes(encoded.decoded == nullptr ? dataset_.layers : *encoded.decoded, one.data.seed));
    return kept.probes;
  }

  // A yardstick that cannot be measured costs no case.
  void measure_bandwidth(const KernelSpec& kernel) {
    if (options_.on_bandwidth) try {
        devices_.measure_bandwidth(kernel, options_.run_id, options_.on_bandwidth);
      } catch (const std::exception& e) {
        if (options_.progress != nullptr) *options_.progress << "The read bandwidth was not measured: " << e.what() << "\n";
      }
  }

  void measure_batch() {
    std::vector<TimedPass> timed;
    for (Prepared& prepared : batch_) {
      TimedPass pass;
      pass.name = prepared.one->name();
      pass.pass = prepared.pass.get();
      pass.estimate_s = prepared.estimate_s;
      if (experiment_.verify_each)
        pass.after_sample = [this, &prepared] {
          const OutputCheck check = check_last_pass(*prepared.pass, prepared.plan, reference(prepared));
          if (!check.fine() && prepared.failed.empty()) prepared.failed = check.outputs.empty() ? check.guards : check.outputs;
        };
      timed.push_back(std::move(pass));
    }
    const auto before = device_states();
    if (!timed.empty()) measure_interleaved(timed, experiment_.measure, options_.interrupted);
    const auto after = device_states();
    for (size_t i = 0; i < batch_.size(); ++i) {
      Prepared& prepared = batch_[i];
      if (static_cast<int>(timed[i].samples_s.size()) < timed[i].repetitions && stopped()) continue;  // for a resumed run
      if (!timed[i].error.empty() || timed[i].samples_s.empty()) {
        finish(*prepared.one, prepared.record, Status::error, timed[i].error.empty() ? "No sample was taken." : timed[i].error);
        continue;
      }
      OutputCheck check = check_last_pass(*prepared.pass, prepared.plan, reference(prepared));
      if (!prepared.failed.empty()) check.outputs = prepared.failed;
      check.bound_used = std::max(check.bound_used, prepared.bound_used);
      fill_check(prepared.record, check);
      if (!check.fine()) {
        finish(*prepared.one, prepared.record, Status::incorrect, check.outputs.empty() ? check.guards : check.outputs);
        continue;
      }
      backends::Device& device = *devices_.find(prepared.one->kernel);
      fill_time(prepared.record, timed[i], dataset_, prepared.plan.op, device.info());
      fill_clocks(prepared.record, before.find(device.memory())->second, after.find(device.memory())->second);
      finish(*prepared.one, prepared.record, Status::ok, "");
    }
    batch_.clear();
    batch_seconds_ = 0;
  }

  // What the devices of the batch say of their clocks now, by memory.
  std::map<std::string, backends::DeviceState, std::less<>> device_states() {
    std::map<std::string, backends::DeviceState, std::less<>> states;
    for (const Prepared& prepared : batch_) {
      backends::Device& device = *devices_.find(prepared.one->kernel);
      if (!states.contains(device.memory())) states[std::string(device.memory())] = device.state();
    }
    return states;
  }

  std::shared_ptr<Upload> upload(backends::Device& device, const std::vector<codecs::CompressedMatrix>& layers) {
    std::shared_ptr<Upload>& slot = uploads_[std::string(device.memory())];
    if (slot == nullptr) {
      auto fresh = std::make_shared<Upload>();
      for (const codecs::CompressedMatrix& layer : layers) fresh->matrices.push_back(device.upload(layer));
      slot = std::move(fresh);
    }
    return slot;
  }

  // Another codec of this dataset needs room for an encoded copy and its upload.
  bool memory_is_short() const {
    int64_t raw = 0;
    for (const datasets::Matrix& matrix : dataset_.layers) raw += static_cast<int64_t>(matrix.elements.size());
    return backends::cpu::available_memory_bytes() < 3 * raw + (int64_t{1} << 30);
  }

  reports::CaseRecord begin_record(const Case& one) const {
    reports::CaseRecord record = describe_case(one, experiment_.name, options_.run_id);
    if (data_) record.data = *data_;
    return record;
  }

  void skip(const Case&) { ++summary_.skipped; ++finished_; }

  void finish(const Case& one, reports::CaseRecord record, Status status, std::string reason) {
    record.status = status;
    record.reason = std::move(reason);
    ++summary_.counts[status];
    ++finished_;
    if (options_.on_case) options_.on_case(record);
    if (options_.progress != nullptr) print_progress(one, record);
  }

  void print_progress(const Case& one, const reports::CaseRecord& record) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const auto ran = static_cast<double>(finished_ - summary_.skipped);
    const double left = elapsed / ran * static_cast<double>(experiment_.cases.size() - finished_);
    std::string result(reports::to_string(record.status));
    if (record.status == Status::ok && record.time.median_s > 0)
      result = fmt::format("{:.2f} G elements/s, {:.3f} bits", record.time.elements / record.time.median_s * 1e-9, record.size.bits_per_element);
    else if (record.status == Status::ok && record.kernel.op == "size")
      result = fmt::format("{:.4f} bits, {}", record.size.bits_per_element, record.check.decode);
    else if (!record.reason.empty())
      result += ": " + record.reason;
    *options_.progress << fmt::format("[{}/{}] {}: {} (elapsed {:.0f} s, about {:.0f} s left)\n", finished_, experiment_.cases.size(),
                                      one.name(), result, elapsed, left);
    options_.progress->flush();
  }

  const Experiment& experiment_;
  const RunOptions& options_;
  RunSummary summary_;
  DevicePool devices_;
  datasets::Dataset dataset_;
  ReferenceChain chain_;
  std::string no_product_;  // why these matrices have no int8 products; "" if they have
  int largest_batch_ = 0;   // of the dataset's matmuls
  struct FloatReference {
    std::shared_ptr<const ReferenceProducts> products, probes;
  };
  FloatReference float_reference_, lossy_reference_;  // of the source; of the codec in hand
  std::optional<reports::CaseRecord::Data> data_;
  double entropy_ = 0;
  std::map<std::string, std::shared_ptr<Upload>> uploads_;  // of the codec in hand, by memory
  std::vector<Prepared> batch_;
  double batch_seconds_ = 0;
  size_t finished_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

int RunSummary::exit_code() const {
  const auto count = [&](Status status) {
    const auto it = counts.find(status);
    return it == counts.end() ? 0 : it->second;
  };
  if (interrupted) return 130;
  if (count(Status::incorrect) > 0) return 3;
  if (count(Status::error) + count(Status::timed_out) + count(Status::out_of_memory) > 0) return 5;
  if (count(Status::ok) + skipped == 0) return 6;
  return 0;
}

RunSummary run_experiment(const Experiment& experiment, const RunOptions& options) { return Run(experiment, options).run(); }

}  // namespace ecmv::experiments
