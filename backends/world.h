// World: the processes that one command works with. There are three kinds. Processes that mpirun started are connected
// by MPI: a plugin, libecmv_mpi.so, which is opened on demand, so that a program built with it also runs on machines
// without MPI. Processes that torchrun or the like started are connected by sockets, and so are those that the command
// started itself on this machine.
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
  // Sends a message between rank 0 and another rank, in order. A rank that waits for one sleeps, so that it disturbs
  // nobody.
  virtual void send(int to, std::span<const std::byte> message) = 0;
  virtual std::vector<std::byte> receive(int from) = 0;
  // The first `count` ranks as the ranks of a product, which gather in the host's memory; null on the others. All ranks
  // of the world call it together.
  virtual std::unique_ptr<Ranks> first(int count) = 0;
  // The last call, of all ranks.
  virtual void finish() = 0;
};

// There is no world, with the reason as a sentence.
struct WorldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The result of the plugin's `extern "C" const ecmv::backends::WorldPlugin* ecmv_world_plugin()`.
struct WorldPlugin {
  uint32_t version;
  std::string_view compiler;
  std::unique_ptr<World> (*join)();
};
inline constexpr uint32_t kWorldVersion = 3;

// Called once, from any thread, with a sentence about a rank that has ended or gone silent ("" where this process
// only follows the other's end). It must end this process and not return: a rank that waits for the lost one waits for
// ever.
using OnLoss = std::function<void(const std::string& sentence)>;

// Joins the world that mpirun made, once a process. mpirun ends all ranks when one ends. Throws WorldError where there
// is no MPI.
std::unique_ptr<World> join_world();
// The number of ranks that a launcher of MPI started, by the environment; 1 without a launcher.
int launched_ranks();

// The world of torchrun-like launchers, from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 waits at that
// address, one port higher if torchrun's agent occupies it. A peer needs nothing but the right first words. Throws
// WorldError.
std::unique_ptr<World> join_by_environment(OnLoss on_loss);

// Starts `size` - 1 more processes of this program with the same arguments, as ranks from 1 on; this one is rank 0.
// They end with it. Throws WorldError.
std::unique_ptr<World> start_world(int size, std::span<const std::string> arguments, OnLoss on_loss);
// In a process that start_world() started: its world. Null elsewhere.
std::unique_ptr<World> join_starter(OnLoss on_loss);

}  // namespace ecmv::backends
