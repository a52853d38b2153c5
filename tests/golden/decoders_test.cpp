// The README of a codec with a decoder in decoders/, or its FORMAT.md, specifies its format completely. The decoder is
// Python written from that text alone; here it decodes the golden streams and streams of all tested settings. A file
// ID.settings beside it has lines of further settings, each for a form of the format.
#include <stdlib.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

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

// Streams that are encoded now, in files of the folder.
class NewStreams {
 public:
  NewStreams(const codecs::CodecEntry& entry, fs::path folder) : entry_(entry), folder_(std::move(folder)) {}

  // False if the codec refuses.
  bool add(const datasets::Matrix& matrix, const backends::Settings& settings) {
    if (!entry_.codec->refuses(matrix.view(), settings).empty()) return false;
    const fs::path file = folder_ / (std::to_string(streams.size()) + ".safetensors");
    const std::vector<std::byte> bytes = tests::to_golden(codecs::encode_matrix(entry_, matrix.view(), settings));
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    streams.push_back({tests::describe(matrix) + " [" + settings.to_string() + "]", file, matrix});
    return true;
  }
  std::vector<Stream> streams;

 private:
  const codecs::CodecEntry& entry_;
  fs::path folder_;
};

// The settings of each line of the decoder's own file.
std::vector<backends::Settings> further_settings(const codecs::CodecEntry& entry) {
  std::vector<backends::Settings> found;
  std::ifstream file(kDecoders / (std::string(entry.id) + ".settings"));
  for (std::string line; std::getline(file, line);) {
    std::map<std::string, std::string> texts;
    std::istringstream pairs(line);
    for (std::string pair; std::getline(pairs, pair, ',');)
      texts[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
    std::vector<std::string> errors;
    found.push_back(codecs::resolve_settings(entry.codec->settings, texts, errors));
    INFO(line);
    REQUIRE(errors.empty());
  }
  return found;
}

// One of each pair of settings and matrix.
std::vector<Stream> new_streams(const codecs::CodecEntry& entry, const fs::path& folder) {
  std::vector<datasets::Matrix> matrices = {tests::gaussian_matrix({7, 61}, 4)};
  for (const datasets::Shape shape : {datasets::Shape{0, 5}, {5, 0}, {1, 1}})
    matrices.push_back(tests::gaussian_matrix(shape, 4));
  for (datasets::Matrix& matrix : tests::distributions({9, 33})) matrices.push_back(std::move(matrix));
  NewStreams streams(entry, folder);
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix : matrices)
      if (streams.add(matrix, settings) && settings != codecs::default_settings(*entry.codec))
        break;  // the first that the codec accepts
  // Several tiles, more than 1024 columns, and little entropy, as far as the form takes the type.
  for (const backends::Settings& settings : further_settings(entry))
    for (const datasets::Matrix& matrix :
         {tests::gaussian_matrix({35, 1090}, 3), tests::gaussian_matrix({3, 40}, 0.5),
          tests::distributions({33, 70})[8], tests::bf16_matrix({18, 300}), tests::f8_matrix({18, 300})})
      streams.add(matrix, settings);
  return std::move(streams.streams);
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
      const bool is_equal = bytes_of(decoded) == streams[i].matrix.elements;
      CHECK(is_equal);
    }
  }
  if (decoders == 0) SKIP("No codec of this build has a decoder in " + kDecoders.string() + ".");
}
