// See sockets.h.
#include "backends/sockets/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "backends/plugins/plugins.h"
#include "backends/world.h"

namespace ecmv::backends::sockets {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{120};

// The first words of a connection. They differ between programs and builds.
struct Hello {
  char program[8] = {'e', 'c', 'm', 'v', 'r', 'a', 'n', 'k'};
  char compiler[48] = {};
  int32_t version = 1, rank = 0, size = 0, is_life = 0;
  Hello() { std::memcpy(compiler, kPluginCompiler.data(), std::min(sizeof(compiler), kPluginCompiler.size())); }
  bool is_of_world(int others_size) const {
    const Hello own;
    return std::memcmp(program, own.program, sizeof(program)) == 0 &&
           std::memcmp(compiler, own.compiler, sizeof(compiler)) == 0 && version == own.version &&
           size == others_size && rank > 0 && rank < size && (is_life == 0 || is_life == 1);
  }
};

[[noreturn]] void fail(const std::string& what) { throw WorldError(what + ": " + std::strerror(errno) + "."); }

bool wait_for(const Socket& socket, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  pollfd one{socket.descriptor(), POLLIN, 0};
  return left > 0 && ::poll(&one, 1, static_cast<int>(left)) > 0;
}

// Send small messages at once.
void hurry(const Socket& socket) {
  const int on = 1;
  (void)setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Socket connected(const std::string& address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int status = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); status != 0)
    throw WorldError("The address " + address + " (MASTER_ADDR) is not found: " + gai_strerror(status) + ".");
  Socket socket;
  for (const addrinfo* one = found; one != nullptr && !socket; one = one->ai_next) {
    socket = Socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (socket && ::connect(socket.descriptor(), one->ai_addr, one->ai_addrlen) != 0) socket.close();
  }
  freeaddrinfo(found);
  return socket;
}

Socket introduced(const std::string& address, int port, const Hello& hello, Clock::time_point end) {
  while (true) {
    Socket socket = connected(address, port);
    if (socket) {
      hurry(socket);
      // Rank 0 answers, so that another program that listens there is not taken for it.
      std::byte answer{};
      if (write_all(socket, std::as_bytes(std::span(&hello, 1))) && wait_for(socket, end) &&
          read_all(socket, {&answer, 1}) && answer == std::byte{'y'})
        return socket;
    }
    if (Clock::now() > end)
      throw WorldError("Rank 0 does not answer at " + address + ", port " + std::to_string(port) + ".");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::pair<Socket, Socket> pair_of_sockets() {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0) fail("No sockets for another rank");
  return {Socket(both[0]), Socket(both[1])};
}

bool write_all(const Socket& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

bool read_all(const Socket& socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

bool write_frame(const Socket& socket, Kind kind, std::span<const std::byte> content) {
  const Head head{kind, content.size()};
  return write_all(socket, std::as_bytes(std::span(&head, 1))) && write_all(socket, content);
}

bool read_head(const Socket& socket, Head& head) {
  return read_all(socket, std::as_writable_bytes(std::span(&head, 1)));
}

std::vector<Link> accept_ranks(int port, int size) {
  Socket listening(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool has_v6 = static_cast<bool>(listening);
  if (!has_v6) listening = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  (void)setsockopt(listening.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (has_v6) (void)setsockopt(listening.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  const auto* address = has_v6 ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
  if (::bind(listening.descriptor(), address, has_v6 ? sizeof(any6) : sizeof(any4)) != 0 ||
      ::listen(listening.descriptor(), 2 * size) != 0)
    fail("Rank 0 cannot wait for the others at port " + std::to_string(port) + " (MASTER_PORT)");
  std::vector<Link> links(static_cast<size_t>(size));
  const auto end = Clock::now() + kPatience;
  for (int missing = 2 * (size - 1); missing > 0;) {
    if (!wait_for(listening, end))
      throw WorldError("Only " + std::to_string(2 * (size - 1) - missing) + " of " + std::to_string(2 * (size - 1)) +
                       " connections of other ranks came to port " + std::to_string(port) +
                       " (MASTER_PORT) within two minutes.");
    Socket socket(::accept4(listening.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    hurry(socket);
    Hello hello;
    if (!wait_for(socket, std::min(end, Clock::now() + std::chrono::seconds(5))) ||
        !read_all(socket, std::as_writable_bytes(std::span(&hello, 1))) || !hello.is_of_world(size))
      continue;
    Link& link = links[static_cast<size_t>(hello.rank)];
    Socket& place = hello.is_life != 0 ? link.life : link.frames;
    const std::byte answer{'y'};
    if (place || !write_all(socket, {&answer, 1})) continue;
    place = std::move(socket);
    --missing;
  }
  return links;
}

Link connect_to_first(const std::string& address, int port, int rank, int size) {
  Hello hello;
  hello.rank = rank;
  hello.size = size;
  const auto end = Clock::now() + kPatience;
  Link link;
  link.frames = introduced(address, port, hello, end);
  hello.is_life = 1;
  link.life = introduced(address, port, hello, end);
  return link;
}

}  // namespace ecmv::backends::sockets
