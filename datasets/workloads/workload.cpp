// Source `workload`: the memory images of small programs that really run, by type of element. Sorted by falling
// entropy, every fourth workload is unseen: nothing is ever trained on it. Four fifths of the others' cache lines may
// train and one fifth tests. This is the split of the MPC paper, by lines of 128 bytes instead of blocks of 32, so that
// larger blocks stay whole.
#include "datasets/workloads/workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>

#include "datasets/parameters.h"
#include "datasets/source.h"
#include "datasets/sources/synthetic.h"

namespace ecmv::datasets {
namespace {

constexpr ParameterInfo kWorkloadParameters[] = {
    {.name = "workload", .help = "which program; datasets/README.md lists them", .is_text = true, .required = true},
    {.name = "type",
     .help = "of the elements: only the arrays of this type; may be left out where there is one",
     .is_text = true},
    {.name = "part",
     .help = "all (default); train and test of seen workloads, unseen for all of an unseen one",
     .is_text = true},
};

constexpr Workload kWorkloads[] = {
    {"gemm", "dense product, fp32, operands of small fractions", true, workloads::gemm},
    {"lu", "dense LU decomposition, fp64", true, workloads::lu},
    {"covariance", "covariance of decimal readings, fp32", true, workloads::covariance},
    {"fft", "Fourier transform of a few tones, fp64", true, workloads::fft},
    {"nbody", "gravity between bodies, fp32", true, workloads::nbody},
    {"molecular_dynamics", "atoms in a box, fp64", true, workloads::molecular_dynamics},
    {"gemm_int8", "int8 product with int32 sums", false, workloads::gemm_int8},
    {"spmv", "sparse matrix times vector, fp64 with int32 indices", true, workloads::spmv},
    {"conjugate_gradient", "conjugate gradients on a grid, fp64", false, workloads::conjugate_gradient},
    {"spmm", "random sparse matrix times a narrow dense one, fp32", true, workloads::spmm},
    {"heat", "heat in a chip, five-point stencil, fp32", true, workloads::heat},
    {"fdtd", "electromagnetic waves, fp64", true, workloads::fdtd},
    {"life", "Conway's cells, uint8", false, workloads::life},
    {"sobel", "edges of a picture, uint8 and int16", true, workloads::sobel},
    {"integral_image", "summed areas and a blur, uint8, uint16 and uint32", false, workloads::integral_image},
    {"bfs", "breadth first search of a power law graph, int32 and bytes", true, workloads::bfs},
    {"shortest_paths", "Dijkstra's paths in streets, int32", true, workloads::shortest_paths},
    {"pagerank", "ranks of a power law graph, fp32 and int32", false, workloads::pagerank},
    {"union_find", "components by a pool of linked nodes, 64-bit addresses and int32", true, workloads::union_find},
    {"histogram", "12-bit samples, their histogram and sums, uint16 to uint64", true, workloads::histogram},
    {"radix_sort", "keys and positions between the passes of a sort, uint32", true, workloads::radix_sort},
    {"merge_logs", "events by time, int64", true, workloads::merge_logs},
    {"smith_waterman", "local alignment of genes, int8, int16", true, workloads::smith_waterman},
    {"fir", "filtered sound, int16", true, workloads::fir},
    {"kmeans", "groups of points, fp32 and int32", true, workloads::kmeans},
    {"hash_join", "a hash table with chains, int32 and uint32", true, workloads::hash_join},
    {"monte_carlo", "price paths, random states of 64 bits and fp32", false, workloads::monte_carlo},
    {"mandelbrot", "iteration counts and magnitudes, uint16 and fp64", true, workloads::mandelbrot},
    {"convolution", "convolutions with rectifiers, fp32", false, workloads::convolution},
    {"quantised_mlp", "a quantised perceptron, int8, uint8 and int32", true, workloads::quantised_mlp},
    {"attention", "a head of causal attention, fp32", true, workloads::attention},
    {"backpropagation", "a perceptron that learns, fp32", false, workloads::backpropagation},
};

std::string names_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::vector<std::string_view> type_names(const MemoryImage& image) {
  std::vector<std::string_view> names;
  for (const MemoryArray& array : image.arrays)
    if (const std::string_view name = element_type_name(array.type);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}

const Workload& workload_of(const std::string& name) {
  if (const Workload* workload = find_workload(name)) return *workload;
  std::vector<std::string_view> names;
  for (const Workload& workload : all_workloads()) names.push_back(workload.name);
  throw DatasetError("There is no workload '" + name + "'; there are " + names_of(names) + ".");
}

WorkloadPart part_of(const Workload& workload, const std::string& name) {
  const std::string title = "The workload " + std::string(workload.name);
  if (name.empty() || name == "all") return WorkloadPart::all;
  if (name != "train" && name != "test" && name != "unseen")
    throw DatasetError("A part of a workload is all, train, test or unseen, not '" + name + "'.");
  if (name == "unseen") {
    if (workload.seen) throw DatasetError(title + " is a seen one: its parts are all, train and test.");
    return WorkloadPart::all;
  }
  if (!workload.seen) throw DatasetError(title + " is an unseen one: its parts are all and unseen.");
  return name == "train" ? WorkloadPart::train : WorkloadPart::test;
}

ElementType type_of(const Workload& workload, const MemoryImage& image, const std::string& name) {
  const std::vector<std::string_view> names = type_names(image);
  if (name.empty() && names.size() > 1)
    throw DatasetError("The workload " + std::string(workload.name) +
                       " has arrays of several types; 'type' must be one of " + names_of(names) + ".");
  for (const MemoryArray& array : image.arrays)
    if (name.empty() || element_type_name(array.type) == name) return array.type;
  throw DatasetError("The workload " + std::string(workload.name) + " has no arrays of the type '" + name + "', only " +
                     names_of(names) + ".");
}

Dataset load_workload(const SourceRequest& request);
SourceFacts check_workload(const SourceRequest& request);

}  // namespace

extern const DataSource kWorkloadSource{
    "workload",    "memory images of small programs, by type of element", false, kWorkloadParameters, load_workload, 1,
    check_workload};

namespace {

// Which types a workload has, and how many elements, is known only after it has run, so it is left to the run; an image
// has at most a mebibyte.
SourceFacts check_workload(const SourceRequest& request) {
  const Parameters parameters(kWorkloadSource, request);
  part_of(workload_of(parameters.text("workload")), parameters.text("part"));
  return {.bytes = int64_t{1} << 20};
}

Dataset load_workload(const SourceRequest& request) {
  const Parameters parameters(kWorkloadSource, request);
  const Workload& workload = workload_of(parameters.text("workload"));
  const WorkloadPart part = part_of(workload, parameters.text("part"));
  const MemoryImage image = workload.run(request.seed);
  const ElementType type = type_of(workload, image, parameters.text("type"));
  Matrix matrix;
  matrix.name = std::string(workload.name) + "." + std::string(element_type_name(type));
  matrix.type = type;
  matrix.elements = workload_bytes(workload, image, type, part);
  matrix.shape.cols = static_cast<int64_t>(kCacheLineBytes) / element_bytes(type);
  matrix.shape.rows = static_cast<int64_t>(matrix.elements.size() / kCacheLineBytes);
  matrix.content_hash = content_hash(matrix.view());
  Dataset dataset;
  dataset.initial_vector = draw_initial_vector(request.seed, matrix.shape.cols);
  dataset.layers.push_back(std::move(matrix));
  return dataset;
}

}  // namespace

std::vector<Workload> all_workloads() {
  std::vector<Workload> all(std::begin(kWorkloads), std::end(kWorkloads));
  std::sort(all.begin(), all.end(), [](const Workload& a, const Workload& b) { return a.name < b.name; });
  return all;
}

const Workload* find_workload(std::string_view name) {
  static const std::vector<Workload> all = all_workloads();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Workload& workload) { return workload.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::byte> workload_bytes(const Workload& workload, const MemoryImage& image, ElementType type,
                                      WorkloadPart part) {
  // The workload and the line's place in the image alone decide whether a line trains.
  uint64_t line = 0;
  for (const char c : workload.name) line = line * 131 + static_cast<unsigned char>(c);
  std::vector<std::byte> bytes;
  for (const MemoryArray& array : image.arrays)
    for (size_t first = 0; first < array.bytes.size(); first += kCacheLineBytes) {
      const bool trains = WorkloadRandom(line++ * 0xD1342543DE82EF95u).below(5) != 0;
      if (array.type != type || (part != WorkloadPart::all && trains != (part == WorkloadPart::train))) continue;
      const auto begin = array.bytes.begin() + static_cast<std::ptrdiff_t>(first);
      bytes.insert(bytes.end(), begin, begin + kCacheLineBytes);
    }
  return bytes;
}

double image_entropy(const MemoryImage& image) {
  std::array<double, 256> counts = {};
  double total = 0;
  for (const MemoryArray& array : image.arrays)
    for (size_t first = 0; first < array.bytes.size(); first += 32) {
      const auto block = std::span(array.bytes).subspan(first, 32);
      if (std::equal(block.begin() + 4, block.end(), block.begin())) continue;  // zeros too are one word repeated
      for (const std::byte byte : block) ++counts[std::to_integer<size_t>(byte)];
      total += 32;
    }
  double bits = 0;
  for (const double count : counts)
    if (count > 0) bits -= count * std::log2(count / total);
  return total > 0 ? bits / total : 0;
}

}  // namespace ecmv::datasets
