// World by sockets between rank 0 and each other rank. Messages between the others go through rank 0.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include "backends/sockets/life.h"
#include "backends/world.h"

namespace ecmv::backends {
namespace {

using sockets::Head;
using sockets::Kind;
using sockets::Link;
using sockets::Socket;

constexpr const char* kPlaceVariable = "ECMV_PLACE_OF_RANK";  // "rank size frames life": descriptors

class SocketWorld final : public World {
 public:
  // `links`: to the other ranks; a rank other than 0 has only the one to rank 0. `processes`: the ones that this
  // process started, by rank.
  SocketWorld(int rank, int size, std::vector<Link> links, std::vector<pid_t> processes, OnLoss on_loss)
      : rank_(rank), size_(size), processes_(std::move(processes)), on_loss_(std::move(on_loss)) {
    std::vector<Socket> ends;
    for (Link& link : links) {
      frames_.push_back(std::move(link.frames));
      ends.push_back(std::move(link.life));
    }
    early_.resize(frames_.size());
    life_.emplace(std::move(ends), [this](int other, bool silent) { lose(other, silent); });
  }
  ~SocketWorld() override {
    // Without finish() this process gives up, and the others have to end.
    if (life_) stop_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return "sockets"; }
  void send(int to, std::span<const std::byte> message) override { write(to, Kind::message, message); }
  std::vector<std::byte> receive(int from) override {
    auto& early = early_[static_cast<size_t>(from)];
    if (!early.empty()) {
      std::vector<std::byte> message = std::move(early.front());
      early.pop_front();
      return message;
    }
    while (true) {
      const Head head = read_head(from);
      std::vector<std::byte> content = read_content(from, head);
      if (head.kind == Kind::message) return content;
      // The rest of a gathering that failed here.
    }
  }
  std::unique_ptr<Ranks> first(int count) override;
  void finish() override {
    life_->farewell();
    life_.reset();
    frames_.clear();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (const pid_t process : processes_) {
      while (process > 0 && ::waitpid(process, nullptr, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() > end) ::kill(process, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    }
  }

  // Rank 0 collects the others' parts and sends the whole; `broken` tells the others that there is none.
  void gather(int count, std::byte* data, std::span<const int64_t> offsets) {
    const auto part = [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      return std::span(data + offsets[at], static_cast<size_t>(offsets[at + 1] - offsets[at]));
    };
    const std::span all(data + offsets[0], static_cast<size_t>(offsets[static_cast<size_t>(count)] - offsets[0]));
    if (rank_ > 0) {
      write(0, Kind::part, part(rank_));
      return read_part(0, all);
    }
    std::string failed;
    for (int other = 1; other < count; ++other) try {
        read_part(other, part(other));
      } catch (const std::runtime_error& e) {
        failed = e.what();
      }
    for (int other = 1; other < count; ++other)
      write(other, failed.empty() ? Kind::part : Kind::broken, failed.empty() ? all : std::span<std::byte>());
    if (!failed.empty()) throw std::runtime_error(failed);
  }

 private:
  // If a message comes instead of a part, that rank failed before it came here.
  void read_part(int from, std::span<std::byte> part) {
    const Head head = read_head(from);
    if (head.kind == Kind::part && head.bytes == part.size()) {
      if (!sockets::read_all(frames_[static_cast<size_t>(from)], part)) wait_for_the_end();
      return;
    }
    std::vector<std::byte> content = read_content(from, head);
    if (head.kind == Kind::message) early_[static_cast<size_t>(from)].push_back(std::move(content));
    throw std::runtime_error("Rank " + std::to_string(from) + " did not take part in an exchange.");
  }
  Head read_head(int from) {
    Head head;
    if (!sockets::read_head(frames_[static_cast<size_t>(from)], head)) wait_for_the_end();
    return head;
  }
  std::vector<std::byte> read_content(int from, const Head& head) {
    std::vector<std::byte> content(head.bytes);
    if (!sockets::read_all(frames_[static_cast<size_t>(from)], content)) wait_for_the_end();
    return content;
  }
  void write(int to, Kind kind, std::span<const std::byte> content) {
    if (rank_ > 0 && to != 0) throw std::logic_error("Messages pass between rank 0 and another one.");
    if (!sockets::write_frame(frames_[static_cast<size_t>(to)], kind, content)) wait_for_the_end();
  }

  // The other end is closed: the thread that looks for signs of life says so and ends this process.
  [[noreturn]] void wait_for_the_end() {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    lose(rank_ == 0 ? -1 : 0, false);
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  void lose(int other, bool silent) {
    if (lost_.exchange(true)) return;
    std::string sentence;
    const std::string who = other < 0 ? std::string("A rank") : "Rank " + std::to_string(other);
    if (silent)
      sentence = who + " has not been heard of for " + std::to_string(sockets::Life::kSilence) + " s.";
    else if (rank_ == 0)
      sentence = who + how_it_ended(other);
    stop_all();
    on_loss_(sentence);
  }
  std::string how_it_ended(int other) const {
    const pid_t process = other > 0 && !processes_.empty() ? processes_[static_cast<size_t>(other)] : 0;
    int status = 0;
    for (int turn = 0; process > 0 && turn < 100; ++turn) {
      if (::waitpid(process, &status, WNOHANG) == process)
        return WIFSIGNALED(status) ? " was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
                                         strsignal(WTERMSIG(status)) + ")."
                                   : " ended by itself, with exit code " + std::to_string(WEXITSTATUS(status)) + ".";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return " is gone.";
  }
  // SIGKILL ends stopped processes as well, which would otherwise stay.
  void stop_all() const {
    for (const pid_t process : processes_)
      if (process > 0) ::kill(process, SIGKILL);
  }

  int rank_, size_;
  std::vector<Socket> frames_;
  std::vector<std::deque<std::vector<std::byte>>> early_;  // messages that came when a part was expected
  std::vector<pid_t> processes_;
  OnLoss on_loss_;
  std::atomic<bool> lost_ = false;
  std::optional<sockets::Life> life_;  // destroyed first
};

class SocketRanks final : public Ranks {
 public:
  SocketRanks(SocketWorld& world, int count) : world_(world), count_(count) {}
  int rank() const override { return world_.rank(); }
  int count() const override { return count_; }
  std::string library() const override { return world_.library(); }
  void gather(void*, std::byte* data, std::span<const int64_t> offsets) override {
    if (count_ > 1) world_.gather(count_, data, offsets);
  }
  void reduce(void*, float* data, int64_t count) override { reduce_by_gathering(*this, data, count); }
  void meet(void*) override {
    std::byte nothing{};
    gather(nullptr, &nothing, std::vector<int64_t>(static_cast<size_t>(count_) + 1));
  }

 private:
  SocketWorld& world_;
  int count_;
};

std::unique_ptr<Ranks> SocketWorld::first(int count) {
  return rank_ < count ? std::make_unique<SocketRanks>(*this, count) : nullptr;
}

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  char* end = nullptr;
  const long number = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text == nullptr || end == text || *end != 0 || number < 0 || number > 65535)
    throw WorldError(std::string("The variable ") + variable +
                     (text == nullptr ? " is not set" : " is no number: " + std::string(text)) +
                     "; launchers like torchrun set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.");
  return static_cast<int>(number);
}

}  // namespace

std::unique_ptr<World> join_by_environment(OnLoss on_loss) {
  const int rank = number_of("RANK"), size = number_of("WORLD_SIZE");
  const char* address = std::getenv("MASTER_ADDR");
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const int port = number_of("MASTER_PORT") + (agent != nullptr && std::string_view(agent) == "True" ? 1 : 0);
  if (address == nullptr) throw WorldError("The variable MASTER_ADDR is not set.");
  if (rank >= size)
    throw WorldError("RANK is " + std::to_string(rank) + ", and WORLD_SIZE is " + std::to_string(size) + ".");
  std::vector<Link> links;
  if (rank == 0)
    links = sockets::accept_ranks(port, size);
  else
    links.push_back(sockets::connect_to_first(address, port, rank, size));
  return std::make_unique<SocketWorld>(rank, size, std::move(links), std::vector<pid_t>(), std::move(on_loss));
}

std::unique_ptr<World> start_world(int size, std::span<const std::string> arguments, OnLoss on_loss) {
  std::vector<Link> links(static_cast<size_t>(size));
  std::vector<pid_t> processes(static_cast<size_t>(size));
  std::vector<char*> argv = {const_cast<char*>("ecmv")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t own = ::getpid();
  for (int rank = 1; rank < size; ++rank) {
    auto [frames, others_frames] = sockets::pair_of_sockets();
    auto [life, others_life] = sockets::pair_of_sockets();
    const std::string place = std::string(kPlaceVariable) + "=" + std::to_string(rank) + " " + std::to_string(size) +
                              " " + std::to_string(others_frames.descriptor()) + " " +
                              std::to_string(others_life.descriptor());
    std::vector<char*> variables;
    for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
    variables.push_back(const_cast<char*>(place.c_str()));
    variables.push_back(nullptr);
    // Between fork and exec a process with threads may call little.
    const pid_t process = ::fork();
    if (process < 0) {
      const std::string reason = std::strerror(errno);
      for (const pid_t started : processes)
        if (started > 0) ::kill(started, SIGKILL);
      throw WorldError("Rank " + std::to_string(rank) + " cannot be started: " + reason + ".");
    }
    if (process == 0) {
      (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != own) ::_exit(1);
      (void)::fcntl(others_frames.descriptor(), F_SETFD, 0);
      (void)::fcntl(others_life.descriptor(), F_SETFD, 0);
      ::execve("/proc/self/exe", argv.data(), variables.data());
      ::_exit(127);
    }
    processes[static_cast<size_t>(rank)] = process;
    links[static_cast<size_t>(rank)] = {std::move(frames), std::move(life)};
  }
  return std::make_unique<SocketWorld>(0, size, std::move(links), std::move(processes), std::move(on_loss));
}

std::unique_ptr<World> join_starter(OnLoss on_loss) {
  const char* place = std::getenv(kPlaceVariable);
  if (place == nullptr) return nullptr;
  int numbers[4];
  const char* at = place;
  for (int& number : numbers) {
    char* end = nullptr;
    number = static_cast<int>(std::strtol(at, &end, 10));
    if (end == at) throw WorldError(std::string(kPlaceVariable) + " is for processes that the command starts.");
    at = end;
  }
  for (const int descriptor : {numbers[2], numbers[3]})
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
      throw WorldError(std::string(kPlaceVariable) + " is for processes that the command starts.");
  ::unsetenv(kPlaceVariable);
  // Ctrl-C is for rank 0, which ends the others.
  (void)::signal(SIGINT, SIG_IGN);
  std::vector<Link> links;
  links.push_back({Socket(numbers[2]), Socket(numbers[3])});
  return std::make_unique<SocketWorld>(numbers[0], numbers[1], std::move(links), std::vector<pid_t>(),
                                       std::move(on_loss));
}

}  // namespace ecmv::backends
