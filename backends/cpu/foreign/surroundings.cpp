// See surroundings.h.
#include "backends/cpu/foreign/surroundings.h"

#include <fcntl.h>
#include <unistd.h>

#include <clocale>

namespace ecmv::backends::cpu {
namespace {

bool same(const struct sigaction& one, const struct sigaction& other) {
  if (((one.sa_flags ^ other.sa_flags) & SA_SIGINFO) != 0) return false;
  return (one.sa_flags & SA_SIGINFO) != 0 ? one.sa_sigaction == other.sa_sigaction : one.sa_handler == other.sa_handler;
}

}  // namespace

DefaultFloats::DefaultFloats() {
  fegetenv(&before_);
  fesetenv(FE_DFL_ENV);
}
DefaultFloats::~DefaultFloats() { fesetenv(&before_); }

Surroundings::Surroundings() : folder_(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  for (size_t i = 0; i < actions_.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
  if (const char* name = std::setlocale(LC_ALL, nullptr); name != nullptr) locale_ = name;
}

Surroundings::~Surroundings() {
  for (size_t i = 0; i < actions_.size(); ++i) {
    struct sigaction now {};
    if (sigaction(kSignals[i], nullptr, &now) == 0 && !same(now, actions_[i]))
      sigaction(kSignals[i], &actions_[i], nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  if (const char* name = std::setlocale(LC_ALL, nullptr); name == nullptr || locale_ != name)
    std::setlocale(LC_ALL, locale_.c_str());
  if (folder_ < 0) return;
  [[maybe_unused]] const int back = fchdir(folder_);
  close(folder_);
}

}  // namespace ecmv::backends::cpu
