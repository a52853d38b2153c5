// See fresh_decoder.h.
#include "experiments/check/encoding/fresh_decoder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <vector>

#include "codecs/guarded_output.h"

namespace ecmv::experiments {
namespace {

using codecs::CompressedMatrix;

FreshDecoder* of_run = nullptr;

bool write_all(int file, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int file, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(file, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

template <typename T>
void append(std::vector<char>& message, const T& value) {
  const auto* bytes = reinterpret_cast<const char*>(&value);
  message.insert(message.end(), bytes, bytes + sizeof(value));
}
void append_text(std::vector<char>& message, std::string_view text) {
  append(message, text.size());
  message.insert(message.end(), text.begin(), text.end());
}
template <typename T>
T take(std::span<const char>& message) {
  T value;
  std::memcpy(&value, message.data(), sizeof(value));
  message = message.subspan(sizeof(value));
  return value;
}
std::string take_text(std::span<const char>& message) {
  const auto bytes = take<size_t>(message);
  std::string text(message.data(), bytes);
  message = message.subspan(bytes);
  return text;
}

// Everything but the bytes of the sections, which follow. Pointers to codecs are the same in a forked process.
std::vector<char> question(const codecs::Codec& codec, const CompressedMatrix& matrix) {
  std::vector<char> message;
  append(message, &codec);
  append(message, matrix.shape);
  append(message, matrix.type);
  append(message, matrix.settings.values().size());
  for (const auto& [name, value] : matrix.settings.values()) {
    append_text(message, name);
    append(message, value.index());
    if (const auto* number = std::get_if<int64_t>(&value))
      append(message, *number);
    else
      append_text(message, std::get<std::string>(value));
  }
  append(message, matrix.sections.size());
  for (const codecs::Section& section : matrix.sections) {
    append_text(message, section.name);
    append(message, section.role);
    append(message, section.bytes.size());
  }
  return message;
}

// --- the forked process ---

struct Question {
  const codecs::Codec* codec = nullptr;
  CompressedMatrix matrix;
};

bool read_question(int file, Question& question) {
  static std::deque<std::string> names;  // views of them are kept
  size_t bytes = 0;
  if (!read_all(file, &bytes, sizeof(bytes))) return false;
  std::vector<char> message(bytes);
  if (!read_all(file, message.data(), bytes)) return false;
  std::span<const char> rest(message);
  question.codec = take<const codecs::Codec*>(rest);
  question.matrix.shape = take<datasets::Shape>(rest);
  question.matrix.type = take<datasets::ElementType>(rest);
  for (auto settings = take<size_t>(rest); settings > 0; --settings) {
    const std::string name = take_text(rest);
    if (take<size_t>(rest) == 0)
      question.matrix.settings.set(name, take<int64_t>(rest));
    else
      question.matrix.settings.set(name, take_text(rest));
  }
  for (auto sections = take<size_t>(rest); sections > 0; --sections) {
    codecs::Section section;
    section.name = names.emplace_back(take_text(rest));
    section.role = take<codecs::Role>(rest);
    section.bytes.resize(take<size_t>(rest));
    question.matrix.sections.push_back(std::move(section));
  }
  return std::ranges::all_of(question.matrix.sections, [&](codecs::Section& section) {
    return read_all(file, section.bytes.data(), section.bytes.size());
  });
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  return datasets::content_hash({{1, static_cast<int64_t>(bytes.size())}, datasets::ElementType::u8, bytes});
}

// Memory that processes share begins anew, and a library that counts on it has to do without.
void forget_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || access[3] != 's') continue;
    if (std::ranges::none_of(std::initializer_list<const char*>{"/dev/zero", "/memfd:", "/dev/shm/", "/SYSV"},
                             [&](const char* kind) { return line.find(kind) != std::string::npos; }))
      continue;
    mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
         -1, 0);
  }
}

void close_all_but(int one, int other) {
  std::vector<int> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
    files.push_back(std::atoi(entry.path().filename().c_str()));
  for (const int file : files)
    if (file > STDERR_FILENO && file != one && file != other) close(file);
}

[[noreturn]] void answer_questions(int from, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::signal(signal, SIG_IGN);  // for those who ask
  forget_shared_memory();
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, standard);
  close_all_but(from, to);
  const rlimit none_more{0, 0};
  setrlimit(RLIMIT_CORE, &none_more);
  setrlimit(RLIMIT_NOFILE, &none_more);
  for (Question question; read_question(from, question); question = {}) {
    std::pair<bool, uint64_t> answer;
    try {
      codecs::GuardedOutput output(
          static_cast<size_t>(question.matrix.shape.elements() * datasets::element_bytes(question.matrix.type)));
      question.codec->decode(question.matrix.view(), output.elements());
      answer = {true, hash_of(output.elements())};
    } catch (...) {
    }
    if (!write_all(to, &answer, sizeof(answer))) break;
  }
  _exit(0);
}

}  // namespace

FreshDecoder::FreshDecoder() {
  start();
  if (of_run == nullptr) of_run = this;
}

FreshDecoder::~FreshDecoder() {
  stop();
  if (of_run == this) of_run = nullptr;
}

FreshDecoder* FreshDecoder::current() { return of_run; }

void FreshDecoder::start() {
  int there[2], back[2];
  if (pipe2(there, O_CLOEXEC) != 0) return;
  if (pipe2(back, O_CLOEXEC) != 0) {
    for (const int end : there) close(end);
    return;
  }
  child_ = fork();
  if (child_ == 0) answer_questions(there[0], back[1]);
  for (const int end : {there[0], back[1]}) close(end);
  to_ = there[1];
  from_ = back[0];
  if (child_ < 0) stop();  // there is no room for another process
}

void FreshDecoder::stop() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (int* end : {&to_, &from_})
    if (*end >= 0) close(*end);
  child_ = to_ = from_ = -1;
}

std::string FreshDecoder::difference(const codecs::Codec& codec, const CompressedMatrix& compressed,
                                     std::span<const std::byte> decoded, double seconds) {
  constexpr const char* kWhere = "a process that knows sections, settings and shape alone ";
  const std::scoped_lock lock(mutex_);
  if (child_ < 0) start();
  if (child_ < 0) return {};
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const std::vector<char> message = question(codec, compressed);
  const size_t bytes = message.size();
  bool sent = write_all(to_, &bytes, sizeof(bytes)) && write_all(to_, message.data(), bytes);
  for (const codecs::Section& section : compressed.sections)
    sent = sent && write_all(to_, section.bytes.data(), section.bytes.size());
  const timespec now{};
  while (!sent && sigtimedwait(&pipe, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pollfd ready{from_, POLLIN, 0};
  const int limit_ms = static_cast<int>(1000 * std::min(20 + 50 * seconds, 3600.0));
  int polled = 0;
  while (sent && (polled = poll(&ready, 1, limit_ms)) < 0 && errno == EINTR) {
  }
  std::pair<bool, uint64_t> answer;
  if (polled <= 0 || !read_all(from_, &answer, sizeof(answer))) {
    const bool hung = sent && polled == 0;
    stop();
    return kWhere + std::string(hung ? "does not end decoding them" : "ends when it decodes them");
  }
  if (!answer.first) return kWhere + std::string("does not decode them");
  return answer.second == hash_of(decoded) ? "" : kWhere + std::string("decodes them to another matrix");
}

}  // namespace ecmv::experiments
