// Workloads of sparse linear algebra: rows of indices and values, and dense vectors.
#include <algorithm>

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets::workloads {

template <class T>
struct SparseRows {
  std::vector<int32_t> row_begin = {0}, column;
  std::vector<T> value;

  void multiply(const std::vector<T>& x, std::vector<T>& y) const {
    for (size_t row = 0; row + 1 < row_begin.size(); ++row) {
      T sum = 0;
      for (int32_t i = row_begin[row]; i < row_begin[row + 1]; ++i) sum += value[i] * x[column[i]];
      y[row] = sum;
    }
  }
  void capture(MemoryImage& image) const { image.capture("row_begin", row_begin, "column", column, "value", value); }
};

// The five-point Laplacian of a grid; `conductivity` of an edge scales it.
template <class T, class Conductivity>
static SparseRows<T> grid_laplacian(int width, int height, Conductivity conductivity) {
  SparseRows<T> rows;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int here = y * width + x;
      T diagonal = 0;
      const auto edge = [&](int dx, int dy) {
        if (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= height) return;
        const T k = conductivity(here, here + dy * width + dx);
        diagonal += k;
        rows.column.push_back(here + dy * width + dx);
        rows.value.push_back(-k);
      };
      edge(0, -1);
      edge(-1, 0);
      const size_t middle = rows.value.size();
      edge(1, 0);
      edge(0, 1);
      rows.column.insert(rows.column.begin() + static_cast<std::ptrdiff_t>(middle), here);
      rows.value.insert(rows.value.begin() + static_cast<std::ptrdiff_t>(middle), diagonal + T(0.01));
      rows.row_begin.push_back(static_cast<int32_t>(rows.value.size()));
    }
  return rows;
}

MemoryImage spmv(uint64_t seed) {
  constexpr int side = 88;
  WorkloadRandom random(seed);
  const auto rows =
      grid_laplacian<double>(side, side, [&](int a, int b) { return 1.0 + static_cast<double>((a ^ b) % 7) / 8; });
  std::vector<double> x(side * side), y(side * side);
  for (double& value : x) value = random.uniform();
  for (int i = 0; i < 4; ++i) {
    rows.multiply(x, y);
    for (size_t k = 0; k < x.size(); ++k) x[k] = y[k] / 8;
  }
  MemoryImage image;
  rows.capture(image);
  image.capture("x", x, "y", y);
  return image;
}

// A plate, heated at one place, solved by conjugate gradients; the vectors after a few iterations and near the end.
MemoryImage conjugate_gradient(uint64_t) {
  constexpr int side = 96;
  constexpr size_t n = side * side;
  const auto rows = grid_laplacian<double>(side, side, [](int, int) { return 1.0; });
  std::vector<double> x(n), r(n), p, q(n);
  for (int y = 20; y < 30; ++y)
    for (int i = 20; i < 40; ++i) r[y * side + i] = 1;
  p = r;
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  MemoryImage image;
  rows.capture(image);
  double rr = dot(r, r);
  for (int iteration = 1; iteration <= 60; ++iteration) {
    rows.multiply(p, q);
    const double alpha = rr / dot(p, q);
    for (size_t i = 0; i < n; ++i) x[i] += alpha * p[i], r[i] -= alpha * q[i];
    const double next = dot(r, r), beta = next / rr;
    for (size_t i = 0; i < n; ++i) p[i] = r[i] + beta * p[i];
    rr = next;
    if (iteration != 10 && iteration != 60) continue;
    image.capture("x", x, "r", r, "p", p);
  }
  return image;
}

// Random rows of different lengths times a narrow dense matrix.
MemoryImage spmm(uint64_t seed) {
  constexpr int n = 6000, width = 8;
  WorkloadRandom random(seed);
  SparseRows<float> rows;
  for (int row = 0; row < n; ++row) {
    std::vector<int32_t> columns(static_cast<size_t>(1 + random.below(1 + random.below(24))));
    for (int32_t& column : columns) column = static_cast<int32_t>(random.below(n));
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (const int32_t column : columns) {
      rows.column.push_back(column);
      rows.value.push_back(static_cast<float>(random.uniform() * 2 - 1));
    }
    rows.row_begin.push_back(static_cast<int32_t>(rows.column.size()));
  }
  std::vector<float> dense(n * width), product(n * width);
  for (float& value : dense) value = random.below(4) == 0 ? 0.0f : static_cast<float>(random.below(256)) / 255;
  for (int row = 0; row < n; ++row)
    for (int32_t i = rows.row_begin[row]; i < rows.row_begin[row + 1]; ++i)
      for (int k = 0; k < width; ++k) product[row * width + k] += rows.value[i] * dense[rows.column[i] * width + k];
  MemoryImage image;
  rows.capture(image);
  image.capture("dense", dense, "product", product);
  return image;
}

}  // namespace ecmv::datasets::workloads
