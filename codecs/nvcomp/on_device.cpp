// See on_device.h. These functions of the driver's C interface have not changed since CUDA 11.
#include "codecs/nvcomp/on_device.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

namespace ecmv::codecs::nvcomp {
namespace {

using Address = uint64_t;  // in the device's memory

struct Driver : backends::InstalledLibrary {
  static constexpr const char* kFile = "libcuda.so.1";
  int (*init)(unsigned) = nullptr;
  int (*text)(int, const char**) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*create_stream)(void**, unsigned) = nullptr;
  int (*destroy_stream)(void*) = nullptr;
  int (*synchronize)(void*) = nullptr;
  int (*allocate)(Address*, size_t) = nullptr;
  int (*release)(Address) = nullptr;
  int (*copy_in)(Address, const void*, size_t, void*) = nullptr;
  int (*copy_out)(void*, Address, size_t, void*) = nullptr;
  void* context = nullptr;  // the one that the CUDA runtime of this process uses, too

  Driver() : InstalledLibrary("driver of NVIDIA") {
    if (!open_file(kFile)) {
      missing = "nvCOMP compresses on an NVIDIA device, and there is no driver for one here (" + std::string(kFile) +
                " was not found).";
      return;
    }
    take(init, "cuInit");
    take(text, "cuGetErrorString");
    take(count, "cuDeviceGetCount");
    take(device, "cuDeviceGet");
    take(retain, "cuDevicePrimaryCtxRetain");
    take(push, "cuCtxPushCurrent_v2");
    take(pop, "cuCtxPopCurrent_v2");
    take(create_stream, "cuStreamCreate");
    take(destroy_stream, "cuStreamDestroy_v2");
    take(synchronize, "cuStreamSynchronize");
    take(allocate, "cuMemAlloc_v2");
    take(release, "cuMemFree_v2");
    take(copy_in, "cuMemcpyHtoDAsync_v2");
    take(copy_out, "cuMemcpyDtoHAsync_v2");
    if (missing.empty()) open_first_device();
  }

  std::string failed(const char* what, int status) const {
    const char* said = nullptr;
    if (text(status, &said) != 0 || said == nullptr) said = "no text";
    return std::string(what) + " failed: status " + std::to_string(status) + ", " + said + ".";
  }

 private:
  void open_first_device() {
    int devices = 0, first = 0;
    const auto succeeds = [&](const char* what, int status) {
      if (status != 0) missing = "nvCOMP compresses on an NVIDIA device. " + failed(what, status);
      return status == 0;
    };
    if (!succeeds("Starting the driver", init(0)) || !succeeds("Counting devices", count(&devices))) return;
    if (devices == 0) {
      missing = "nvCOMP compresses on an NVIDIA device, and the driver shows none here.";
      return;
    }
    if (succeeds("Asking for the first device", device(&first, 0)))
      succeeds("Opening the first device", retain(&context, first));
  }
};

const Driver& driver() {
  static const Driver driver;
  return driver;
}

void check(int status, const char* what) {
  if (status != 0) throw std::runtime_error("On the device, " + driver().failed(what, status));
}
void check_library(int status, const char* what) {
  if (status != 0) throw std::runtime_error(library().failed(what, status));
}

// The stream and memory of one call, with the device made current; the destructor restores what was current before.
class Session {
 public:
  Session() : lock_(one_at_a_time()) {
    check(driver().push(driver().context), "making it current");
    constexpr unsigned kNonBlocking = 1;
    if (const int status = driver().create_stream(&stream_, kNonBlocking); status != 0) {
      leave();
      check(status, "creating a stream");
    }
  }
  Session(const Session&) = delete;
  ~Session() {
    // Waits until nothing uses the memory any more, also after a call has thrown.
    (void)driver().synchronize(stream_);
    for (const Address memory : memory_) (void)driver().release(memory);
    (void)driver().destroy_stream(stream_);
    leave();
  }

  void* stream() const { return stream_; }
  // Aligned to kBufferAlignBytes; at least a byte.
  Address memory(int64_t bytes) {
    Address address = 0;
    check(driver().allocate(&address, static_cast<size_t>(std::max<int64_t>(1, bytes))),
          ("allocating " + std::to_string(bytes) + " bytes").c_str());
    memory_.push_back(address);
    return address;
  }
  Address copy_of(std::span<const std::byte> bytes) {
    const Address address = memory(static_cast<int64_t>(bytes.size()));
    if (!bytes.empty()) check(driver().copy_in(address, bytes.data(), bytes.size(), stream_), "copying to it");
    return address;
  }
  template <typename T>
  Address copy_of(const std::vector<T>& values) {
    return copy_of(std::as_bytes(std::span(values)));
  }
  void read(std::span<std::byte> to, Address from) {
    if (!to.empty()) check(driver().copy_out(to.data(), from, to.size(), stream_), "copying from it");
  }
  template <typename T>
  std::vector<T> read(Address from, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    read(std::as_writable_bytes(std::span(values)), from);
    wait();
    return values;
  }
  void wait() { check(driver().synchronize(stream_), "waiting for nvCOMP"); }

 private:
  static std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
  }
  static void leave() {
    void* context = nullptr;
    (void)driver().pop(&context);
  }

  std::scoped_lock<std::mutex> lock_;
  void* stream_ = nullptr;
  std::vector<Address> memory_;
};

template <typename T>
T* pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

// The beginning and size of every chunk of a cut whose data begin at `base`.
struct Pieces {
  std::vector<uint64_t> addresses, sizes;
};
Pieces pieces_of(const Cut& cut, Address base) {
  Pieces pieces;
  for (int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
    pieces.addresses.push_back(base + static_cast<uint64_t>(chunk * cut.chunk_bytes));
    pieces.sizes.push_back(static_cast<uint64_t>(cut.size(chunk)));
  }
  return pieces;
}

}  // namespace

static_assert(sizeof(size_t) == sizeof(uint64_t), "what is on the device has sizes of 64 bits");

std::string device_missing() { return driver().missing; }

Compressed compress(Method method, const Options& options, const Cut& cut, std::span<const std::byte> bytes) {
  const Calls& calls = library().calls(method);
  const int64_t count = cut.chunks();
  Session session;
  Alignments alignments;
  check_library(calls.compress_alignments(options, &alignments), "say how its buffers are aligned");
  if (const std::string reason = misaligned(alignments, kBufferAlignBytes); !reason.empty())
    throw std::runtime_error(reason);
  size_t most = 0, temp_bytes = 0;
  check_library(calls.most_bytes(static_cast<size_t>(cut.most()), options, &most), "say how long chunks become");
  check_library(temp_bytes_of(calls.compress_temp, count, cut.most(), cut.bytes, options, temp_bytes),
                "say what memory it needs");

  const int64_t room = round_up(static_cast<int64_t>(most), kBufferAlignBytes);
  const Pieces in = pieces_of(cut, session.copy_of(bytes));
  const Address out = session.memory(count * room);
  std::vector<uint64_t> out_addresses;
  for (int64_t chunk = 0; chunk < count; ++chunk) out_addresses.push_back(out + static_cast<uint64_t>(chunk * room));
  const Address in_table = session.copy_of(in.addresses), in_sizes = session.copy_of(in.sizes),
                out_table = session.copy_of(out_addresses),
                out_sizes = session.memory(count * static_cast<int64_t>(sizeof(size_t))),
                statuses = session.memory(count * static_cast<int64_t>(sizeof(int)));
  check_library(calls.compress(pointer<const void* const>(in_table), pointer<const size_t>(in_sizes),
                               static_cast<size_t>(cut.most()), static_cast<size_t>(count),
                               pointer<void>(session.memory(static_cast<int64_t>(temp_bytes))), temp_bytes,
                               pointer<void* const>(out_table), pointer<size_t>(out_sizes), options,
                               pointer<int>(statuses), session.stream()),
                "compress the chunks");

  const std::vector<int> said = session.read<int>(statuses, count);
  for (int64_t chunk = 0; chunk < count; ++chunk)
    check_library(said[static_cast<size_t>(chunk)], ("compress chunk " + std::to_string(chunk)).c_str());
  const auto sizes = session.read<uint64_t>(out_sizes, count);
  const auto chunks = session.read<std::byte>(out, count * room);
  Compressed compressed;
  for (int64_t chunk = 0; chunk < count; ++chunk) {
    const uint64_t size = sizes[static_cast<size_t>(chunk)];
    if (size == 0 || size > most)
      throw std::runtime_error("nvCOMP made chunk " + std::to_string(chunk) + " " + std::to_string(size) +
                               " bytes long, and at most " + std::to_string(most) + " are what it says.");
    const auto end = static_cast<int64_t>(compressed.payload.size()), begin = round_up(end, kChunkAlignBytes);
    compressed.padding_bytes += begin - end;
    compressed.payload.resize(static_cast<size_t>(begin));
    const auto from = chunks.begin() + chunk * room;
    compressed.payload.insert(compressed.payload.end(), from, from + static_cast<int64_t>(size));
    compressed.ends.push_back(compressed.payload.size());
  }
  return compressed;
}

void decompress(Method method, const Options& options, const Cut& cut, std::span<const std::byte> payload,
                std::span<const uint64_t> ends, std::span<std::byte> out) {
  const Calls& calls = library().calls(method);
  const int64_t count = cut.chunks();
  Session session;
  Alignments alignments;
  check_library(calls.decompress_alignments(options, &alignments), "say how its buffers are aligned");
  if (const std::string reason = misaligned(alignments, kChunkAlignBytes); !reason.empty())
    throw std::runtime_error(reason);
  size_t temp_bytes = 0;
  check_library(temp_bytes_of(calls.decompress_temp, count, cut.most(), cut.bytes, options, temp_bytes),
                "say what memory it needs");

  const Address stored = session.copy_of(payload), decoded = session.memory(cut.bytes);
  std::vector<uint64_t> in_addresses, in_sizes;
  int64_t begin = 0;
  for (const uint64_t end : ends) {
    in_addresses.push_back(stored + static_cast<uint64_t>(begin));
    in_sizes.push_back(end - static_cast<uint64_t>(begin));
    begin = round_up(static_cast<int64_t>(end), kChunkAlignBytes);
  }
  const Pieces made = pieces_of(cut, decoded);
  const Address in_table = session.copy_of(in_addresses), in_lengths = session.copy_of(in_sizes),
                out_table = session.copy_of(made.addresses), out_room = session.copy_of(made.sizes),
                out_sizes = session.memory(count * static_cast<int64_t>(sizeof(size_t))),
                statuses = session.memory(count * static_cast<int64_t>(sizeof(int)));
  check_library(
      calls.decompress(pointer<const void* const>(in_table), pointer<const size_t>(in_lengths),
                       pointer<const size_t>(out_room), pointer<size_t>(out_sizes), static_cast<size_t>(count),
                       pointer<void>(session.memory(static_cast<int64_t>(temp_bytes))), temp_bytes,
                       pointer<void* const>(out_table), options, pointer<int>(statuses), session.stream()),
      "decompress the chunks");

  const std::vector<int> said = session.read<int>(statuses, count);
  const auto sizes = session.read<uint64_t>(out_sizes, count);
  for (size_t chunk = 0; chunk < said.size(); ++chunk) {
    if (said[chunk] != 0)
      throw MalformedStream(library().failed("decompress chunk " + std::to_string(chunk), said[chunk]));
    if (sizes[chunk] != made.sizes[chunk])
      throw MalformedStream("Chunk " + std::to_string(chunk) + " of the stream has " + std::to_string(sizes[chunk]) +
                            " bytes decompressed, and should have " + std::to_string(made.sizes[chunk]) + ".");
  }
  session.read(out, decoded);
  session.wait();
}

}  // namespace ecmv::codecs::nvcomp
