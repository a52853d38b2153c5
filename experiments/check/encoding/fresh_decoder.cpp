// See fresh_decoder.h.
#include "experiments/check/encoding/fresh_decoder.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "codecs/guarded_output.h"
#include "experiments/ranks/messages.h"

namespace ecmv::experiments {
namespace {

using nlohmann::json;

FreshDecoder* of_run = nullptr;

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

// Pointers to codecs are the same in a forked process.
json answer_to(const json& question) {
  const auto* codec = reinterpret_cast<const codecs::Codec*>(question.at("pointer").get<uintptr_t>());
  const codecs::CompressedMatrix matrix = matrix_from(question);
  codecs::GuardedOutput output(static_cast<size_t>(matrix.shape.elements() * datasets::element_bytes(matrix.type)));
  codec->decode(matrix.view(), output.elements());
  return hash_of(output.elements());
}

[[noreturn]] void answer_questions(const MessagePipe& pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::signal(signal, SIG_IGN);  // for those who ask
  forget_shared_memory();
  pipe.keep_alone();
  const rlimit none_more{0, 0};
  setrlimit(RLIMIT_CORE, &none_more);
#if !defined(__SANITIZE_ADDRESS__)  // the other sanitizer tries by a pipe whether an object can be read
  setrlimit(RLIMIT_NOFILE, &none_more);
#endif
  for (json question; pipe.receive(question) == MessagePipe::Received::message;) {
    json answer;
    try {
      answer = answer_to(question);
    } catch (...) {
    }
    if (!pipe.send(answer)) break;
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
  auto ends = MessagePipe::make();
  if (!ends) return;
  child_ = fork();
  if (child_ == 0) {
    const MessagePipe there = std::move(ends->second);
    answer_questions(there);
  }
  if (child_ > 0) pipe_ = std::move(ends->first);
}

void FreshDecoder::stop() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  child_ = -1;
  pipe_ = {};
}

std::string FreshDecoder::difference(const codecs::Codec& codec, const codecs::CompressedMatrix& compressed,
                                     std::span<const std::byte> decoded, double seconds) {
  const std::string who = "a process that knows sections, settings and shape alone ";
  const std::scoped_lock lock(mutex_);
  if (child_ < 0) start();
  if (child_ < 0) return {};  // there is no room for another process
  json question = matrix_fields(compressed), answer;
  question["pointer"] = reinterpret_cast<uintptr_t>(&codec);
  const auto received = pipe_.send(question) ? pipe_.receive(answer, 20 + 50 * seconds) : MessagePipe::Received::end;
  if (received != MessagePipe::Received::message) {
    stop();
    return who + (received == MessagePipe::Received::end ? "ends when it decodes them" : "does not end decoding them");
  }
  if (answer.is_null()) return who + "does not decode them";
  return answer == hash_of(decoded) ? "" : who + "decodes them to another matrix";
}

}  // namespace ecmv::experiments
