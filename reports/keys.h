// Names of cases for papers and scripts: plain ASCII without blanks or underscores, so that TeX takes them in macros
// and labels, and the same in every run.
#pragma once

#include <map>
#include <string>

#include "reports/record.h"

namespace ecmv::reports {

// "matvec/packed-outliers,bits=5/s4/16384,layers=4/simd,columns,fast,AVX3,t2": op, codec with the settings that differ
// from its defaults, data, kernel. It depends on the case alone, so two runs of a case have the same name.
std::string full_name(const CaseRecord& record);

// Short keys: "packed-outliers,bits=5/s4/16384" is the fastest kernel for that codec, those settings and that data;
// other kernels add their names at the end. Ops other than matvec are named, and so are threads and devices if these
// records have several.
class CaseKeys {
 public:
  explicit CaseKeys(const RecordSet& records);
  // The key of a record passed to the constructor; no two ok cases share one.
  const std::string& of(const CaseRecord& record) const { return keys_.at(&record); }
  // The ok case with that key, or nullptr.
  const CaseRecord* find(const std::string& key) const;

 private:
  std::map<const CaseRecord*, std::string> keys_;
  std::map<std::string, const CaseRecord*> cases_;
};

}  // namespace ecmv::reports
