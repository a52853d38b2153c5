// CompressedMatrix: a matrix as a codec stores it, in named sections with a role each. So upload, size accounting and
// the picture of sizes by role are the same for every codec. Every byte that a kernel may read lies in `bytes` of some
// section, padding included, and is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::backends {

// Resolved settings of a codec: every setting that it declares, with its value. Asking for an undeclared name or type
// throws std::logic_error, since that is a defect of the codec and not of its input.
using SettingValue = std::variant<int64_t, std::string>;
class Settings {
 public:
  void set(std::string name, SettingValue value) { values_[std::move(name)] = std::move(value); }
  int64_t integer(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::map<std::string, SettingValue, std::less<>>& values() const { return values_; }
  // "lanes=32,prob_bits=12": names in alphabetical order.
  std::string to_string() const;
  friend bool operator==(const Settings&, const Settings&) = default;

 private:
  std::map<std::string, SettingValue, std::less<>> values_;
};

enum class Role : uint8_t { payload, table, index, scale };
std::string_view role_name(Role role);

struct Section {
  std::string_view name;  // a literal of the codec
  Role role = Role::payload;
  uint32_t align_bytes = 64;     // every device upholds at least this alignment of the first byte
  std::vector<std::byte> bytes;  // padding included
  // Bytes of `bytes` that carry nothing, rounded down: alignment, the bytes that kernels may load past the end, lanes
  // and lines filled up to the longest, and filler for rows, columns and symbols that do not exist. Conformance tests
  // look for filler that is not declared.
  int64_t padding_bytes = 0;
};

struct SectionView {
  std::string_view name;
  Role role = Role::payload;
  std::span<const std::byte> bytes;  // host memory, or device memory once uploaded there
  // The same bytes in host memory, so that a launch can read a header. Empty for sections on a device that are larger
  // than kHostCopyBytes.
  std::span<const std::byte> host;
};
inline constexpr size_t kHostCopyBytes = 256;

// A compressed matrix that is owned elsewhere, with its sections in the order in which the codec made them.
struct CompressedView {
  datasets::Shape shape;
  datasets::ElementType type = datasets::ElementType::i8;
  const Settings* settings = nullptr;
  std::vector<SectionView> sections;
};

struct CompressedMatrix {
  std::string codec;
  uint32_t format_version = 0;
  Settings settings;
  datasets::Shape shape;
  datasets::ElementType type = datasets::ElementType::i8;
  uint64_t source_hash = 0;
  std::vector<Section> sections;

  int64_t stored_bytes() const;
  int64_t stored_bytes(Role role) const;
  int64_t padding_bytes() const;  // contained in stored_bytes()
  CompressedView view() const;    // valid while *this lives and is not changed
};

}  // namespace ecmv::backends
