// A target under libFuzzer. `fuzz_NAME --seeds=FOLDER` writes the seeds there instead, each by a number.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"

using namespace ecmv::tests;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string option = *argc > 1 ? (*argv)[1] : "", prefix = "--seeds=";
  if (!option.starts_with(prefix)) return 0;
  const std::filesystem::path folder = option.substr(prefix.size());
  std::filesystem::create_directories(folder);
  const std::vector<fuzz::Bytes> seeds = fuzz::seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(folder / std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seeds[i].data()), static_cast<std::streamsize>(seeds[i].size()));
    if (!file.flush()) fuzz::broken("The seeds can be written to " + folder.string());
  }
  std::exit(seeds.empty() ? 1 : 0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::try_input({data, size});
  return 0;
}
