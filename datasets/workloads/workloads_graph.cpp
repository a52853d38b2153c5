// Workloads on graphs: offsets, neighbours, and what traversals write beside them.
#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

struct Network {
  int32_t nodes = 0;
  std::vector<int32_t> begin, neighbour;  // [nodes + 1], [edges]

  void capture(MemoryImage& image) const { image.capture("begin", begin, "neighbour", neighbour); }
};

static Network from_edges(int32_t nodes, std::vector<std::pair<int32_t, int32_t>> edges) {
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  Network graph{nodes, std::vector<int32_t>(static_cast<size_t>(nodes) + 1), {}};
  for (const auto& [from, to] : edges) {
    ++graph.begin[static_cast<size_t>(from) + 1];
    graph.neighbour.push_back(to);
  }
  for (int32_t node = 0; node < nodes; ++node)
    graph.begin[static_cast<size_t>(node) + 1] += graph.begin[static_cast<size_t>(node)];
  return graph;
}

// Few nodes with many edges: every edge falls into a quarter of the matrix again and again (R-MAT, 0.57 0.19 0.19
// 0.05).
static Network power_law_graph(int log_nodes, int edges, uint64_t seed) {
  WorkloadRandom random(seed);
  std::vector<std::pair<int32_t, int32_t>> list;
  for (int e = 0; e < edges; ++e) {
    int32_t from = 0, to = 0;
    for (int bit = 0; bit < log_nodes; ++bit) {
      const int64_t draw = random.below(100);
      from = from << 1 | (draw >= 76);
      to = to << 1 | ((draw >= 57 && draw < 76) || draw >= 95);
    }
    list.emplace_back(from, to);
    list.emplace_back(to, from);
  }
  return from_edges(1 << log_nodes, std::move(list));
}

// Streets: a grid with some missing and some long ones.
static Network road_graph(int side, uint64_t seed) {
  WorkloadRandom random(seed);
  std::vector<std::pair<int32_t, int32_t>> list;
  const auto both = [&](int32_t a, int32_t b) {
    list.emplace_back(a, b);
    list.emplace_back(b, a);
  };
  for (int32_t y = 0; y < side; ++y)
    for (int32_t x = 0; x < side; ++x) {
      if (x + 1 < side && random.below(10) > 0) both(y * side + x, y * side + x + 1);
      if (y + 1 < side && random.below(10) > 0) both(y * side + x, (y + 1) * side + x);
      if (random.below(100) == 0) both(y * side + x, static_cast<int32_t>(random.below(int64_t{side} * side)));
    }
  return from_edges(side * side, std::move(list));
}

MemoryImage bfs(uint64_t seed) {
  const Network graph = power_law_graph(14, 60000, seed);
  std::vector<int32_t> level(static_cast<size_t>(graph.nodes), -1), frontier = {0}, order;
  std::vector<uint8_t> visited(static_cast<size_t>(graph.nodes));
  level[0] = 0;
  visited[0] = 1;
  for (int32_t depth = 1; !frontier.empty(); ++depth) {
    std::vector<int32_t> next;
    for (const int32_t node : frontier)
      for (int32_t i = graph.begin[node]; i < graph.begin[node + 1]; ++i)
        if (const int32_t to = graph.neighbour[i]; visited[to] == 0) {
          visited[to] = 1;
          level[to] = depth;
          next.push_back(to);
        }
    order.insert(order.end(), next.begin(), next.end());
    frontier = std::move(next);
  }
  MemoryImage image;
  graph.capture(image);
  image.capture("level", level, "order", order, "visited", visited);
  return image;
}

MemoryImage shortest_paths(uint64_t seed) {
  const Network graph = road_graph(120, seed);
  WorkloadRandom random(seed + 7);
  std::vector<int32_t> weight(graph.neighbour.size()),
      distance(static_cast<size_t>(graph.nodes), std::numeric_limits<int32_t>::max()),
      parent(static_cast<size_t>(graph.nodes), -1);
  for (int32_t& w : weight) w = static_cast<int32_t>(10 + random.below(500));
  using Entry = std::pair<int32_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  distance[0] = 0;
  queue.push({0, 0});
  while (!queue.empty()) {
    const auto [far, node] = queue.top();
    queue.pop();
    if (far > distance[node]) continue;
    for (int32_t i = graph.begin[node]; i < graph.begin[node + 1]; ++i)
      if (const int32_t to = graph.neighbour[i]; far + weight[i] < distance[to]) {
        distance[to] = far + weight[i];
        parent[to] = node;
        queue.push({distance[to], to});
      }
  }
  MemoryImage image;
  graph.capture(image);
  image.capture("weight", weight, "distance", distance, "parent", parent);
  return image;
}

MemoryImage pagerank(uint64_t seed) {
  const Network graph = power_law_graph(13, 40000, seed + 3);
  const auto n = static_cast<size_t>(graph.nodes);
  std::vector<float> rank(n, 1.0f / static_cast<float>(n)), next(n), share(n);
  std::vector<int32_t> degree(n);
  for (size_t node = 0; node < n; ++node) degree[node] = graph.begin[node + 1] - graph.begin[node];
  for (int iteration = 0; iteration < 12; ++iteration) {
    for (size_t node = 0; node < n; ++node)
      share[node] = degree[node] > 0 ? rank[node] / static_cast<float>(degree[node]) : 0;
    for (size_t node = 0; node < n; ++node) {
      float sum = 0;
      for (int32_t i = graph.begin[node]; i < graph.begin[node + 1]; ++i) sum += share[graph.neighbour[i]];
      next[node] = 0.15f / static_cast<float>(n) + 0.85f * sum;
    }
    std::swap(rank, next);
  }
  MemoryImage image;
  graph.capture(image);
  image.capture("degree", degree, "rank", rank, "next", next, "share", share);
  return image;
}

// Lists of 64-bit addresses, as programs with pointers have them: nodes of 32 bytes (next, parent, key, value) in a
// pool.
MemoryImage union_find(uint64_t seed) {
  const Network graph = road_graph(100, seed + 5);
  WorkloadRandom random(seed);
  constexpr uint64_t kPool = 0x00007f3a5c012000, kNodeBytes = 32;
  const auto n = static_cast<size_t>(graph.nodes);
  std::vector<int32_t> root(n);
  for (size_t i = 0; i < n; ++i) root[i] = static_cast<int32_t>(i);
  const auto find = [&](int32_t node) {
    while (root[node] != node) node = root[node] = root[root[node]];
    return node;
  };
  for (int32_t node = 0; node < graph.nodes; ++node)
    for (int32_t i = graph.begin[node]; i < graph.begin[node + 1]; ++i)
      if (random.below(2) == 0) {
        const int32_t a = find(node), b = find(graph.neighbour[i]);
        root[std::max(a, b)] = std::min(a, b);
      }
  std::vector<uint64_t> pool(4 * n);
  for (size_t i = 0; i < n; ++i) {
    const auto address = [&](int32_t node) { return kPool + static_cast<uint64_t>(node) * kNodeBytes; };
    pool[4 * i] = i + 1 < n ? address(static_cast<int32_t>(i + 1)) : 0;
    pool[4 * i + 1] = address(root[i]);
    pool[4 * i + 2] = i;
    pool[4 * i + 3] = static_cast<uint64_t>(graph.begin[i + 1] - graph.begin[i]);
  }
  return image_of("pool", pool, "root", root);
}

}  // namespace ecmv::datasets::workloads
