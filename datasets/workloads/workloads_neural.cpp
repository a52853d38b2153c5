// Workloads of neural networks: layers with their weights and activations.
#include <algorithm>
#include <cmath>

#include "datasets/sources/distributions.h"
#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

float exponential(float x) { return static_cast<float>(exact_exp2(static_cast<double>(x) * 0x1.71547652b82fep+0)); }
float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

static std::vector<float> weights(size_t count, double deviation, WorkloadRandom& random) {
  std::vector<float> out(count);
  for (float& w : out) w = static_cast<float>(deviation * random.normal());
  return out;
}

// Two 3 x 3 convolutions with rectifiers and pooling on a picture of soft shapes.
MemoryImage convolution(uint64_t seed) {
  constexpr int n = 56, in_channels = 3, channels = 16;
  WorkloadRandom random(seed);
  std::vector<float> input(n * n * in_channels);
  for (int c = 0; c < in_channels; ++c)
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x)
        input[(c * n + y) * n + x] = static_cast<float>((x * (c + 2) + y * 3) % 97 + random.below(8)) / 255;
  const auto layer = [&](const std::vector<float>& in, const std::vector<float>& w, int from, int to) {
    std::vector<float> out(static_cast<size_t>(to) * n * n);
    for (int o = 0; o < to; ++o)
      for (int y = 1; y < n - 1; ++y)
        for (int x = 1; x < n - 1; ++x) {
          float sum = -0.02f;
          for (int i = 0; i < from; ++i)
            for (int k = 0; k < 9; ++k)
              sum += w[static_cast<size_t>((o * from + i) * 9 + k)] *
                     in[static_cast<size_t>((i * n + y + k / 3 - 1) * n + x + k % 3 - 1)];
          out[static_cast<size_t>((o * n + y) * n + x)] = std::fmax(0.0f, sum);
        }
    return out;
  };
  const std::vector<float> w1 = weights(channels * in_channels * 9, 0.25, random),
                           w2 = weights(channels * channels * 9, 0.1, random);
  const std::vector<float> a1 = layer(input, w1, in_channels, channels), a2 = layer(a1, w2, channels, channels);
  return image_of("input", input, "w1", w1, "a1", a1, "w2", w2, "a2", a2);
}

// A quantised perceptron: int8 weights of different scales a row, uint8 activations after rectifiers, int32 sums.
MemoryImage quantised_mlp(uint64_t seed) {
  constexpr int width = 256, batch = 96, layers = 3;
  WorkloadRandom random(seed);
  std::vector<uint8_t> activations(batch * width);
  for (uint8_t& a : activations) a = static_cast<uint8_t>(random.below(3) == 0 ? 0 : random.below(128));
  MemoryImage image;
  for (int l = 0; l < layers; ++l) {
    std::vector<int8_t> w(width * width);
    for (int row = 0; row < width; ++row) {
      const double deviation = 10 + static_cast<double>(random.below(20));
      for (int col = 0; col < width; ++col)
        w[row * width + col] =
            static_cast<int8_t>(std::nearbyint(std::clamp(deviation * random.normal(), -127.0, 127.0)));
    }
    std::vector<int32_t> sums(batch * width);
    std::vector<uint8_t> next(batch * width);
    for (int b = 0; b < batch; ++b)
      for (int row = 0; row < width; ++row) {
        int32_t& sum = sums[b * width + row];
        for (int col = 0; col < width; ++col) sum += w[row * width + col] * activations[b * width + col];
        next[b * width + row] = static_cast<uint8_t>(std::clamp(sum / 320, 0, 255));
      }
    image.capture("weights", w, "activations", activations, "sums", sums);
    activations = std::move(next);
  }
  return image;
}

// One head of causal attention.
MemoryImage attention(uint64_t seed) {
  constexpr int tokens = 200, width = 64;
  WorkloadRandom random(seed);
  const std::vector<float> q = weights(tokens * width, 1, random), k = weights(tokens * width, 1, random),
                           v = weights(tokens * width, 0.6, random);
  std::vector<float> scores(tokens * tokens), out(tokens * width);
  for (int i = 0; i < tokens; ++i) {
    float largest = -1e30f, total = 0;
    for (int j = 0; j <= i; ++j) {
      float sum = 0;
      for (int c = 0; c < width; ++c) sum += q[i * width + c] * k[j * width + c];
      scores[i * tokens + j] = sum / 8;
      largest = std::fmax(largest, sum / 8);
    }
    for (int j = 0; j <= i; ++j) total += scores[i * tokens + j] = exponential(scores[i * tokens + j] - largest);
    for (int j = 0; j <= i; ++j) {
      scores[i * tokens + j] /= total;
      for (int c = 0; c < width; ++c) out[i * width + c] += scores[i * tokens + j] * v[j * width + c];
    }
  }
  return image_of("q", q, "k", k, "v", v, "scores", scores, "out", out);
}

// A network with one hidden layer learns to add bits: weights, gradients and momenta after some steps.
MemoryImage backpropagation(uint64_t seed) {
  constexpr int inputs = 96, hidden = 160, batch = 32, steps = 12;
  WorkloadRandom random(seed);
  std::vector<float> w1 = weights(hidden * inputs, 0.1, random), w2 = weights(hidden, 0.1, random), g1(hidden * inputs),
                     m1(hidden * inputs);
  std::vector<float> x(batch * inputs), h(batch * hidden), d(batch * hidden);
  for (int step = 0; step < steps; ++step) {
    std::fill(g1.begin(), g1.end(), 0.0f);
    for (int b = 0; b < batch; ++b) {
      float wanted = 0, got = 0;
      for (int i = 0; i < inputs; ++i) wanted += x[b * inputs + i] = random.below(4) == 0 ? 1.0f : 0.0f;
      for (int j = 0; j < hidden; ++j) {
        float sum = 0;
        for (int i = 0; i < inputs; ++i) sum += w1[j * inputs + i] * x[b * inputs + i];
        h[b * hidden + j] = logistic(sum);
        got += w2[j] * h[b * hidden + j];
      }
      const float error = got - wanted / inputs;
      for (int j = 0; j < hidden; ++j) {
        const float activation = h[b * hidden + j];
        d[b * hidden + j] = error * w2[j] * activation * (1 - activation);
        w2[j] -= 0.01f * error * activation;
        for (int i = 0; i < inputs; ++i) g1[j * inputs + i] += d[b * hidden + j] * x[b * inputs + i];
      }
    }
    for (size_t i = 0; i < w1.size(); ++i) {
      m1[i] = 0.9f * m1[i] + g1[i] / batch;
      w1[i] -= 0.1f * m1[i];
    }
  }
  return image_of("w1", w1, "g1", g1, "m1", m1, "w2", w2, "x", x, "h", h, "d", d);
}

}  // namespace ecmv::datasets::workloads
