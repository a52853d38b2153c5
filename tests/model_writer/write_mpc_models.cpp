// write_mpc_models > codecs/mpc/seen_models.inc: trains the supplied models on the seen workloads. New models are new
// stored bytes, so they need a new format_version.
#include <cstdio>
#include <cstring>

#include "tests/model_writer/seen_training.h"

using namespace ecmv;

int main(int argc, char** argv) {
  constexpr size_t kDigitsALine = 120;
  for (const codecs::mpc::Model& model : tests::train_on_seen_workloads()) {
    const std::string text = codecs::mpc::model_text(model);
    for (size_t at = 0; at < text.size(); at += kDigitsALine)
      std::printf("    \"%s\"%s\n", text.substr(at, kDigitsALine).c_str(), at + kDigitsALine >= text.size() ? "," : "");
    if (argc > 1 && std::strcmp(argv[1], "--describe") == 0) {
      std::fprintf(stderr, "root %d, bases (shifts):", model.root);
      for (int i = 0; i < codecs::mpc::kBytes; ++i)
        std::fprintf(stderr, " %d:%d(%d)", i, model.base[i], model.shift[i]);
      std::fprintf(stderr, "\n");
    }
  }
  return 0;
}
