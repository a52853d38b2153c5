// Keeps control characters of what a stream shows from the terminal: names in files, keys of configs and paths may hold
// any.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

#include "datasets/printable.h"

namespace ecmv::experiments {

// Writes them out on this stream for as long as the object lives, except line ends and tabs.
class PrintableStream final : std::streambuf {
 public:
  explicit PrintableStream(std::ostream& stream) : stream_(stream), inner_(*stream.rdbuf(this)) {}
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;
  ~PrintableStream() override { stream_.rdbuf(&inner_); }

 private:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::string shown = datasets::printable({text, static_cast<size_t>(count)}, "\n\t");
    const auto size = static_cast<std::streamsize>(shown.size());
    return inner_.sputn(shown.data(), size) == size ? count : 0;
  }
  int_type overflow(int_type next) override {
    const char one = traits_type::to_char_type(next);
    return xsputn(&one, 1) == 1 ? next : traits_type::eof();
  }
  int sync() override { return inner_.pubsync(); }

  std::ostream& stream_;
  std::streambuf& inner_;
};

}  // namespace ecmv::experiments
