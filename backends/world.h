// World: the processes that one command works with. Three kinds: what mpirun started, connected by MPI, a plugin,
// libecmv_mpi.so, that is opened when it is asked for, so that a program built with it runs where there is none; what
// torchrun or the like started, and what the command started itself on this machine, both connected by sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/ranks.h"

namespace ecmv::backends {

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string library() const = 0;  // name and version
  // Messages between rank 0 and another one, in order. Who waits for one sleeps, so that it is in nobody's way.
  virtual void send(int to, std::span<const std::byte> message) = 0;
  virtual std::vector<std::byte> receive(int from) = 0;
  // The first `count` ranks as those of a product, which gather in the host's memory; null for the others. All ranks of
  // the world call it together.
  virtual std::unique_ptr<Ranks> first(int count) = 0;
  // The last call, of all ranks.
  virtual void finish() = 0;
};

// There is no world, with the reason as a sentence.
struct WorldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What `extern "C" const ecmv::backends::WorldPlugin* ecmv_world_plugin()` of the plugin returns.
struct WorldPlugin {
  uint32_t version;
  std::string_view compiler;
  std::unique_ptr<World> (*join)();
};
inline constexpr uint32_t kWorldVersion = 3;

// Called from any thread, once, with a sentence about a rank that has ended or is not heard of any more ("" where it is
// only to be followed). It ends this process, and must not return: whoever waits for that rank waits for ever.
using OnLoss = std::function<void(const std::string& sentence)>;

// Joins the world that mpirun made, once a process; mpirun ends all ranks where one does. Throws WorldError where
// there is no MPI.
std::unique_ptr<World> join_world();
// The ranks that a launcher of MPI says it started, by the environment: 1 without one.
int launched_ranks();

// The world of torchrun-like launchers, by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 waits at that address,
// one port above it where torchrun's agent is there itself; nothing is asked of who connects but the right first words.
// Throws WorldError.
std::unique_ptr<World> join_by_environment(OnLoss on_loss);

// Starts `size` - 1 more processes of this program with the same arguments, which are its ranks from 1 on; this one is
// rank 0. They end with it. Throws WorldError.
std::unique_ptr<World> start_world(int size, std::span<const std::string> arguments, OnLoss on_loss);
// In a process that start_world() started: its world. Null elsewhere.
std::unique_ptr<World> join_starter(OnLoss on_loss);

}  // namespace ecmv::backends
