// What the files at the library's boundary share: the handles, and how a call ends.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "codecs/loaded/library.h"
#include "codecs/registry.h"
#include "experiments/library/ecmv.h"

struct ecmv_compressed_matrix {
  const ecmv::codecs::CodecEntry* entry = nullptr;
  ecmv::backends::CompressedMatrix matrix;
  // Texts of the matrix that end with a zero.
  mutable std::once_flag texts_made;
  mutable std::string settings_text;
  mutable std::vector<std::string> section_names;
  mutable std::once_flag hash_made;
  mutable uint64_t hash = 0;
  mutable std::mutex mutex;
  // By memory, as long as a pass or a product uses it.
  mutable std::map<std::string, std::weak_ptr<ecmv::backends::UploadedMatrix>, std::less<>> uploads;
};

struct ecmv_context {
  std::vector<std::shared_ptr<ecmv::backends::Device>> devices;  // one, or several with the same memory
  // For memory of the caller alone; made when it is first asked for.
  mutable std::mutex mutex;
  mutable std::unique_ptr<ecmv::backends::Executor> executor;

  ecmv::backends::Executor& memory() const;
};

namespace ecmv::library {

// Ends a call of the library: a status and a sentence.
struct Failure : std::runtime_error {
  Failure(ecmv_status status, const std::string& sentence) : std::runtime_error(sentence), status(status) {}
  ecmv_status status;
};

// Bounds of rows and columns and of elements, so that sizes in bits fit an int64_t.
inline constexpr int64_t kMaxSide = int64_t{1} << 31, kMaxElements = int64_t{1} << 50;

// Keeps the sentence for ecmv_last_error() and returns the status.
ecmv_status fail(ecmv_status status, const char* sentence) noexcept;

template <typename F>
ecmv_status guarded(F f) noexcept {
  try {
    f();
    return ECMV_OK;
  } catch (const Failure& e) {
    return fail(e.status, e.what());
  } catch (const std::bad_alloc&) {
    return fail(ECMV_OUT_OF_MEMORY, "There is not enough memory.");
  } catch (const std::length_error&) {  // a vector beyond its largest size
    return fail(ECMV_OUT_OF_MEMORY, "There is not enough memory.");
  } catch (const backends::OutOfMemory& e) {
    return fail(ECMV_OUT_OF_MEMORY, e.what());
  } catch (const codecs::LibraryError& e) {
    return fail(ECMV_UNAVAILABLE, e.what());
  } catch (const std::exception& e) {
    return fail(ECMV_FAILED, e.what());
  } catch (...) {
    return fail(ECMV_FAILED, "Something was thrown that is no exception of the standard library.");
  }
}

void need(const void* pointer, const char* what);

template <typename T>
T& given(T* pointer, const char* what) {
  need(pointer, what);
  return *pointer;
}

// For structs of the caller that begin with struct_bytes: he knows at least the first version of them.
void expect_struct(size_t bytes, size_t least, const char* what);

// The entry of a codec or an element type by its name. Throw Failure.
const codecs::CodecEntry& codec_entry(const std::string& id);
datasets::ElementType element_type(const std::string& name);
void expect_shape(int64_t rows, int64_t cols);

// GPU backends share handles and memory of the device, so one call at a time uses them. Locks nothing for a CPU.
using Devices = std::vector<std::shared_ptr<backends::Device>>;
inline bool is_gpu(const backends::Device& device) { return device.memory() != "host"; }
std::unique_lock<std::mutex> lock_gpu(const Devices& devices);

// The matrix in the device's memory, which all passes and products share.
std::shared_ptr<backends::UploadedMatrix> upload(const ecmv_compressed_matrix& matrix, backends::Device& device);

}  // namespace ecmv::library
