// See cpu_device.h.
#include "backends/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "backends/cpu/cpu_executor.h"
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/crew.h"
#include "backends/cpu/energy.h"
#include "backends/cpu/guarded_buffer.h"
#include "backends/cpu/team.h"

#include "backends/cpu/products/dense_matmul.h"
#include "backends/cpu/products/dense_matvec.h"
#include "hwy/targets.h"

namespace ecmv::backends::cpu {
namespace {

class CpuMatrix final : public UploadedMatrix {
 public:
  explicit CpuMatrix(const CompressedMatrix& matrix) : settings_(matrix.settings) {
    view_ = matrix.view();
    view_.settings = &settings_;
    for (SectionView& section : view_.sections) {
      GuardedBuffer buffer(static_cast<int64_t>(section.bytes.size()));
      if (!section.bytes.empty()) std::memcpy(buffer.data(), section.bytes.data(), section.bytes.size());
      hashes_.push_back(hash_of(section.bytes));
      section.bytes = section.host = buffer.bytes();
      buffer.protect();
      buffers_.push_back(std::move(buffer));
    }
  }
  const CompressedView& view() const override { return view_; }
  std::string broken_guards() const override {
    std::string broken;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      std::string_view where = buffers_[i].take_back_writes();
      if (where.empty() && !buffers_[i].guards_intact()) where = "outside";
      if (broken.empty() && !where.empty())
        broken =
            "The kernel wrote " + std::string(where) + " the section '" + std::string(view_.sections[i].name) + "'.";
    }
    return broken;
  }
  std::string changed_sections() const override {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (hash_of(buffers_[i].bytes()) != hashes_[i]) return changed_section(view_.sections[i].name);
    return {};
  }

 private:
  Settings settings_;
  CompressedView view_;
  std::vector<GuardedBuffer> buffers_;
  std::vector<uint64_t> hashes_;
};

class CpuDevice final : public Device {
 public:
  // `target` is Highway's bit of the instruction set, 0 for the scalar backend.
  CpuDevice(DeviceInfo info, DenseProducts dense, int64_t target, std::vector<int> cores)
      : info_(std::move(info)), dense_(dense), target_(target), cores_(std::move(cores)) {}
  const DeviceInfo& info() const override { return info_; }
  std::string_view memory() const override { return "host"; }
  void select() override { select_target(target_); }
  std::vector<std::unique_ptr<UploadedMatrix>> upload_layer(std::span<const CompressedMatrix> parts, const LayerSplit&,
                                                            size_t copies) override {
    return upload_whole(parts, copies,
                        [](const CompressedMatrix& matrix) { return std::make_unique<CpuMatrix>(matrix); });
  }
  std::unique_ptr<Executor> executor(bool /*graph*/) override { return make_executor(info_, dense_, target_, cores_); }

  // Every thread reads one contiguous part. The fastest method gives the machine's read bandwidth.
  std::vector<double> time_reads(int64_t bytes, int repetitions) override {
    select();
    GuardedBuffer buffer(bytes);
    std::memset(buffer.data(), 0x5A, bytes);
    const std::shared_ptr<Crew> crew = Crew::of(info_.threads, cores_);
    std::vector<double> best;
    for (int method = 0; method < kReadMethods; ++method) {
      std::vector<double> seconds;
      for (int i = 0; i < repetitions + 1; ++i) {
        std::vector<uint64_t> sums(info_.threads);
        const auto start = std::chrono::steady_clock::now();
        crew->run([&](int thread) {
          const int64_t begin = bytes * thread / info_.threads, end = bytes * (thread + 1) / info_.threads;
          sums[thread] = read_all_simd(buffer.as<uint8_t>() + begin, end - begin, method);
        });
        const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        uint64_t total = 0;
        for (uint64_t sum : sums) total += sum;
        if (total != 0x5A * static_cast<uint64_t>(bytes)) throw std::logic_error("The read-bandwidth loop lost bytes.");
        if (i > 0) seconds.push_back(elapsed);  // the first one warms up
      }
      if (best.empty() || median(seconds) < median(best)) best = seconds;
    }
    return best;
  }

  double joules() override { return package_joules(); }

 private:
  static double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  }
  DeviceInfo info_;
  DenseProducts dense_;
  int64_t target_;
  std::vector<int> cores_;
};

DeviceInfo describe(std::string_view backend, int threads) {
  if (threads < 0) throw std::invalid_argument("The number of threads must be at least 1.");
  DeviceInfo info = describe_cpu();
  info.backend = backend;
  info.threads = threads == 0 ? Team::available_threads() : threads;
  if (const std::string reason = Team::why_not(info.threads); !reason.empty()) throw std::invalid_argument(reason);
  return info;
}

}  // namespace

std::vector<DeviceInfo> scalar_devices() { return {describe("scalar", 0)}; }

std::unique_ptr<Device> open_scalar(const DeviceRequest& request) {
  return std::make_unique<CpuDevice>(describe("scalar", request.threads),
                                     DenseProducts{dense_matvec_scalar, dense_matmul_scalar, false}, 0, request.cores);
}

std::vector<DeviceInfo> simd_devices() {
  select_target(0);
  const int64_t supported = hwy::SupportedTargets();
  std::vector<DeviceInfo> devices;
  // In a family of instruction sets Highway gives the better ones lower bits.
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((HWY_TARGETS & target) == 0) continue;
    DeviceInfo info = describe("simd", 0);
    info.simd_target = hwy::TargetName(target);
    if ((supported & target) == 0) info.unavailable = "This CPU lacks the instruction set " + info.simd_target + ".";
    devices.push_back(info);
  }
  return devices;
}

std::unique_ptr<Device> open_simd(const DeviceRequest& request) {
  for (DeviceInfo& info : simd_devices()) {
    if (!request.simd_target.empty() && request.simd_target != info.simd_target) continue;
    if (!info.unavailable.empty()) {
      if (request.simd_target.empty()) continue;
      throw std::invalid_argument(info.unavailable);
    }
    int64_t target = 0;
    for (int bit = 0; bit < 63; ++bit)
      if ((HWY_TARGETS >> bit & 1) != 0 && info.simd_target == hwy::TargetName(int64_t{1} << bit))
        target = int64_t{1} << bit;
    info.threads = describe("simd", request.threads).threads;
    return std::make_unique<CpuDevice>(std::move(info), DenseProducts{dense_matvec_simd, dense_matmul_simd, true},
                                       target, request.cores);
  }
  std::string known;
  for (const DeviceInfo& info : simd_devices()) known += (known.empty() ? "" : ", ") + info.simd_target;
  throw std::invalid_argument("There is no instruction set '" + request.simd_target +
                              "' in this build; there are: " + known + ".");
}

}  // namespace ecmv::backends::cpu
