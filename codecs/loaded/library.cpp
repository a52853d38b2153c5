// See library.h.
#include "codecs/loaded/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "backends/cpu/foreign/surroundings.h"
#include "codecs/loaded/adapt.h"
#include "codecs/loaded/text.h"

namespace ecmv::codecs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntry = "ecmv_codec_library_1";
constexpr int kNewestVersionGuess = 9;

[[noreturn]] void fail(const std::string& file, const std::string& rest) {
  throw LibraryError("The codec library '" + file + "' " + rest);
}

// Loads a library and reads its tables, in the trial's process as in this one. The library stays loaded.
std::vector<loaded::CodecTables> load_tables(const std::string& file) {
  const backends::cpu::Surroundings kept;  // -ffast-math, for one, changes how this thread rounds
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::string reason = loaded::sentence(dlerror());
    if (reason.starts_with(file + ": ")) reason.erase(0, file.size() + 2);
    fail(file, "does not load: " + reason + ".");
  }
  using Entry = const char* (*)(const ecmv_host*, const ecmv_codec_library**);
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kEntry));
  if (entry == nullptr) {
    for (int version = 2; version <= kNewestVersionGuess; ++version)
      if (const std::string other = "ecmv_codec_library_" + std::to_string(version);
          dlsym(handle, other.c_str()) != nullptr)
        fail(file, "was made for another version of ecmv_codec.h: it exports " + other + ", and this program knows " +
                       kEntry + ".");
    fail(file, std::string("is no codec library: it does not export ") + kEntry + ".");
  }
  const ecmv_host host{sizeof(ecmv_host), "ecmv"};
  const ecmv_codec_library* library = nullptr;
  if (const char* reason = entry(&host, &library); reason != nullptr)
    fail(file, "says that it cannot be used here: " + loaded::sentence(reason));
  return loaded::read_tables(library, file);
}

// The trial's side: loads the library and sends one message, "+" or "-" and a sentence.
[[noreturn]] void load_and_tell(const std::string& file, int pipe, int seconds) {
  alarm(static_cast<unsigned>(seconds) + 5);  // in case nobody is left to end it
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // Prints of a library that loads must not mix with the command's output.
  if (const int null = open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) dup2(null, STDOUT_FILENO);
  std::string message = "+";
  try {
    load_tables(file);
  } catch (const std::exception& e) {
    message = std::string("-") + e.what();
  } catch (...) {
    message = "-The codec library '" + file + "' threw an exception while it was loaded.";
  }
  [[maybe_unused]] const ssize_t written = write(pipe, message.data(), std::min<size_t>(message.size(), PIPE_BUF));
  _exit(0);
}

// Explains a trial that sent nothing.
std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "crashed while it was loaded (" + std::string(strsignal(WTERMSIG(status))) + ").";
  return "ended the process while it was loaded (exit status " + std::to_string(WEXITSTATUS(status)) + ").";
}

// Loads the library in a process of its own. Throws LibraryError for whatever goes wrong there.
void try_loading(const std::string& file, int seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(file, std::string("cannot be tried: ") + std::strerror(errno) + ".");
  const pid_t child = fork();
  if (child == 0) load_and_tell(file, ends[1], seconds);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail(file, std::string("cannot be tried in a process of its own: ") + std::strerror(errno) + ".");
  }
  pollfd answer{ends[0], POLLIN, 0};
  int ready = 0;
  do ready = poll(&answer, 1, seconds * 1000);
  while (ready < 0 && errno == EINTR);
  std::string message(PIPE_BUF, '\0');
  ssize_t bytes = ready > 0 ? read(ends[0], message.data(), message.size()) : 0;
  message.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  close(ends[0]);
  if (message.empty() && ready <= 0) kill(child, SIGKILL);
  int status = 0;
  // A trial that has answered may still hang, for instance in an exit handler.
  if (!message.empty()) kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!message.empty() && message[0] == '+') return;
  if (!message.empty()) throw LibraryError(message.substr(1));
  if (ready <= 0) fail(file, "did not load within " + std::to_string(seconds) + " seconds.");
  fail(file, how_it_ended(status));
}

// Sixteen hexadecimal digits that name the file in records, as other content hashes do.
std::string hash_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) fail(file.string(), "cannot be read.");
  const datasets::MatrixView content{
      {1, static_cast<int64_t>(bytes.size())}, datasets::ElementType::u8, std::as_bytes(std::span(bytes))};
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016" PRIx64, datasets::content_hash(content));
  return digits;
}

bool is_loaded(const std::string& path) {
  const auto codecs = all_codecs();
  return std::any_of(codecs.begin(), codecs.end(), [&](const CodecEntry& entry) { return entry.library_path == path; });
}

size_t count_loaded() {
  const auto codecs = all_codecs();
  return static_cast<size_t>(
      std::count_if(codecs.begin(), codecs.end(), [](const CodecEntry& entry) { return entry.loaded(); }));
}

}  // namespace

void load_codec_library(const std::string& file, int seconds) {
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  if (error) throw LibraryError("There is no codec library '" + file + "'.");
  if (fs::is_directory(path, error))
    fail(file, std::string("is a folder: name a file in it, or the folder in ") + kCodecPathVariable + ".");
  if (!fs::is_regular_file(path, error)) fail(file, "is no file.");
  if (is_loaded(path.string())) return;
  const std::string hash = hash_of(path);
  try_loading(path.string(), seconds);
  std::vector<loaded::CodecTables> tables = load_tables(path.string());
  if (count_loaded() + tables.size() > kMaxLoadedCodecs)
    fail(file, "has more codecs than can be loaded, which are " + std::to_string(kMaxLoadedCodecs) + ".");
  // Never destroyed: kernels and exceptions may outlive other statics.
  static auto* kept = new std::vector<std::unique_ptr<loaded::LoadedCodec>>;
  std::vector<CodecEntry> entries;
  for (loaded::CodecTables& one : tables) {
    const loaded::LoadedCodec* codec = kept->emplace_back(loaded::make_codec(std::move(one))).get();
    CodecEntry& entry = entries.emplace_back(
        CodecEntry{codec->tables.codec.id, &codec->codec, codec->scalar, codec->simd, path.string(), hash});
    for (const auto& [backend, kernels] : codec->on_gpus) entry.gpu_kernels[backend] = kernels;
  }
  append_codecs(std::move(entries));
}

void load_codec_path(std::string_view path) {
  while (!path.empty()) {
    const std::string part(path.substr(0, path.find(':')));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (part.empty()) continue;
    std::error_code error;
    if (!fs::is_directory(part, error)) {
      load_codec_library(part);
      continue;
    }
    std::vector<std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(part, error))
      if (entry.path().extension() == ".so") files.push_back(entry.path().string());
    if (error)
      throw LibraryError("The folder '" + part + "' of codec libraries cannot be read: " + error.message() + ".");
    if (files.empty()) throw LibraryError("The folder '" + part + "' holds no codec library, which would be a *.so.");
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) load_codec_library(file);
  }
}

void load_codecs_of_environment() {
  const char* path = std::getenv(kCodecPathVariable);
  if (path == nullptr) return;
  try {
    load_codec_path(path);
  } catch (const LibraryError& e) {
    throw LibraryError(std::string(e.what()) + " It is named by " + kCodecPathVariable + ".");
  }
}

}  // namespace ecmv::codecs
