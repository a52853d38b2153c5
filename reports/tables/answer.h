// What the measurements say, in a sentence: who is fastest, by how much, with how many bits, on which device, and just
// as plainly that nothing is decided or nothing beats the uncompressed codec.
#pragma once

#include <string>

#include "reports/metrics.h"
#include "reports/record.h"

namespace ecmv::reports {

struct Answer {
  // Markdown: names of codecs and the ratio are **bold**. Never empty.
  std::string sentence;
  // What else is worth a line: who beats the baseline with the fewest bits, and how other data came out.
  std::string more;
  // The case that the sentence is about, nullptr where nothing was verified.
  const CaseRecord* subject = nullptr;
};

// Cases compete where op, batch, data, device, threads, cache class and run are the same. The sentence is about the
// competition with a baseline, of a product, streamed, of the smallest batch and the largest matrices, in this order of
// importance; `more` counts the others. compare_cases on the fastest case of each side gives the verdict.
Answer answer(const RecordSet& records, const Contexts& contexts);

}  // namespace ecmv::reports
