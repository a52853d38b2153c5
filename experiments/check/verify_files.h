// `ecmv verify FILE...`: chain files of other programs (MatVANS) as witnesses. The file says what the vectors after its
// layers hash to; every decoder and every kernel here has to agree with that and with each other.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::experiments {

struct FileCheck {
  enum class Result { ok, failed, refused };
  std::string what;  // "simd AVX2 matvec lanes32 rows1"
  Result result = Result::ok;
  std::string detail;  // what was found, the first difference or the reason of a refusal
};

struct FileVerification {
  std::string path;
  std::string unreadable;               // why nothing could be checked; empty if it could
  std::string_view codec;               // id of the codec that recognised the file
  std::vector<datasets::Shape> shapes;  // of the layers
  double bits_per_element = 0;
  std::vector<FileCheck> checks;

  // Readable, nothing failed, and at least one kernel ran.
  bool passed() const;
};

// Decodes every layer with the reference decoder and every kernel of the codec on every available device, runs the
// chain (of modules there is none) with every fused kernel, compares each layer's vector with the reference and its
// hash with the file's, writes the file again from what was read and from re-encoded matrices, and compares with the
// uncompressed twin (NAME_layout.ext: NAME_uncompressed.ext) where there is one. Throws nothing: what goes wrong stands
// in the result.
FileVerification verify_file(const std::string& path);

void print_verification(const FileVerification& verification, std::ostream& out);

// verify_file and print for each. 0: all passed; 3: something failed or no kernel ran; otherwise 2: a file could not be
// read or none was given.
int verify_files(std::span<const std::string> paths, std::ostream& out);

}  // namespace ecmv::experiments
