// The result of the measurements in a sentence: who is fastest, by how much, with how many bits, on which device. It
// says as plainly if nothing is decided or nothing beats the uncompressed codec.
#pragma once

#include <string>

#include "reports/metrics.h"
#include "reports/record.h"

namespace ecmv::reports {

struct Answer {
  // Markdown: names of codecs and the ratio are **bold**. Never empty.
  std::string sentence;
  // Further results in a line: who beats the baseline with the fewest bits, and the results on other data.
  std::string more;
  // The case that the sentence is about, nullptr if nothing was verified.
  const CaseRecord* subject = nullptr;
};

// Cases compete if op, batch, data, device, threads, cache class and run are the same. The sentence is about the
// competition with a baseline, of a product, streamed, of the smallest batch and the largest matrices, in this order of
// importance; `more` counts the others. compare_cases on the fastest case of each side gives the verdict.
Answer answer(const RecordSet& records, const Contexts& contexts);

}  // namespace ecmv::reports
