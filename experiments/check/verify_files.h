// `ecmv verify FILE...`: chain files of other programs (MatVANS) as witnesses. The file holds hashes of the vectors
// after its layers; every decoder and every kernel here has to agree with them and with each other.
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
  std::string detail;  // the finding, the first difference or the reason of a refusal
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

// Decodes every layer with the reference decoder and every kernel of the codec on every available device; runs the
// chain (modules have none) with every fused kernel; compares each layer's vector with the reference and its hash with
// the file's; writes the file again from the read and from the re-encoded matrices; and compares with the uncompressed
// twin (NAME_layout.ext: NAME_uncompressed.ext), if any. Throws nothing: errors are in the result.
FileVerification verify_file(const std::string& path);

void print_verification(const FileVerification& verification, std::ostream& out);

// Runs verify_file and prints the result for each path. Returns 0 if all passed; 3 if something failed or no kernel
// ran; otherwise 2, if a file could not be read or none was given.
int verify_files(std::span<const std::string> paths, std::ostream& out);

}  // namespace ecmv::experiments
