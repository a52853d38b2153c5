// See onnx_nodes.h. The ops are those of ONNX and of ONNX Runtime.
#include "datasets/layers/onnx_nodes.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <unordered_map>

namespace ecmv::datasets {
namespace {

// Places among a node's inputs: of weights, and of what belongs to them.
struct QuantisedOp {
  std::string_view op;
  size_t weights;
  std::initializer_list<size_t> beside;
};

const QuantisedOp* find_op(std::string_view op) {
  static const QuantisedOp kOps[] = {{"DequantizeLinear", 0, {1, 2}}, {"MatMulInteger", 1, {3}},
                                     {"ConvInteger", 1, {3}},         {"QLinearMatMul", 3, {4, 5}},
                                     {"QLinearConv", 3, {4, 5}},      {"QGemm", 3, {4, 5}},
                                     {"MatMulNBits", 1, {2, 3, 4}},   {"GatherBlockQuantized", 0, {2, 3}}};
  const auto* const found = std::ranges::find(kOps, op, &QuantisedOp::op);
  return found == std::end(kOps) ? nullptr : found;
}

// [outputs, blocks of inputs, bytes of a block]; a last block that is not full is filled up.
void rewrite_blocks(const OnnxNode& node, TensorView& codes) {
  const auto number = [&](const char* name) {
    const auto found = node.numbers.find(name);
    return found == node.numbers.end() ? 0 : found->second;
  };
  const int64_t inputs = number("K"), outputs = number("N"), block = number("block_size");
  const int64_t bits = node.numbers.contains("bits") ? number("bits") : 4;
  if (codes.layout != Layout::rows || codes.dtype != "U8" || (bits != 2 && bits != 4 && bits != 8)) return;
  if (outputs <= 0 || inputs <= 0 || block <= 0 || codes.shape.empty() || codes.shape[0] != outputs) return;
  const int64_t of_row = int64_t(codes.bytes.size()) / outputs, cols = of_row * 8 / bits;
  if (of_row * outputs != int64_t(codes.bytes.size()) || cols < inputs || cols - inputs >= block) return;
  codes.dtype = bits == 8 ? "U8" : "UINT" + std::to_string(bits);
  codes.shape = {outputs, cols};
}

}  // namespace

bool tells_of_weights(std::string_view op) { return find_op(op) != nullptr; }

void apply_onnx_nodes(const std::vector<OnnxNode>& nodes, std::vector<TensorView>& tensors) {
  std::unordered_map<std::string_view, TensorView*> by_name;
  for (TensorView& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const auto input = [&](const OnnxNode& node, size_t place) -> TensorView* {
    if (place >= node.inputs.size() || node.inputs[place].empty()) return nullptr;
    const auto found = by_name.find(node.inputs[place]);
    return found == by_name.end() ? nullptr : found->second;
  };
  for (const OnnxNode& node : nodes) {
    const QuantisedOp* const op = find_op(node.op);
    TensorView* const weights = op == nullptr ? nullptr : input(node, op->weights);
    if (weights == nullptr || weights->shape.size() < 2 || weights->is_beside) continue;
    if (node.op == "MatMulNBits") rewrite_blocks(node, *weights);
    for (const size_t place : op->beside) {
      TensorView* const part = input(node, place);
      if (part == nullptr || part == weights || part->is_beside) continue;  // one of several weights counts it
      part->is_beside = true;
      weights->beside.push_back(part->bytes);
    }
  }
}

}  // namespace ecmv::datasets
