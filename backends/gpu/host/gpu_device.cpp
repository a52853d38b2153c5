// See gpu_device.h.
#include "backends/gpu/host/gpu_device.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "backends/gpu/host/device_kernels.h"
#include "backends/gpu/host/device_ranks.h"
#include "backends/gpu/host/discovery.h"
#include "backends/gpu/host/gpu_buffer.h"
#include "backends/gpu/host/gpu_executor.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

class GpuMatrix final : public UploadedMatrix {
 public:
  GpuMatrix(const CompressedMatrix& matrix, int index) : index_(index), settings_(matrix.settings) {
    activate(index_);
    view_ = matrix.view();
    view_.settings = &settings_;
    for (SectionView& section : view_.sections) {
      const GpuBuffer& buffer = add_buffer(section);
      buffer.write(section.bytes);
      hashes_.push_back(hash_of(section.bytes));
      section.host = {};
      if (section.bytes.size() <= kHostCopyBytes) keep_on_host(section, section.bytes);
      section.bytes = {buffer.data(), section.bytes.size()};
    }
  }
  // A copy in memory of its own. The host's memory is far, and large models are made of many copies.
  GpuMatrix(const GpuMatrix& first) : index_(first.index_), settings_(first.settings_), hashes_(first.hashes_) {
    activate(index_);
    view_ = first.view_;
    view_.settings = &settings_;
    for (SectionView& section : view_.sections) {
      const GpuBuffer& buffer = add_buffer(section);
      copy_within(buffer.data(), section.bytes.data(), buffer.size());
      if (!section.host.empty()) keep_on_host(section, section.host);
      section.bytes = {buffer.data(), section.bytes.size()};
    }
  }
  GpuMatrix& operator=(const GpuMatrix&) = delete;
  const CompressedView& view() const override { return view_; }
  std::string broken_guards() const override {
    activate(index_);
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (!buffers_[i].guards_intact())
        return "The kernel wrote outside the section '" + std::string(view_.sections[i].name) + "'.";
    return {};
  }
  std::string changed_sections() const override {
    activate(index_);
    std::vector<std::byte> copy;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      copy.resize(static_cast<size_t>(buffers_[i].size()));
      buffers_[i].read(copy);
      if (hash_of(copy) != hashes_[i]) return changed_section(view_.sections[i].name);
    }
    return {};
  }

  void invert_payload(size_t first, size_t step) const override {
    activate(index_);
    std::vector<std::byte> copy;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (view_.sections[i].role != Role::payload) continue;
      copy.resize(static_cast<size_t>(buffers_[i].size()));
      buffers_[i].read(copy);
      invert_bytes(copy, first, step);
      buffers_[i].write(copy);
    }
  }

 private:
  const GpuBuffer& add_buffer(const SectionView& section) {
    return buffers_.emplace_back(static_cast<int64_t>(section.bytes.size()),
                                 "the section '" + std::string(section.name) + "'");
  }
  void keep_on_host(SectionView& section, std::span<const std::byte> bytes) {
    small_.emplace_back(bytes.begin(), bytes.end());
    section.host = small_.back();
  }

  int index_;
  Settings settings_;
  CompressedView view_;
  std::vector<GpuBuffer> buffers_;
  std::vector<uint64_t> hashes_;
  std::deque<std::vector<std::byte>> small_;  // the bytes that section.host shows
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class GpuDevice final : public Device {
 public:
  GpuDevice(DeviceInfo info, int index)
      : info_(std::move(info)), index_(index), memory_(info_.backend + ":" + std::to_string(index)) {}
  const DeviceInfo& info() const override { return info_; }
  std::string_view memory() const override { return memory_; }
  void select() override { activate(index_); }
  std::vector<std::unique_ptr<UploadedMatrix>> upload_layer(std::span<const CompressedMatrix> parts, const LayerSplit&,
                                                            size_t copies) override {
    const GpuMatrix* first = nullptr;
    return upload_whole(parts, copies, [&](const CompressedMatrix& matrix) {
      auto upload =
          first == nullptr ? std::make_unique<GpuMatrix>(matrix, index_) : std::make_unique<GpuMatrix>(*first);
      if (first == nullptr) first = upload.get();
      return upload;
    });
  }
  std::unique_ptr<Buffer> copy_of(std::span<const std::byte> bytes) override {
    // Left free for modules, graphs and work space of libraries, which allocate when they are first used.
    constexpr int64_t kSpareBytes = int64_t{1} << 30;
    select();
    const auto size = static_cast<int64_t>(bytes.size());
    if (free_bytes() - size < kSpareBytes)
      throw OutOfMemory("The device has no room for a copy of " + std::to_string(size) + " bytes.");
    auto copy = make_buffer(size, "the bytes that are expected", index_);
    copy->write(bytes, 0);
    return copy;
  }
  std::unique_ptr<Executor> executor(bool graph) override { return make_executor(info_, index_, graph); }
  void reset_persisting_lines() override {
    select();
    gpu::reset_persisting_lines();
  }
  DeviceState state() override { return read_state(index_); }
  double joules() override { return read_joules(index_); }
  std::unique_ptr<Ranks> join(const RanksRequest& request) override {
    select();
    return join_devices(request, info_);
  }
  std::string link_to(int other) override { return link_between(index_, other); }
  int64_t free_memory() override {
    select();
    return info_.emulated ? -1 : free_bytes();
  }

  // The fastest of several ways to read. A sample is the mean of a few reads, so that the gap before a launch does not
  // count.
  std::vector<double> time_reads(int64_t bytes, int repetitions) override {
    constexpr int kReads = 8;
    select();
    bytes = (bytes + 15) / 16 * 16;
    const GpuBuffer buffer(bytes, "the memory that is read"), sum(sizeof(uint32_t), "the sum");
    fill(buffer.data(), 0x5A, bytes);
    Stream stream(info_.wave_size);
    Timer timer;
    std::vector<double> best;
    for (int form = 0; form < kReadForms; ++form) {
      std::vector<double> seconds;
      for (int i = 0; i < repetitions + 1; ++i) {
        fill(sum.data(), 0, sum.size());
        timer.start(stream);
        for (int read = 0; read < kReads; ++read)
          read_all(buffer.data(), bytes, sum.as<uint32_t>(), form, info_, stream.opaque());
        timer.stop(stream);
        const double elapsed = timer.seconds(stream) / kReads;
        uint32_t total = 0;
        sum.read(std::as_writable_bytes(std::span(&total, 1)));
        if (total != static_cast<uint32_t>(uint64_t{0x5A5A5A5A} * static_cast<uint64_t>(bytes / 4) * kReads))
          throw std::logic_error("The read-bandwidth kernel lost bytes.");
        if (i > 0) seconds.push_back(elapsed);  // the first one warms up
      }
      if (best.empty() || median(seconds) < median(best)) best = seconds;
    }
    return best;
  }

 private:
  DeviceInfo info_;
  int index_;
  std::string memory_;
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceRequest& request) {
  const std::vector<DeviceInfo> devices = discover();
  std::string known, reasons;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i];
    const bool meant = request.index < 0 || request.index == static_cast<int>(i);
    if (info.unavailable.empty() && meant && (request.simd_target.empty() || request.simd_target == info.simd_target))
      return std::make_unique<GpuDevice>(info, static_cast<int>(i));
    if (info.unavailable.empty())
      known += (known.empty() ? "" : ", ") + std::to_string(i) + " (" + info.simd_target + ")";
    else
      reasons += " " + info.unavailable;
  }
  if (known.empty()) throw std::invalid_argument(devices.front().unavailable);
  std::string number;
  if (request.index >= 0) number.append(" ").append(std::to_string(request.index));
  const std::string target = request.simd_target.empty() ? "" : " '" + request.simd_target + "'";
  throw std::invalid_argument("There is no device" + number + target + " here; there are: " + known + "." + reasons);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
