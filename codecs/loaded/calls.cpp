// See calls.h and library.h. Signal handlers here call only write, sigaction and raise.
#include "codecs/loaded/calls.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codecs/loaded/library.h"

namespace ecmv::codecs {
namespace {

constexpr size_t kSignalStackBytes = size_t{64} << 10;

// A thread and the call that it is in. It is never freed, because a handler may look at it at any time; when a thread
// ends, the next one takes its place.
struct CallingThread {
  std::atomic<const char*> function{nullptr};  // null: in no call
  std::atomic<const char*> codec{nullptr}, variant{nullptr};
  std::atomic<int64_t> rows{0}, cols{0};
  std::atomic<bool> taken{true};
  CallingThread* next = nullptr;
  // A stack for handlers: a codec that overruns the thread's stack leaves none.
  alignas(64) char signal_stack[kSignalStackBytes];
};

std::atomic<CallingThread*> calling_threads{nullptr};
std::atomic<bool> crashes_are_told{false};
thread_local CallingThread* this_thread = nullptr;

void exited_within_a_call();

// Frees the place when the thread ends; exit() destroys its thread's objects before all others.
struct PlaceOfThread {
  ~PlaceOfThread() {
    if (this_thread == nullptr) return;
    if (this_thread->function != nullptr) {
      exited_within_a_call();
      return;
    }
    stack_t stack{};
    if (sigaltstack(nullptr, &stack) == 0 && stack.ss_sp == this_thread->signal_stack) {
      stack.ss_flags = SS_DISABLE;
      sigaltstack(&stack, nullptr);
    }
    CallingThread* place = this_thread;
    this_thread = nullptr;
    place->taken = false;
  }
};
thread_local PlaceOfThread place_of_thread;

CallingThread& place_for_this_thread() {
  if (this_thread != nullptr) return *this_thread;
  for (CallingThread* place = calling_threads; place != nullptr && this_thread == nullptr; place = place->next)
    if (!place->taken.exchange(true)) this_thread = place;
  if (this_thread == nullptr) {
    this_thread = new CallingThread;
    this_thread->next = calling_threads;
    while (!calling_threads.compare_exchange_weak(this_thread->next, this_thread)) {
    }
  }
  [[maybe_unused]] const auto* destroyed_with_the_thread = &place_of_thread;
  if (stack_t stack{}; crashes_are_told && sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    stack = {};
    stack.ss_sp = this_thread->signal_stack;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, nullptr);
  }
  return *this_thread;
}

// Builds text without the heap, for handlers.
class Message {
 public:
  Message& operator<<(const char* text) {
    for (; *text != 0 && used_ < sizeof(bytes_); ++text) bytes_[used_++] = *text;
    return *this;
  }
  Message& operator<<(int64_t number) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = 0;
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    return *this << digits + at;
  }
  Message& operator<<(const CallingThread& thread) {
    *this << thread.function.load() << "() of the ";
    if (const char* variant = thread.variant; variant != nullptr) *this << "kernel '" << variant << "' of the ";
    return *this << "loaded codec '" << thread.codec.load() << "', for a matrix of " << thread.rows.load() << " x "
                 << thread.cols.load();
  }
  void send() const { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, bytes_, used_); }

 private:
  char bytes_[600];
  size_t used_ = 0;
};

const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV: return "segmentation fault";
    case SIGBUS: return "bus error";
    case SIGILL: return "illegal instruction";
    case SIGFPE: return "arithmetic exception";
    default: return "abort";
  }
}

void exited_within_a_call() {
  if (!crashes_are_told) return;
  std::fflush(nullptr);
  (Message() << "\necmv: the process was ended in " << *this_thread << ".\n").send();
  _exit(EXIT_FAILURE);
}

void on_crash(int signal) {
  // Threads of a team fail together. The first one speaks; under the default action the second would end the process.
  // Another thread may have given back this action meanwhile (backends/cpu/foreign/surroundings.h), so the first one
  // may come twice.
  static std::atomic<const void*> speaker = nullptr;
  const void *const self = &this_thread, *first = nullptr;
  if (!speaker.compare_exchange_strong(first, self) && first != self)
    while (true) pause();
  if (first == nullptr && this_thread != nullptr && this_thread->function != nullptr)
    (Message() << "\necmv: " << name_of_signal(signal) << " in " << *this_thread
               << ".\nA build with -fsanitize=address says where: codecs/ABI.md, section 7.\n")
        .send();
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler != on_crash) return;  // a later handler called this one, and ends the process in its own way
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);  // as soon as this handler has returned
}

}  // namespace

namespace loaded {

Call::Call(const CodecTables& tables, const char* function, int64_t rows, int64_t cols, const char* variant) {
  CallingThread& thread = place_for_this_thread();
  const auto order = std::memory_order_relaxed;
  thread.codec.store(tables.codec.id, order);
  thread.variant.store(variant, order);
  thread.rows.store(rows, order);
  thread.cols.store(cols, order);
  thread.function.store(function, std::memory_order_release);
}

Call::~Call() { this_thread->function.store(nullptr, std::memory_order_release); }

}  // namespace loaded

void tell_crashes_of_loaded_codecs() {
  if (crashes_are_told.exchange(true)) return;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction now {};
    // A sanitizer's or debugger's handler reports more than ours, so it stays.
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = on_crash;
    ours.sa_flags = SA_ONSTACK;
    sigaction(signal, &ours, nullptr);
  }
}

void tell_calls_of_loaded_codecs() {
  for (const CallingThread* thread = calling_threads; thread != nullptr; thread = thread->next)
    if (thread->function.load(std::memory_order_acquire) != nullptr)
      (Message() << "ecmv: under way: " << *thread << ".\n").send();
}

}  // namespace ecmv::codecs
