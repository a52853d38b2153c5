// Workloads of dense linear algebra and many bodies.
#include <algorithm>
#include <array>
#include <cmath>

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

MemoryImage gemm(uint64_t) {
  constexpr int n = 176;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      a[i * n + j] = static_cast<float>((i * j + 1) % n) / n;
      b[i * n + j] = static_cast<float>(i * (j + 1) % n) / n;
      c[i * n + j] = static_cast<float>(i * (j + 2) % n) / n;
    }
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) c[i * n + j] += 1.5f * a[i * n + k] * b[k * n + j];
  return image_of("a", a, "b", b, "c", c);
}

MemoryImage lu(uint64_t seed) {
  constexpr int n = 192;
  WorkloadRandom random(seed);
  std::vector<double> a(n * n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) a[i * n + j] = i == j ? n : static_cast<double>(random.below(2000) - 1000) / 1000;
  MemoryImage image;
  image.capture("a", a);
  for (int k = 0; k < n; ++k)
    for (int i = k + 1; i < n; ++i) {
      a[i * n + k] /= a[k * n + k];
      for (int j = k + 1; j < n; ++j) a[i * n + j] -= a[i * n + k] * a[k * n + j];
    }
  image.capture("lu", a);
  return image;
}

MemoryImage covariance(uint64_t seed) {
  constexpr int samples = 320, columns = 192;
  WorkloadRandom random(seed);
  std::vector<float> data(samples * columns), mean(columns), covariance(columns * columns);
  for (int i = 0; i < samples; ++i)
    for (int j = 0; j < columns; ++j)  // readings with two decimals that follow a common trend
      data[i * columns + j] = static_cast<float>(2000 + 10 * j + i + random.below(100)) / 100;
  MemoryImage image;
  image.capture("data", data);
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < samples; ++i) mean[j] += data[i * columns + j];
    mean[j] /= samples;
    for (int i = 0; i < samples; ++i) data[i * columns + j] -= mean[j];
  }
  for (int i = 0; i < columns; ++i)
    for (int j = i; j < columns; ++j) {
      float sum = 0;
      for (int k = 0; k < samples; ++k) sum += data[k * columns + i] * data[k * columns + j];
      covariance[i * columns + j] = covariance[j * columns + i] = sum / (samples - 1);
    }
  image.capture("centred", data, "covariance", covariance);
  return image;
}

// A signal of a few tones, transformed in place: real and imaginary parts in turn.
MemoryImage fft(uint64_t seed) {
  constexpr int log_n = 14, n = 1 << log_n;
  WorkloadRandom random(seed);
  std::vector<double> twiddle(n), data(2 * n);
  // Roots of unity by halving angles: cos(x/2) = sqrt((1 + cos x) / 2).
  std::vector<std::array<double, 2>> root(log_n + 1);
  root[1] = {-1, 0};
  if constexpr (log_n > 1) root[2] = {0, -1};
  for (int k = 3; k <= log_n; ++k) {
    const double c = std::sqrt((1 + root[k - 1][0]) / 2);
    root[k] = {c, root[k - 1][1] / (2 * c)};
  }
  for (int k = 0; k < n / 2; ++k) {  // exp(-2 pi i k / n) from the binary digits of k
    double re = 1, im = 0;
    for (int bit = 0; bit < log_n; ++bit)
      if (k >> bit & 1) {
        const std::array<double, 2> w = root[log_n - bit];
        const double next = re * w[0] - im * w[1];
        im = re * w[1] + im * w[0];
        re = next;
      }
    twiddle[2 * k] = re;
    twiddle[2 * k + 1] = im;
  }
  for (int i = 0; i < n; ++i)
    for (const int tone : {37, 411, 2800})
      data[2 * i] +=
          twiddle[2 * (static_cast<int64_t>(i) * tone % (n / 2))] + static_cast<double>(random.below(64)) / 1024;
  MemoryImage image;
  image.capture("twiddle", twiddle, "signal", data);
  for (int half = n / 2; half >= 1; half /= 2)
    for (int block = 0; block < n; block += 2 * half)
      for (int k = 0; k < half; ++k) {
        double* const low = &data[2 * (block + k)];
        double* const high = &data[2 * (block + k + half)];
        const double re = low[0] - high[0], im = low[1] - high[1];
        const double wr = twiddle[2 * (k * (n / 2 / half))], wi = twiddle[2 * (k * (n / 2 / half)) + 1];
        low[0] += high[0];
        low[1] += high[1];
        high[0] = re * wr - im * wi;
        high[1] = re * wi + im * wr;
      }
  image.capture("spectrum", data);
  return image;
}

// Structures of arrays; masses are equal, as in most runs.
MemoryImage nbody(uint64_t seed) {
  constexpr int n = 1536, steps = 3;
  WorkloadRandom random(seed);
  std::vector<std::vector<float>> position(3, std::vector<float>(n)), velocity(3, std::vector<float>(n)),
      force(3, std::vector<float>(n));
  std::vector<float> mass(n, 1.0f / n);
  for (int axis = 0; axis < 3; ++axis)
    for (int i = 0; i < n; ++i) {
      position[axis][i] = static_cast<float>(random.normal());
      velocity[axis][i] = static_cast<float>(random.normal()) * 0.1f;
    }
  MemoryImage image;
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < n; ++i) {
      std::array<float, 3> sum = {};
      for (int j = 0; j < n; ++j) {
        std::array<float, 3> d;
        float r2 = 0.01f;
        for (int axis = 0; axis < 3; ++axis) {
          d[axis] = position[axis][j] - position[axis][i];
          r2 += d[axis] * d[axis];
        }
        const float scale = mass[j] / (r2 * std::sqrt(r2));
        for (int axis = 0; axis < 3; ++axis) sum[axis] += d[axis] * scale;
      }
      for (int axis = 0; axis < 3; ++axis) force[axis][i] = sum[axis];
    }
    for (int axis = 0; axis < 3; ++axis) {
      for (int i = 0; i < n; ++i) {
        velocity[axis][i] += 0.01f * force[axis][i];
        position[axis][i] += 0.01f * velocity[axis][i];
      }
      image.capture("position", position[axis], "velocity", velocity[axis], "force", force[axis]);
    }
    image.capture("mass", mass);
  }
  return image;
}

// Atoms in a box that attract and push each other off (Lennard-Jones), each with x, y, z in turn.
MemoryImage molecular_dynamics(uint64_t seed) {
  constexpr int side = 12, n = side * side * side, steps = 4;
  constexpr double spacing = 1.2, box = side * spacing, cutoff2 = 6.25, dt = 0.004;
  WorkloadRandom random(seed);
  std::vector<double> position(3 * n), velocity(3 * n), force(3 * n);
  for (int i = 0; i < n; ++i)
    for (int axis = 0; axis < 3; ++axis) {
      const int cell = axis == 0 ? i % side : axis == 1 ? i / side % side : i / side / side;
      position[3 * i + axis] = spacing * cell + 0.05 * random.normal();
      velocity[3 * i + axis] = random.normal();
    }
  for (int step = 0; step < steps; ++step) {
    std::fill(force.begin(), force.end(), 0.0);
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j < n; ++j) {
        std::array<double, 3> d;
        double r2 = 0;
        for (int axis = 0; axis < 3; ++axis) {
          d[axis] = position[3 * i + axis] - position[3 * j + axis];
          if (d[axis] > box / 2) d[axis] -= box;
          if (d[axis] < -box / 2) d[axis] += box;
          r2 += d[axis] * d[axis];
        }
        if (r2 > cutoff2) continue;
        const double inverse = 1 / r2, power6 = inverse * inverse * inverse,
                     scale = 24 * inverse * power6 * (2 * power6 - 1);
        for (int axis = 0; axis < 3; ++axis) {
          force[3 * i + axis] += scale * d[axis];
          force[3 * j + axis] -= scale * d[axis];
        }
      }
    for (int k = 0; k < 3 * n; ++k) {
      velocity[k] += dt * force[k];
      position[k] += dt * velocity[k];
    }
  }
  return image_of("position", position, "velocity", velocity, "force", force);
}

// Weights, inputs and int32 sums of an int8 product.
MemoryImage gemm_int8(uint64_t seed) {
  constexpr int n = 256, batch = 192;
  WorkloadRandom random(seed);
  std::vector<int8_t> weights(n * n), input(batch * n);
  std::vector<int32_t> sums(batch * n);
  for (int8_t& w : weights)
    w = static_cast<int8_t>(std::nearbyint(std::fmin(127.0, std::fmax(-127.0, 12 * random.normal()))));
  for (int8_t& x : input)
    x = static_cast<int8_t>(std::nearbyint(std::fmin(127.0, std::fmax(-127.0, 30 * random.normal()))));
  for (int b = 0; b < batch; ++b)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k) sums[b * n + i] += weights[i * n + k] * input[b * n + k];
  return image_of("weights", weights, "input", input, "sums", sums);
}

}  // namespace ecmv::datasets::workloads
