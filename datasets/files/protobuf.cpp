// See protobuf.h.
#include "datasets/files/protobuf.h"

namespace ecmv::datasets {

std::optional<uint64_t> ProtobufReader::varint(std::span<const std::byte>& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    value |= uint64_t(bytes[i] & std::byte{127}) << (7 * i);
    if ((bytes[i] & std::byte{128}) != std::byte{0}) continue;
    bytes = bytes.subspan(i + 1);
    return value;
  }
  return std::nullopt;
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (left_.empty() || malformed_) return std::nullopt;
  malformed_ = true;  // until the field is whole
  const std::optional<uint64_t> tag = varint(left_);
  if (!tag || *tag >> 32 != 0 || *tag >> 3 == 0) return std::nullopt;
  ProtobufField field;
  field.number = uint32_t(*tag >> 3);
  field.type = ProtobufField::Type(*tag & 7);
  uint64_t length = 0;
  switch (field.type) {
    case ProtobufField::varint: {
      const std::optional<uint64_t> value = varint(left_);
      if (!value) return std::nullopt;
      field.value = *value;
      break;
    }
    case ProtobufField::fixed64: length = 8; break;
    case ProtobufField::fixed32: length = 4; break;
    case ProtobufField::bytes: {
      const std::optional<uint64_t> value = varint(left_);
      if (!value) return std::nullopt;
      length = *value;
      break;
    }
    default: return std::nullopt;  // groups, which nobody writes any more
  }
  if (length > left_.size()) return std::nullopt;
  field.run = left_.first(size_t(length));
  left_ = left_.subspan(size_t(length));
  malformed_ = false;
  return field;
}

}  // namespace ecmv::datasets
