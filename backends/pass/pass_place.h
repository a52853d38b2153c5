// Memory of a pass's bindings; see the rule in kernel.h.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/executor.h"

namespace ecmv::backends {

class PassPlace final : public Place {
 public:
  explicit PassPlace(Executor& executor) : executor_(executor) {}
  // The next binding covers `layers` layers.
  void begin(size_t layers) { left_ = kDescriptionBytes * static_cast<int64_t>(layers); }
  const DeviceInfo& device() const override { return executor_.device(); }
  const std::byte* describe(std::span<const std::byte> bytes) override {
    left_ -= static_cast<int64_t>(bytes.size());
    if (left_ < 0)
      throw std::logic_error("The kernel describes a layer in more than " + std::to_string(kDescriptionBytes) +
                             " bytes: tables belong to the sections, where they are counted.");
    descriptions_.push_back({executor_.allocate(static_cast<int64_t>(bytes.size()), "the descriptions of the layers"),
                             {bytes.begin(), bytes.end()}});
    descriptions_.back().buffer->write(bytes, 0);
    return descriptions_.back().buffer->data();
  }
  std::byte* zeroed(int64_t bytes) override {
    zeroed_.push_back(executor_.allocate(bytes, "the memory that blocks talk through"));
    return zeroed_.back()->data();
  }
  void zero() const {
    for (const auto& buffer : zeroed_) buffer->fill(0, buffer->size());
  }
  // The same as steps.
  std::vector<Step> zero_fills() const {
    std::vector<Step> fills;
    for (const auto& buffer : zeroed_)
      if (buffer->size() > 0) fills.push_back(Fill{buffer->data(), 0, buffer->size()});
    return fills;
  }
  std::string broken() const {
    for (const auto& buffer : zeroed_)
      if (!buffer->guards_intact()) return "The kernel wrote outside the memory that its blocks talk through.";
    std::vector<std::byte> copy;
    for (const Description& one : descriptions_)
      if (!one.buffer->guards_intact() || !std::ranges::equal(one.buffer->view(one.buffer->size(), copy), one.bytes))
        return "The kernel wrote to the descriptions of its layers.";
    return {};
  }

 private:
  struct Description {
    std::unique_ptr<Buffer> buffer;
    std::vector<std::byte> bytes;
  };
  Executor& executor_;
  int64_t left_ = 0;
  std::vector<Description> descriptions_;
  std::vector<std::unique_ptr<Buffer>> zeroed_;
};

}  // namespace ecmv::backends
