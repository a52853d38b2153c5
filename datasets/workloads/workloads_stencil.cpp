// Workloads on regular grids: heat, waves, cells, pictures.
#include <algorithm>
#include <cstdlib>

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

MemoryImage heat(uint64_t seed) {
  constexpr int n = 224, steps = 120;
  WorkloadRandom random(seed);
  std::vector<float> now(n * n, 20.0f), next, power(n * n);
  for (int k = 0; k < 12; ++k) {  // units of a chip that take power
    const auto x0 = static_cast<int>(random.below(n - 40)), y0 = static_cast<int>(random.below(n - 40));
    const auto watts = static_cast<float>(random.below(50)) / 100;
    for (int y = y0; y < y0 + 36; ++y)
      for (int x = x0; x < x0 + 36; ++x) power[y * n + x] = watts;
  }
  next = now;
  for (int step = 0; step < steps; ++step) {
    for (int y = 1; y < n - 1; ++y)
      for (int x = 1; x < n - 1; ++x) {
        const int i = y * n + x;
        next[i] = now[i] + 0.2f * (now[i - 1] + now[i + 1] + now[i - n] + now[i + n] - 4 * now[i]) + power[i];
      }
    std::swap(now, next);
  }
  return image_of("power", power, "now", now, "next", next);
}

// Electric and magnetic fields around a pulse, midway.
MemoryImage fdtd(uint64_t) {
  constexpr int n = 144, steps = 50;
  std::vector<double> ex(n * n), ey(n * n), hz(n * n);
  for (int step = 0; step < steps; ++step) {
    hz[n / 3 * n + n / 2] += step < 20 ? static_cast<double>(step * (20 - step)) / 100 : 0;
    for (int y = 1; y < n; ++y)
      for (int x = 1; x < n; ++x) {
        const int i = y * n + x;
        ex[i] += 0.5 * (hz[i] - hz[i - n]);
        ey[i] -= 0.5 * (hz[i] - hz[i - 1]);
      }
    for (int y = 0; y < n - 1; ++y)
      for (int x = 0; x < n - 1; ++x) {
        const int i = y * n + x;
        hz[i] -= 0.7 * (ey[i + 1] - ey[i] - ex[i + n] + ex[i]);
      }
  }
  return image_of("ex", ex, "ey", ey, "hz", hz);
}

MemoryImage life(uint64_t seed) {
  constexpr int n = 448, steps = 40;
  WorkloadRandom random(seed);
  std::vector<uint8_t> cells(n * n), neighbours(n * n);
  for (uint8_t& cell : cells) cell = random.below(4) == 0;
  for (int step = 0; step < steps; ++step) {
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) {
        int count = 0;
        for (int dy = n - 1; dy <= n + 1; ++dy)
          for (int dx = n - 1; dx <= n + 1; ++dx) count += cells[(y + dy) % n * n + (x + dx) % n];
        neighbours[y * n + x] = static_cast<uint8_t>(count - cells[y * n + x]);
      }
    for (int i = 0; i < n * n; ++i) cells[i] = neighbours[i] == 3 || (neighbours[i] == 2 && cells[i] != 0);
  }
  return image_of("cells", cells, "neighbours", neighbours);
}

// A picture of soft shapes with a little noise.
static std::vector<uint8_t> picture(int width, int height, uint64_t seed) {
  WorkloadRandom random(seed);
  std::vector<int> light(static_cast<size_t>(width) * height, 60);
  for (int k = 0; k < 30; ++k) {
    const auto cx = random.below(width), cy = random.below(height), radius = 10 + random.below(60),
               strength = random.below(160) - 60;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const int64_t d2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
        if (d2 < radius * radius)
          light[static_cast<size_t>(y) * width + x] +=
              static_cast<int>(strength * (radius * radius - d2) / (radius * radius));
      }
  }
  std::vector<uint8_t> out;
  for (const int value : light)
    out.push_back(static_cast<uint8_t>(std::clamp<int64_t>(value + random.below(5) - 2, 0, 255)));
  return out;
}

MemoryImage sobel(uint64_t seed) {
  constexpr int n = 352;
  const std::vector<uint8_t> in = picture(n, n, seed);
  std::vector<int16_t> dx(n * n), dy(n * n);
  std::vector<uint8_t> edges(n * n);
  for (int y = 1; y < n - 1; ++y)
    for (int x = 1; x < n - 1; ++x) {
      const int i = y * n + x;
      dx[i] = static_cast<int16_t>(in[i - n + 1] + 2 * in[i + 1] + in[i + n + 1] - in[i - n - 1] - 2 * in[i - 1] -
                                   in[i + n - 1]);
      dy[i] = static_cast<int16_t>(in[i + n - 1] + 2 * in[i + n] + in[i + n + 1] - in[i - n - 1] - 2 * in[i - n] -
                                   in[i - n + 1]);
      edges[i] = std::abs(dx[i]) + std::abs(dy[i]) > 80 ? 255 : 0;
    }
  return image_of("picture", in, "dx", dx, "dy", dy, "edges", edges);
}

// Summed areas of a picture and a blur by them, as cameras' programs do.
MemoryImage integral_image(uint64_t seed) {
  constexpr int n = 256, radius = 4;
  const std::vector<uint8_t> in = picture(n, n, seed + 1);
  std::vector<uint32_t> sums((n + 1) * (n + 1));
  std::vector<uint16_t> blurred(n * n);
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x)
      sums[(y + 1) * (n + 1) + x + 1] =
          in[y * n + x] + sums[y * (n + 1) + x + 1] + sums[(y + 1) * (n + 1) + x] - sums[y * (n + 1) + x];
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const int x0 = std::max(0, x - radius), x1 = std::min(n, x + radius + 1), y0 = std::max(0, y - radius),
                y1 = std::min(n, y + radius + 1);
      const uint32_t sum =
          sums[y1 * (n + 1) + x1] - sums[y0 * (n + 1) + x1] - sums[y1 * (n + 1) + x0] + sums[y0 * (n + 1) + x0];
      blurred[y * n + x] = static_cast<uint16_t>(16 * sum / ((x1 - x0) * (y1 - y0)));  // with four binary places
    }
  return image_of("picture", in, "sums", sums, "blurred", blurred);
}

}  // namespace ecmv::datasets::workloads
