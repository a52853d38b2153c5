// Inputs that a kernel has not seen before. With the same few inputs in all samples, a kernel that keeps results could
// find them by their input.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "experiments/check/check.h"

namespace ecmv::experiments {

class FreshInputs {
 public:
  FreshInputs();
  // The reference of a case with other inputs for its sample of this number, the same ones at each call. An int8 chain
  // begins with other numbers from -128 to 127; its products are computed once for all cases of a dataset. The tokens
  // of float products change places and sign, and some columns, the last one among them, get other numbers, which costs
  // about a hundredth of a product.
  Reference of(const Reference& reference, backends::Op op, int batch, int number);

 private:
  void add(const void* of, int batch, int number, std::shared_ptr<FloatReference> fresh);

  uint64_t seed_;  // of this process
  std::map<std::pair<const void*, int>, std::shared_ptr<const ReferenceChain>> chains_;
  // The products of the last calls: they are large, and samples of cases with other tokens come in between.
  struct Floats {
    const void* of;
    int tokens, sample;
    std::shared_ptr<FloatReference> fresh;
    int64_t bytes;
  };
  static constexpr int64_t kMostBytes = int64_t{2} << 30;  // and no more than an eighth of what is free
  std::list<Floats> floats_;                               // the last one first
};

}  // namespace ecmv::experiments
