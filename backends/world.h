// World: the processes that one command line was started as, by mpirun or by what does the same on a cluster. MPI is a
// plugin, libecmv_mpi.so, opened when it is asked for, so that a program built with it runs where there is none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
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
  // Messages, in order between two ranks. Who waits for one sleeps, so that it is in nobody's way.
  virtual void send(int to, std::span<const std::byte> message) = 0;
  virtual std::vector<std::byte> receive(int from) = 0;
  // The first `count` ranks as those of a product; null for the others. All ranks of the world call it together.
  virtual std::unique_ptr<Ranks> first(int count) = 0;
  // The last call, of all ranks.
  virtual void finish() = 0;
};

// What `extern "C" const ecmv::backends::WorldPlugin* ecmv_world_plugin()` of the plugin returns.
struct WorldPlugin {
  uint32_t version;
  std::string_view compiler;
  std::unique_ptr<World> (*join)();
};
inline constexpr uint32_t kWorldVersion = 1;

// Joins the world, once a process. Throws std::runtime_error with a sentence where there is no MPI.
std::unique_ptr<World> join_world();
// The ranks that a launcher says it started, by the environment: 1 without one.
int launched_ranks();

}  // namespace ecmv::backends
