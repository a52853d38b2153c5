// See own_stdout.h.
#include "experiments/output/own_stdout.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

namespace ecmv::experiments {
namespace {

int own_file = STDOUT_FILENO;
std::ostream* own_stream = nullptr;  // while stdout is stderr

}  // namespace

int OwnStdout::file() { return own_file; }

std::ostream& OwnStdout::stream() { return own_stream == nullptr ? std::cout : *own_stream; }

OwnStdout::OwnStdout() {
  std::cout.flush();
  const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) return;  // then all go to stdout
  own_file = copy;
  dup2(STDERR_FILENO, STDOUT_FILENO);
  own_stream = &stream_;
}

OwnStdout::~OwnStdout() {
  if (own_stream == nullptr) return;
  std::cout.flush();
  std::fflush(stdout);  // what a library printed
  own_stream = nullptr;
  std::cout.clear(stream_.rdstate());  // whether our output was lost, and not whether a library's was
  dup2(own_file, STDOUT_FILENO);
  close(own_file);
  own_file = STDOUT_FILENO;
}

std::streamsize OwnStdout::xsputn(const char* text, std::streamsize count) {
  for (std::streamsize done = 0; done < count;) {
    const ssize_t written = ::write(own_file, text + done, static_cast<size_t>(count - done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return done;
    done += written;
  }
  return count;
}

OwnStdout::int_type OwnStdout::overflow(int_type next) {
  const char one = traits_type::to_char_type(next);
  return xsputn(&one, 1) == 1 ? next : traits_type::eof();
}

}  // namespace ecmv::experiments
