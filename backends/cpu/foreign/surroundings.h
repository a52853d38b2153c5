// What a thread and its process share with code that they call. Libraries change it without ill will: one that was
// linked with -ffast-math makes subnormal numbers zero for the thread that loads it and for all threads that this one
// starts later, and with them a reference would change.
#pragma once

#include <fenv.h>
#include <signal.h>

#include <array>
#include <string>

namespace ecmv::backends::cpu {

// While it lives, this thread rounds to nearest and keeps subnormal numbers, as all code here expects; afterwards as
// before. It costs some hundred cycles.
class DefaultFloats {
 public:
  DefaultFloats();
  ~DefaultFloats();
  DefaultFloats(const DefaultFloats&) = delete;

 private:
  fenv_t before_;
};

// Around calls of foreign code outside the clock: what it changes is as before afterwards: rounding, signal handlers,
// the signals that this thread blocks, the locale and the working folder.
class Surroundings {
 public:
  Surroundings();
  ~Surroundings();
  Surroundings(const Surroundings&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGPIPE, SIGSEGV, SIGBUS,
                                     SIGILL, SIGFPE,  SIGABRT, SIGALRM, SIGCHLD, SIGXFSZ};
  DefaultFloats floats_;
  std::array<struct sigaction, std::size(kSignals)> actions_;
  sigset_t blocked_;
  std::string locale_;
  int folder_;
};

}  // namespace ecmv::backends::cpu
