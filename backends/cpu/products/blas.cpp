// See blas.h. Calls the C interface of the BLAS (cblas_sgemm, and OpenBLAS's cblas_sbgemm) with integers of 32 bits, as
// distributions build it.
#include "backends/cpu/products/blas.h"

#include <cstdlib>
#include <limits>
#include <mutex>

#include "backends/plugins/installed_library.h"
#include "backends/plugins/shared_object.h"

namespace ecmv::backends::cpu {
namespace {

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
constexpr const char* kFiles[] = {"libopenblas.so.0", "libopenblas.so", "libblis.so.4", "libblis.so",
                                  "libmkl_rt.so.2",   "libmkl_rt.so",   "libblas.so.3"};
constexpr const char* kThreadSetters[] = {"openblas_set_num_threads", "bli_thread_set_num_threads",
                                          "MKL_Set_Num_Threads"};

template <typename Number>
using Gemm = void (*)(int order, int of_a, int of_b, int m, int n, int k, float alpha, const Number* a, int lda,
                      const Number* b, int ldb, float beta, float* c, int ldc);

struct Library {
  Gemm<float> sgemm = nullptr;
  Gemm<uint16_t> sbgemm = nullptr;
  void (*set_threads)(int) = nullptr;
  std::string file, missing;

  Library() {
    // OpenBLAS's idle threads would spin for tens of milliseconds and disturb the next kernel. 2^18 clocks are nearly
    // as long as the crew's spin (crew.h).
    setenv("OPENBLAS_THREAD_TIMEOUT", "18", 0);
    if (const char* named = std::getenv("ECMV_BLAS"); named != nullptr && *named != '\0') {
      const std::string reason = std::string(named).find('/') == std::string::npos ? "" : why_not_loadable(named);
      if (!reason.empty())
        missing = "ECMV_BLAS names " + std::string(named) + ", which " + reason;
      else if (!take_all(named))
        missing = "ECMV_BLAS names " + std::string(named) + ", which " + problem_ + ".";
      return;
    }
    std::string tried;
    for (const char* name : kFiles) {
      if (take_all(name)) return;
      tried += (tried.empty() ? "" : ", ") + std::string(name);
    }
    missing = "No fast BLAS is installed here, or not where the loader looks (" + tried +
              "); Debian's is libopenblas0. ECMV_BLAS may name another file.";
  }

 private:
  bool take_all(const char* name) {
    InstalledLibrary blas("BLAS");
    if (!blas.open_file(name)) {
      problem_ = "the loader does not find or take";
      return false;
    }
    bool has_threads = false;
    for (const char* setter : kThreadSetters) has_threads = has_threads || blas.find(set_threads, setter);
    if (!blas.find(sgemm, "cblas_sgemm") || !has_threads) {
      problem_ = sgemm == nullptr ? "has no cblas_sgemm" : "has no call that sets its threads";
      blas.close();
      return false;
    }
    blas.find(sbgemm, "cblas_sbgemm");
    file = name;
    return true;
  }
  std::string problem_;
};

const Library& library() {
  static const Library library;
  return library;
}

std::string why_not(datasets::Shape shape) {
  if (!library().missing.empty()) return library().missing;
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (shape.elements() == 0) return "The library's product takes matrices that have elements.";
  if (shape.rows > kMost || shape.cols > kMost - 2 * kVectorPaddingBytes)
    return "The library counts rows and columns in 32 bits.";
  return {};
}

// Y is [batch, rows] row-major, so the call computes X times W transposed.
template <typename Number>
void multiply(Gemm<Number> gemm, const BlasProduct<Number>& product) {
  static std::mutex mutex;
  {
    const std::scoped_lock lock(mutex);
    library().set_threads(product.threads);
  }
  gemm(kRowMajor, kPlain, kTransposed, product.batch, static_cast<int>(product.rows), static_cast<int>(product.cols), 1,
       product.x, static_cast<int>(product.x_stride), product.w, static_cast<int>(product.cols), 0, product.y,
       static_cast<int>(product.y_stride));
}

}  // namespace

std::string why_no_sgemm(datasets::Shape shape) { return why_not(shape); }

std::string why_no_sbgemm(datasets::Shape shape) {
  std::string reason = why_not(shape);
  if (reason.empty() && library().sbgemm == nullptr)
    reason = "The BLAS here, " + library().file + ", has no cblas_sbgemm, the product of bf16.";
  return reason;
}

void sgemm(const BlasProduct<float>& product) { multiply(library().sgemm, product); }
void sbgemm(const BlasProduct<uint16_t>& product) { multiply(library().sbgemm, product); }

}  // namespace ecmv::backends::cpu
