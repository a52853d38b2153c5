// write_golden CODEC...: freezes the streams of the current format version of these codecs (all without arguments). For
// an existing version it only adds streams of new matrices: a changed byte needs a new version number.
#include <fstream>
#include <iostream>

#include "tests/golden_streams.h"

using namespace ecmv;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("Cannot write " + path.string() + ".");
}

// False if all streams were there.
bool freeze(const codecs::CodecEntry& entry) {
  const fs::path folder = tests::golden_folder(entry, entry.codec->format_version);
  fs::create_directories(folder);
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  int added = 0;
  const auto add = [&](const fs::path& path, const auto& bytes) {
    if (fs::exists(path)) return;
    write(path, bytes());
    std::cout << path.string() << "\n";
    ++added;
  };
  for (const datasets::Matrix& matrix : tests::golden_matrices(entry))
    if (entry.codec->refuses(matrix.view(), settings).empty())
      add(folder / (tests::golden_name(matrix) + ".safetensors"),
          [&] { return tests::to_golden(codecs::encode_matrix(entry, matrix.view(), settings)); });
  std::string csv;
  add(folder / "sizes.csv", [&] {
    for (const std::string& line : tests::size_lines(entry)) csv += line + "\n";
    return std::as_bytes(std::span(csv));
  });
  if (added == 0) std::cerr << folder.string() << " has all streams; a changed one needs a new format_version.\n";
  return added > 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool fine = true;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || entry.id == argv[i];
    if (wanted) fine = freeze(entry) && fine;
  }
  return fine ? 0 : 1;
}
