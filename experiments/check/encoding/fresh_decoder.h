// Whether sections, settings and shape are all that a codec decodes from. A codec that keeps data elsewhere, in a
// static or in a file, stores as few bytes as it likes. So a process that was forked before anything was encoded
// decodes as well; it opens no file and shares no memory.
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "codecs/codec.h"
#include "experiments/ranks/message_pipe.h"

namespace ecmv::experiments {

class FreshDecoder {
 public:
  // Forks the process, which knows all codecs that there are now.
  FreshDecoder();
  ~FreshDecoder();
  FreshDecoder(const FreshDecoder&) = delete;
  // The one that a run has made, or null.
  static FreshDecoder* current();

  // "" if the codec decodes these bytes there as well, or if no process could be made; otherwise what it did.
  // `seconds`: what decoding took here.
  std::string difference(const codecs::Codec& codec, const codecs::CompressedMatrix& compressed,
                         std::span<const std::byte> decoded, double seconds);

 private:
  void start();
  void stop();
  std::mutex mutex_;
  int child_ = -1;
  MessagePipe pipe_;
};

}  // namespace ecmv::experiments
