// The README of a codec with a decoder in decoders/ specifies its format completely. The decoder is Python written from
// that text alone; here it decodes the golden streams and streams of all tested settings.
#include <stdlib.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>

#include "tests/golden_streams.h"

using namespace ecmv;
namespace fs = std::filesystem;

namespace {

const fs::path kDecoders = ECMV_SOURCE_DIR "/tests/golden/decoders";

// A folder that is removed at the end.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "ecmv_decoders_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("There is no temporary folder.");
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
};

// Output and exit code of a shell command.
std::pair<std::string, int> run(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("No process could be started.");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::vector<std::byte> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A stream on disk and the matrix that it must decode to.
struct Stream {
  std::string what;
  fs::path file;
  datasets::Matrix matrix;
};

std::vector<Stream> golden_streams(const codecs::CodecEntry& entry) {
  std::vector<Stream> streams;
  for (datasets::Matrix& matrix : tests::golden_matrices(entry)) {
    const fs::path file =
        tests::golden_folder(entry, entry.codec->format_version) / (tests::golden_name(matrix) + ".safetensors");
    if (fs::exists(file)) streams.push_back({file.string(), file, std::move(matrix)});
  }
  return streams;
}

// One of each pair of settings and matrix, written to the folder.
std::vector<Stream> new_streams(const codecs::CodecEntry& entry, const fs::path& folder) {
  std::vector<datasets::Matrix> matrices = {tests::gaussian_matrix({7, 61}, 4)};
  for (const datasets::Shape shape : {datasets::Shape{0, 5}, {5, 0}, {1, 1}})
    matrices.push_back(tests::gaussian_matrix(shape, 4));
  for (datasets::Matrix& matrix : tests::distributions({9, 33})) matrices.push_back(std::move(matrix));
  std::vector<Stream> streams;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix : matrices) {
      if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
      const fs::path file = folder / (std::to_string(streams.size()) + ".safetensors");
      const std::vector<std::byte> bytes = tests::to_golden(codecs::encode_matrix(entry, matrix.view(), settings));
      std::ofstream(file, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      streams.push_back({tests::describe(matrix) + " [" + settings.to_string() + "]", file, matrix});
      if (settings != codecs::default_settings(*entry.codec)) break;  // the first that the codec accepts
    }
  return streams;
}

}  // namespace

TEST_CASE("decoders written from a codec's README decode its streams") {
  if (run("python3 -c pass").second != 0) SKIP("There is no python3, which runs the decoders.");
  int decoders = 0;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    const fs::path decoder = kDecoders / (std::string(entry.id) + ".py");
    if (entry.loaded() || !fs::exists(decoder)) continue;
    ++decoders;
    INFO(decoder.string());
    const Folder folder;
    std::vector<Stream> streams = golden_streams(entry);
    REQUIRE(!streams.empty());
    for (Stream& stream : new_streams(entry, folder.path)) streams.push_back(std::move(stream));
    // All in one process: most of the time is Python's start.
    std::string command = "python3 -B '" + decoder.string() + "'";
    for (size_t i = 0; i < streams.size(); ++i)
      command += " '" + streams[i].file.string() + "' " + std::to_string(streams[i].matrix.shape.rows) + " " +
                 std::to_string(streams[i].matrix.shape.cols) + " '" +
                 (folder.path / (std::to_string(i) + ".decoded")).string() + "'";
    const auto [output, exit_code] = run(command);
    INFO(output);
    CHECK(exit_code == 0);
    for (size_t i = 0; i < streams.size(); ++i) {
      INFO(streams[i].what);
      const fs::path decoded = folder.path / (std::to_string(i) + ".decoded");
      REQUIRE(fs::exists(decoded));
      CHECK(bytes_of(decoded) == streams[i].matrix.elements);
    }
  }
  if (decoders == 0) SKIP("No codec of this build has a decoder in " + kDecoders.string() + ".");
}
