// See write_protection.h. The pages are mapped read-only; the handler of the fault saves them, makes them writable and
// lets the write happen.
#include "backends/cpu/foreign/write_protection.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace ecmv::backends::cpu {

struct WriteProtection::Pages {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  std::atomic<const std::byte*> written = nullptr;
  std::byte* before = nullptr;  // as long as `written`

  bool protect(int access) const { return mprotect(begin, bytes, access) == 0; }
  void forget() {
    if (before != nullptr) munmap(before, bytes);
    before = nullptr;
    written = nullptr;
  }
};

namespace {

using Pages = WriteProtection::Pages;

// Never destroyed, since buffers may outlive other statics. A fault happens in a kernel, which never holds the mutex.
std::mutex& mutex() {
  static auto* const one = new std::mutex;
  return *one;
}
std::map<const std::byte*, Pages*>& all_pages() {
  static auto* const all = new std::map<const std::byte*, Pages*>;
  return *all;
}
struct sigaction previous;

// Whether the write may be tried again.
bool let_through(const std::byte* address) {
  const std::scoped_lock lock(mutex());
  auto found = all_pages().upper_bound(address);
  if (found == all_pages().begin()) return false;
  Pages& pages = *(--found)->second;
  if (address >= pages.begin + pages.bytes) return false;
  if (pages.written != nullptr) return true;  // another thread was faster
  void* const copy = mmap(nullptr, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, pages.begin, pages.bytes);
  if (!pages.protect(PROT_READ | PROT_WRITE)) {
    munmap(copy, pages.bytes);
    return false;
  }
  pages.before = static_cast<std::byte*>(copy);
  pages.written = address;
  return true;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (info->si_code == SEGV_ACCERR && let_through(static_cast<const std::byte*>(info->si_addr))) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  sigaction(signal, &previous, nullptr);  // the fault comes again
}

}  // namespace

// Others may have put their own handler in its place since.
void WriteProtection::install() {
  struct sigaction now {};
  if (sigaction(SIGSEGV, nullptr, &now) != 0 || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault))
    return;
  previous = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

WriteProtection::WriteProtection(std::byte* begin, size_t bytes) : pages_(std::make_unique<Pages>()) {
  pages_->begin = begin;
  pages_->bytes = bytes;
  const std::scoped_lock lock(mutex());
  install();
  if (pages_->protect(PROT_READ)) all_pages()[begin] = pages_.get();
}

WriteProtection::~WriteProtection() {
  const std::scoped_lock lock(mutex());
  if (all_pages().erase(pages_->begin) > 0) pages_->protect(PROT_READ | PROT_WRITE);
  pages_->forget();
}

const std::byte* WriteProtection::written() const { return pages_->written; }

void WriteProtection::restore() {
  const std::scoped_lock lock(mutex());
  if (pages_->written == nullptr) return;
  std::memcpy(pages_->begin, pages_->before, pages_->bytes);
  pages_->forget();
  pages_->protect(PROT_READ);
}

}  // namespace ecmv::backends::cpu
