// Keeps what codec libraries print to stdout out of our own output: it goes to stderr.
#pragma once

#include <streambuf>

namespace ecmv::experiments {

// As long as it lives, stdout is stderr for everyone but std::cout, which still writes to what stdout was, at once: a
// library may end the process.
class OwnStdout final : std::streambuf {
 public:
  OwnStdout();
  ~OwnStdout() override;
  OwnStdout(const OwnStdout&) = delete;
  // The file number of our stdout.
  static int file();

 private:
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int_type overflow(int_type next) override;

  std::streambuf* before_ = nullptr;
};

}  // namespace ecmv::experiments
