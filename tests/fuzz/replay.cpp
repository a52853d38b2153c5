// A target without libFuzzer: every kept input, every seed, and seeds with damage by a fixed pseudo-random sequence.
//   replay_NAME FOLDER DAMAGED    the folder of the kept inputs (there may be none), how many seeds to damage
//   replay_NAME FILE              one input
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/target.h"
#include "tests/test_matrices.h"

using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

fuzz::Bytes bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Copies the input to memory of exactly its size, so that a sanitizer sees reads past its end.
void try_copy(fuzz::Bytes input) {
  input.shrink_to_fit();
  fuzz::try_input(input);
}

// Makes one to four changes: bytes replaced, removed or inserted, or the end cut off. Half of them are among the first
// 64 bytes, where headers are.
fuzz::Bytes damaged(fuzz::Bytes input, Random& random) {
  for (uint64_t changes = 1 + random.next() % 4; changes > 0 && !input.empty(); --changes) {
    const size_t range = random.next() % 2 == 0 ? input.size() : std::min<size_t>(input.size(), 64);
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(random.next() % range);
    switch (random.next() % 8) {
      case 0:
        input.erase(place, std::min(place + 1 + static_cast<std::ptrdiff_t>(random.next() % 8), input.end()));
        break;
      case 1: input.insert(place, 1 + random.next() % 8, static_cast<uint8_t>(random.next())); break;
      case 2: input.erase(place, input.end()); break;
      case 3:
      case 4: *place ^= static_cast<uint8_t>(1u << random.next() % 8); break;
      default: *place = static_cast<uint8_t>(random.next());
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (fs::is_regular_file(argv[1])) {
    try_copy(bytes_of(argv[1]));
    std::cout << argv[1] << " is answered\n";
    return 0;
  }
  std::vector<fs::path> kept;
  if (fs::is_directory(argv[1]))
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[1])) kept.push_back(entry.path());
  std::ranges::sort(kept);
  for (const fs::path& path : kept) {
    std::cout << "kept input " << path.filename().string() << std::endl;  // before the input ends the process
    try_copy(bytes_of(path));
  }
  const std::vector<fuzz::Bytes> seeds = fuzz::seeds();
  for (const fuzz::Bytes& seed : seeds) try_copy(seed);
  const int inputs = argc > 2 ? std::atoi(argv[2]) : 3000;
  Random random{2026};
  for (int i = 0; i < inputs && !seeds.empty(); ++i) try_copy(damaged(seeds[random.next() % seeds.size()], random));
  std::cout << kept.size() << " kept inputs, " << seeds.size() << " seeds and " << inputs
            << " damaged ones, every one answered\n";
  return seeds.empty() ? 1 : 0;
}
