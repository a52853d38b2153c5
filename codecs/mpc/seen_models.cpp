// The five models that come along, and models as text.
#include "codecs/mpc/format.h"

namespace ecmv::codecs::mpc {
namespace {

// Trained on the seen workloads. write_mpc_models (tests/model_writer) wrote them, and a test compares them with it.
constexpr std::string_view kTexts[kModels] = {
#include "codecs/mpc/seen_models.inc"
};

}  // namespace

std::string model_text(const Model& model) {
  modelling::BitWriter out;
  write_model(model, out);
  std::string text;
  for (const std::byte byte : out.finish())
    for (const int shift : {4, 0}) text += "0123456789abcdef"[std::to_integer<int>(byte) >> shift & 15];
  return text;
}

Model model_from_text(std::string_view text) {
  std::vector<std::byte> bytes(text.size() / 2);
  const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  modelling::BitReader in(bytes);
  return read_model(in);
}

Models seen_models() {
  Models models;
  for (int i = 0; i < kModels; ++i) models[i].emplace(model_from_text(kTexts[i]));
  return models;
}

}  // namespace ecmv::codecs::mpc
