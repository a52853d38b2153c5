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
  ~PrintableStream() override {
    sync();
    stream_.rdbuf(&inner_);
  }

 private:
  // A byte that may begin a control character of two waits for the next one.
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    constexpr char kFirstOfTwo = '\xC2';
    held_.append(text, static_cast<size_t>(count));
    const size_t whole = held_.ends_with(kFirstOfTwo) ? held_.size() - 1 : held_.size();
    const std::string shown = datasets::printable(std::string_view(held_).substr(0, whole), "\n\t");
    held_.erase(0, whole);
    const auto size = static_cast<std::streamsize>(shown.size());
    return inner_.sputn(shown.data(), size) == size ? count : 0;
  }
  int_type overflow(int_type next) override {
    if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
    const char one = traits_type::to_char_type(next);
    return xsputn(&one, 1) == 1 ? next : traits_type::eof();
  }
  int sync() override {
    inner_.sputn(held_.data(), static_cast<std::streamsize>(held_.size()));
    held_.clear();
    return inner_.pubsync();
  }

  std::ostream& stream_;
  std::streambuf& inner_;
  std::string held_;
};

}  // namespace ecmv::experiments
