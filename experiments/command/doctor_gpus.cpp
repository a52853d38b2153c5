// What a GPU backend lacks: the backend itself, which make builds where it finds the toolkit's compiler, or the GPU's
// driver; and the emulator, which make leaves out.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "backends/plugins/own_file.h"
#include "experiments/command/doctor.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Whether there is a display controller or processing accelerator of this PCI vendor.
bool has_pci_gpu(const std::string& vendor) {
  std::error_code error;
  for (fs::directory_iterator at("/sys/bus/pci/devices", error), end; !error && at != end; at.increment(error)) {
    const std::string device_class = first_word(at->path() / "class");
    if (first_word(at->path() / "vendor") == vendor &&
        (device_class.starts_with("0x03") || device_class.starts_with("0x12")))
      return true;
  }
  return false;
}

std::string advice(bool cuda, bool gpu) {
  const std::string backend = cuda ? "cuda" : "hip";
  if (!fs::exists(backends::own_file().parent_path() / fmt::format("libecmv_{}.so", backend)))
    return fmt::format("install {}, then make; third_party/README.md says which versions",
                       cuda ? "the CUDA toolkit" : "hipcc");
  if (gpu && !fs::exists(cuda ? "/proc/driver/nvidia/version" : "/dev/kfd")) return "install the GPU's driver";
  return {};
}

}  // namespace

Finding missing_gpu(const std::string& backend, const std::string& reason) {
  const bool cuda = backend == "cuda", gpu = has_pci_gpu(cuda ? "0x10de" : "0x1002");
  return {gpu ? Finding::Level::warning : Finding::Level::note, backend,
          fmt::format("unavailable: {} {}", reason,
                      gpu ? "This machine has such a GPU."
                          : fmt::format("This machine shows no GPU of {}.", cuda ? "NVIDIA" : "AMD")),
          advice(cuda, gpu)};
}

Finding emulator(const std::string& reason) {
  if (reason.empty()) return {Finding::Level::fine, "emulator", "runs GPU kernels on the host, to verify them", ""};
  return {Finding::Level::note, "emulator", "unavailable: " + reason,
          "to verify GPU kernels without a GPU: make emulator, in a checkout (cmake --build build --target "
          "ecmv_emulator)"};
}

}  // namespace ecmv::experiments
