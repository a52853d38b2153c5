// The wire format of protobuf, as far as a reader of stored messages needs it: numbered fields, each with a number of
// variable length, 4 or 8 bytes, or a run of bytes (a message, a text or packed numbers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ecmv::datasets {

struct ProtobufField {
  enum Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint32_t number = 0;
  Type type = varint;
  uint64_t value = 0;                // of a varint
  std::span<const std::byte> run{};  // of the others
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::span<const std::byte> message) : left_(message) {}

  // The next field. Nothing at the end, or if the bytes are no field; then malformed() is true.
  std::optional<ProtobufField> next();
  bool malformed() const { return malformed_; }

  // Takes a number of variable length off the beginning of `bytes`; nothing if there is none.
  static std::optional<uint64_t> varint(std::span<const std::byte>& bytes);

 private:
  std::span<const std::byte> left_;
  bool malformed_ = false;
};

}  // namespace ecmv::datasets
