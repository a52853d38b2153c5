// nvcomp: the yardstick of decoding on NVIDIA's devices, the library nvCOMP, opened at run time. It works on a device
// only, so encoder and reference decoder need one, too; without it every matrix that has elements is refused.
#include <stdexcept>
#include <string>

#include "codecs/codec.h"
#include "codecs/modelling/bytes.h"
#include "codecs/nvcomp/format.h"
#include "codecs/nvcomp/on_device.h"

namespace ecmv::codecs::nvcomp {
namespace {

std::string unavailable() { return library().missing.empty() ? device_missing() : library().missing; }

// Why this method cannot be called here, as a sentence; "" if it can.
std::string lacking(Method method) {
  std::string reason = unavailable();
  return reason.empty() ? library().calls(method).missing : reason;
}

// A matrix without elements has no chunk and needs neither library nor device.
std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  if (matrix.shape.elements() == 0) return "";
  if (std::string reason = lacking(method_of(settings)); !reason.empty()) return reason;
  const bool states = settings.integer("states") != 0;
  return states && method_of(settings) != Method::ans ? "Of nvCOMP's methods only ANS has states." : "";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Cut cut(static_cast<int64_t>(matrix.elements.size()), settings);
  Compressed made;
  if (cut.chunks() > 0)
    made = compress(method_of(settings), compress_options(settings, matrix.type), cut, matrix.elements);
  std::vector<std::byte> ends, hash;
  for (const uint64_t end : made.ends) modelling::append<uint64_t>(ends, end);
  modelling::append<uint64_t>(hash, hash_of(made.payload, ends));

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"payload", Role::payload, 64, std::move(made.payload), made.padding_bytes});
  compressed.sections.push_back({"ends", Role::index, 8, std::move(ends)});
  compressed.sections.push_back({"hash", Role::index, 8, std::move(hash)});
  return compressed;
}

// The ends of all chunks, each checked against the range it may be in.
std::vector<uint64_t> checked_ends(const CompressedView& view, const Cut& cut) {
  const auto count = static_cast<size_t>(cut.chunks());
  if (view.sections.size() != 3 || view.sections[kEnds].bytes.size() != sizeof(uint64_t) * count ||
      view.sections[kHash].bytes.size() != sizeof(uint64_t))
    throw MalformedStream("The sections of the stream do not fit its shape.");
  const std::span<const std::byte> payload = view.sections[kPayload].bytes, stored = view.sections[kEnds].bytes;
  std::vector<uint64_t> ends;
  uint64_t begin = 0, end = 0;
  for (size_t chunk = 0; chunk < count; ++chunk) {
    end = modelling::load<uint64_t>(stored, sizeof(uint64_t) * chunk);
    if (end <= begin || end > payload.size())
      throw MalformedStream("Chunk " + std::to_string(chunk) + " of the stream has no place in its payload.");
    ends.push_back(end);
    begin = static_cast<uint64_t>(round_up(static_cast<int64_t>(end), kChunkAlignBytes));
  }
  if (end != payload.size()) throw MalformedStream("The chunks of the stream do not fill its payload.");
  if (modelling::load<uint64_t>(view.sections[kHash].bytes, 0) != hash_of(payload, stored))
    throw MalformedStream("The stream is damaged: its hash is another one than is stored.");
  return ends;
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  const Cut cut(static_cast<int64_t>(out.size()), *view.settings);
  const std::vector<uint64_t> ends = checked_ends(view, cut);
  if (ends.empty()) return;
  const Method method = method_of(*view.settings);
  if (const std::string reason = lacking(method); !reason.empty())
    throw std::runtime_error("Only nvCOMP decodes this stream. " + reason);
  decompress(method, decompress_options(*view.settings, view.type, false), cut, view.sections[kPayload].bytes, ends,
             out);
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Cut cut(shape.elements(), settings);
  const auto of_index = static_cast<int64_t>(sizeof(uint64_t));
  if (cut.chunks() == 0) return of_index;
  if (const std::string reason = lacking(method_of(settings)); !reason.empty()) throw std::runtime_error(reason);
  size_t most = 0;
  for (auto type = datasets::ElementType::i8; type <= datasets::ElementType::f8_e4m3;
       type = static_cast<datasets::ElementType>(static_cast<int>(type) + 1)) {
    size_t of_type = 0;
    if (const int status = library()
                               .calls(method_of(settings))
                               .most_bytes(static_cast<size_t>(cut.most()), compress_options(settings, type), &of_type);
        status != 0)
      throw std::runtime_error(library().failed("say how long chunks become", status));
    most = std::max(most, of_type);
  }
  return cut.chunks() * (round_up(static_cast<int64_t>(most), kChunkAlignBytes) + of_index) + of_index;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "nvCOMP's ANS and its other methods on NVIDIA devices, a yardstick",
      .source = "NVIDIA nvCOMP, through its library (version 6)",
      .portable_bytes = false,
      .settings = {choice_setting("method", "which of nvCOMP's methods compresses the chunks", "ans",
                                  {"ans", "bitcomp", "gdeflate", "lz4", "zstd"}),
                   number_setting("chunk_kib", "KiB",
                                  "bytes that are compressed together; a larger chunk has one table for more of them",
                                  64, 1, 16384),
                   value_setting("states", "",
                                 "of ANS: coder states a lane, 1 is smaller and 2 faster; 0: as the library likes", 0,
                                 {0, 1, 2})},
      .unavailable = unavailable,
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::nvcomp
