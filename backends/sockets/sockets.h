// Stream sockets between ranks: frames, and how they are connected by an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ecmv::backends::sockets {

// Owns a descriptor, which is not passed on to programs that this process starts.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// Two connected ends within this machine. Throws WorldError.
std::pair<Socket, Socket> pair_of_sockets();

// Writes all bytes; false once the other end is gone.
bool write_all(const Socket& socket, std::span<const std::byte> bytes);
bool read_all(const Socket& socket, std::span<std::byte> bytes);

// Kinds of frames: a message of World; the part of a vector that is gathered, or all of it; the word that a gathering
// fails.
enum class Kind : uint64_t { message = 1, part = 2, broken = 3 };
struct Head {
  Kind kind = Kind::message;
  uint64_t bytes = 0;
};
bool write_frame(const Socket& socket, Kind kind, std::span<const std::byte> content);
bool read_head(const Socket& socket, Head& head);

// The two connections of a rank with rank 0: frames go over one of them, signs of life over the other.
struct Link {
  Socket frames, life;
};

// Rank 0 waits at the port until all others have connected, and returns [size] links, the first one empty. Another rank
// connects as soon as rank 0 is there. Both give up after two minutes and throw WorldError.
std::vector<Link> accept_ranks(int port, int size);
Link connect_to_first(const std::string& address, int port, int rank, int size);

}  // namespace ecmv::backends::sockets
