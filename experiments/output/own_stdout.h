// Keeps what codec libraries print to stdout out of our own output: it goes to stderr.
#pragma once

#include <ostream>
#include <streambuf>

namespace ecmv::experiments {

// As long as it lives, stdout is stderr for everyone but stream(). A library may print by write(), by printf() or by
// std::cout, which it shares with us; so our own output goes by stream() alone.
class OwnStdout final : std::streambuf {
 public:
  OwnStdout();
  ~OwnStdout() override;
  OwnStdout(const OwnStdout&) = delete;
  // Our own output: std::cout, or while there is such an object what stdout was before, written at once, since a
  // library may end the process.
  static std::ostream& stream();
  // The file number of our stdout.
  static int file();

 private:
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int_type overflow(int_type next) override;

  std::ostream stream_{this};
};

}  // namespace ecmv::experiments
