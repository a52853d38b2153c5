// Workloads on integers: counting, sorting, hashing, sequences, sound, random states.
#include <algorithm>
#include <array>
#include <numeric>

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

// Samples of a 12-bit converter, their histogram and its running sums.
MemoryImage histogram(uint64_t seed) {
  constexpr int n = 120000;
  WorkloadRandom random(seed);
  std::vector<uint16_t> samples(n);
  std::vector<uint32_t> bins(4096);
  std::vector<uint64_t> running(4096), squares(4096);
  for (uint16_t& sample : samples)
    sample = static_cast<uint16_t>(std::clamp(1800 + 260 * random.normal(), 0.0, 4095.0));
  for (const uint16_t sample : samples) ++bins[sample];
  std::partial_sum(bins.begin(), bins.end(), running.begin(), std::plus<uint64_t>());
  for (size_t i = 0; i < bins.size(); ++i) squares[i] = uint64_t{bins[i]} * bins[i] * i + (i > 0 ? squares[i - 1] : 0);
  return image_of("samples", samples, "bins", bins, "running", running, "squares", squares);
}

// Keys and their positions, half sorted (after two of four passes) and sorted.
MemoryImage radix_sort(uint64_t seed) {
  constexpr size_t n = 24000;
  WorkloadRandom random(seed);
  std::vector<uint32_t> keys(n), positions(n), next_keys(n), next_positions(n);
  for (size_t i = 0; i < n; ++i)
    keys[i] = static_cast<uint32_t>(random.below(10'000'000)), positions[i] = static_cast<uint32_t>(i);
  MemoryImage image;
  image.capture("keys", keys);
  for (int pass = 0; pass < 4; ++pass) {
    std::array<size_t, 257> begin = {};
    for (const uint32_t key : keys) ++begin[(key >> (8 * pass) & 255) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (size_t i = 0; i < n; ++i) {
      const size_t to = begin[keys[i] >> (8 * pass) & 255]++;
      next_keys[to] = keys[i];
      next_positions[to] = positions[i];
    }
    std::swap(keys, next_keys);
    std::swap(positions, next_positions);
    if (pass % 2 == 0) continue;
    image.capture("keys", keys, "positions", positions);
  }
  return image;
}

// Events with a time in nanoseconds and an amount, merged from eight sorted logs.
MemoryImage merge_logs(uint64_t seed) {
  constexpr int logs = 8, events = 2400;
  WorkloadRandom random(seed);
  std::vector<int64_t> time, amount, merged_time, merged_amount;
  for (int log = 0; log < logs; ++log) {
    int64_t now = 1'700'000'000'000'000'000 + random.below(1'000'000'000);
    for (int i = 0; i < events; ++i) {
      now += 1000 * random.below(4'000'000);
      time.push_back(now);
      amount.push_back(random.below(20) == 0 ? -random.below(100'000) : random.below(5000));
    }
  }
  std::array<size_t, logs> at;
  for (size_t log = 0; log < logs; ++log) at[log] = log * events;
  while (merged_time.size() < time.size()) {
    size_t first = logs;
    for (size_t log = 0; log < logs; ++log)
      if (at[log] < (log + 1) * events && (first == logs || time[at[log]] < time[at[first]])) first = log;
    merged_time.push_back(time[at[first]]);
    merged_amount.push_back(amount[at[first]++]);
  }
  return image_of("time", time, "amount", amount, "merged_time", merged_time, "merged_amount", merged_amount);
}

// Two texts of genes aligned locally: the matrix of scores and the texts.
MemoryImage smith_waterman(uint64_t seed) {
  constexpr int n = 380;
  WorkloadRandom random(seed);
  std::vector<int8_t> a(n), b(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<int8_t>(random.below(4));
    b[i] = random.below(8) == 0 ? static_cast<int8_t>(random.below(4)) : a[i];
  }
  std::vector<int16_t> score((n + 1) * (n + 1));
  std::vector<uint8_t> from((n + 1) * (n + 1));
  for (int i = 1; i <= n; ++i)
    for (int j = 1; j <= n; ++j) {
      const int here = i * (n + 1) + j;
      const int diagonal = score[here - n - 2] + (a[i - 1] == b[j - 1] ? 3 : -3), up = score[here - n - 1] - 2,
                left = score[here - 1] - 2;
      score[here] = static_cast<int16_t>(std::max({0, diagonal, up, left}));
      from[here] = score[here] == 0 ? 0 : score[here] == diagonal ? 1 : score[here] == up ? 2 : 3;
    }
  return image_of("a", a, "b", b, "score", score, "from", from);
}

// Sound of 16 bits: two decaying strings with noise, filtered.
MemoryImage fir(uint64_t seed) {
  constexpr int n = 60000, taps = 32;
  WorkloadRandom random(seed);
  std::vector<int16_t> sound(n), filtered(n), coefficients(taps);
  for (int k = 0; k < taps; ++k) coefficients[k] = static_cast<int16_t>((k + 1) * (taps - k) * 7);
  // A string is a delay line that is averaged (Karplus and Strong).
  std::vector<double> low(227), high(101);
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (std::vector<double>* string : {&low, &high}) {
      const size_t size = string->size(), here = static_cast<size_t>(i) % size;
      if (i % 15000 < static_cast<int>(size)) (*string)[here] = 9000 * (random.uniform() * 2 - 1);
      sum += (*string)[here];
      (*string)[here] = 0.4985 * ((*string)[here] + (*string)[(here + 1) % size]);
    }
    sound[i] = static_cast<int16_t>(sum + 8 * random.normal());
  }
  for (int i = 0; i < n; ++i) {
    int64_t sum = 0;
    for (int k = 0; k < taps && k <= i; ++k) sum += coefficients[k] * sound[i - k];
    filtered[i] = static_cast<int16_t>(sum >> 17);
  }
  return image_of("sound", sound, "coefficients", coefficients, "filtered", filtered);
}

// Points of a few groups: coordinates, centres, memberships after some rounds.
MemoryImage kmeans(uint64_t seed) {
  constexpr int points = 9000, axes = 8, groups = 12;
  WorkloadRandom random(seed);
  std::vector<float> coordinates(points * axes), centres(groups * axes), distance(points);
  std::vector<int32_t> group(points), size(groups);
  for (int p = 0; p < points; ++p) {
    const int64_t blob = random.below(groups);
    for (int axis = 0; axis < axes; ++axis)
      coordinates[p * axes + axis] =
          static_cast<float>(static_cast<double>((blob * 37 + axis * 11) % 50) + random.normal());
  }
  for (int g = 0; g < groups; ++g)
    for (int axis = 0; axis < axes; ++axis) centres[g * axes + axis] = coordinates[g * 700 * axes + axis];
  for (int round = 0; round < 6; ++round) {
    for (int p = 0; p < points; ++p) {
      distance[p] = 1e30f;
      for (int g = 0; g < groups; ++g) {
        float sum = 0;
        for (int axis = 0; axis < axes; ++axis) {
          const float d = coordinates[p * axes + axis] - centres[g * axes + axis];
          sum += d * d;
        }
        if (sum < distance[p]) distance[p] = sum, group[p] = g;
      }
    }
    std::fill(centres.begin(), centres.end(), 0.0f);
    std::fill(size.begin(), size.end(), 0);
    for (int p = 0; p < points; ++p) {
      ++size[group[p]];
      for (int axis = 0; axis < axes; ++axis) centres[group[p] * axes + axis] += coordinates[p * axes + axis];
    }
    for (int g = 0; g < groups; ++g)
      for (int axis = 0; axis < axes; ++axis) centres[g * axes + axis] /= static_cast<float>(std::max(1, size[g]));
  }
  return image_of("coordinates", coordinates, "centres", centres, "distance", distance, "group", group, "size", size);
}

// Words put into a table of chains, as databases join: hashes, chains, counts.
MemoryImage hash_join(uint64_t seed) {
  constexpr int rows = 14000, buckets = 16384;
  WorkloadRandom random(seed);
  std::vector<int32_t> key(rows), head(buckets, -1), next(rows, -1), matches(rows);
  std::vector<uint32_t> hash(rows);
  for (int row = 0; row < rows; ++row) {
    key[row] = static_cast<int32_t>(random.below(1 + random.below(30000)));
    hash[row] = static_cast<uint32_t>(key[row]) * 2654435761u;
    int32_t& first = head[hash[row] >> 18];
    next[row] = first;
    first = row;
  }
  for (int row = 0; row < rows; ++row)
    for (int32_t other = head[hash[row] >> 18]; other >= 0; other = next[other]) matches[row] += key[other] == key[row];
  return image_of("key", key, "hash", hash, "head", head, "next", next, "matches", matches);
}

// A walk of many price paths: states of generators, which nothing compresses, and sums.
MemoryImage monte_carlo(uint64_t seed) {
  constexpr int paths = 9000, steps = 64;
  WorkloadRandom random(seed);
  std::vector<uint64_t> state(paths);
  std::vector<float> price(paths, 100.0f), payoff(paths);
  for (uint64_t& s : state) s = random.next() | 1;
  for (int path = 0; path < paths; ++path) {
    for (int step = 0; step < steps; ++step) {
      uint64_t& s = state[path];
      s ^= s << 13;
      s ^= s >> 7;
      s ^= s << 17;
      price[path] *= 1.0f + 0.02f * (static_cast<float>(s >> 40) * 0x1p-24f - 0.495f);
    }
    payoff[path] = std::max(0.0f, price[path] - 100.0f);
  }
  return image_of("state", state, "price", price, "payoff", payoff);
}

// Steps until points leave: a picture of 16-bit counts and the last values of the points.
MemoryImage mandelbrot(uint64_t) {
  constexpr int width = 240, height = 160, limit = 1000;
  std::vector<uint16_t> counts(width * height);
  std::vector<double> magnitude(width * height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / height;
      double zr = 0, zi = 0;
      int count = 0;
      for (; count < limit && zr * zr + zi * zi < 4; ++count) {
        const double next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = next;
      }
      counts[y * width + x] = static_cast<uint16_t>(count);
      magnitude[y * width + x] = zr * zr + zi * zi;
    }
  return image_of("counts", counts, "magnitude", magnitude);
}

}  // namespace ecmv::datasets::workloads
