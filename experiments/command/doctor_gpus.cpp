// What a GPU backend lacks. It needs three things: the GPU with its driver, the toolkit's compiler, and the backend
// built with it. The advice is the command for the first missing one, in the order compiler, backend, driver.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
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

// The value of `key` in os-release, without quotes.
std::string os_release(const std::string& key) {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + "=")) {
      std::string value = line.substr(key.size() + 1);
      std::erase(value, '"');
      return value;
    }
  return {};
}

// The nvcc that CMake would find; "" if none.
std::string find_nvcc() {
  if (const char* chosen = std::getenv("CUDACXX"); chosen != nullptr && *chosen != 0) return chosen;
  if (on_path("nvcc")) return "nvcc";
  const char* usual = "/usr/local/cuda/bin/nvcc";
  return access(usual, X_OK) == 0 ? usual : "";
}

// "12.4" of "Cuda compilation tools, release 12.4, V12.4.131"; "" if unknown.
std::string nvcc_release(const std::string& nvcc) {
  std::string text;
  if (FILE* pipe = popen(fmt::format("'{}' --version 2>/dev/null", nvcc).c_str(), "r")) {
    std::array<char, 256> part;
    while (fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    pclose(pipe);
  }
  const size_t at = text.find("release ");
  return at == text.npos ? "" : text.substr(at + 8, text.find_first_of(", \n", at + 8) - at - 8);
}

// Names NVIDIA's own packages: distributions have toolkits older than 12, or none in their main part.
std::string install_cuda(const std::string& package) {
  const std::string id = os_release("ID");
  std::string version = os_release("VERSION_ID");
  std::erase(version, '.');
  if (id != "debian" && id != "ubuntu")
    return "install CUDA 12 or newer from https://developer.nvidia.com/cuda-downloads";
  return fmt::format(
      "wget https://developer.download.nvidia.com/compute/cuda/repos/{}{}/x86_64/cuda-keyring_1.1-1_all.deb && "
      "sudo dpkg -i cuda-keyring_1.1-1_all.deb && sudo apt-get update && sudo apt-get install {}",
      id, version, package);
}

bool is_built(const std::string& backend) {
  return fs::exists(backends::own_file().parent_path() / fmt::format("libecmv_{}.so", backend));
}

std::string cuda_advice(bool gpu) {
  const std::string nvcc = find_nvcc(), release = nvcc.empty() ? "" : nvcc_release(nvcc);
  if (nvcc.empty()) return install_cuda("cuda-toolkit");
  if (!release.empty() && std::atoi(release.c_str()) < 12)
    return fmt::format("{} has version {} and cannot compile C++20: {}", nvcc, release, install_cuda("cuda-toolkit"));
  if (!is_built("cuda")) return "make    (a build that left it out on request: make CMAKE_FLAGS=-DECMV_CUDA=AUTO)";
  if (gpu && !fs::exists("/proc/driver/nvidia/version")) return install_cuda("cuda-drivers") + ", then restart";
  return {};
}

std::string hip_advice(bool gpu) {
  if (!on_path("hipcc") && access("/opt/rocm/bin/hipcc", X_OK) != 0)
    return os_release("ID") == "ubuntu" && os_release("VERSION_ID") == "22.04"
               ? "install ROCm from https://rocm.docs.amd.com/projects/install-on-linux"
               : "sudo apt-get install hipcc libamdhip64-dev rocm-device-libs rocminfo";
  if (!is_built("hip")) return "make    (a build that left it out on request: make CMAKE_FLAGS=-DECMV_HIP=AUTO)";
  if (gpu && !fs::exists("/dev/kfd")) return "sudo modprobe amdgpu";
  if (gpu && access("/dev/kfd", R_OK | W_OK) != 0) return "sudo usermod -a -G render,video $USER, then log in again";
  return {};
}

}  // namespace

Finding missing_gpu(const std::string& backend, const std::string& reason) {
  const bool cuda = backend == "cuda", gpu = has_pci_gpu(cuda ? "0x10de" : "0x1002");
  const std::string advice = cuda ? cuda_advice(gpu) : hip_advice(gpu);
  return {gpu ? Finding::Level::warning : Finding::Level::note, backend,
          fmt::format("unavailable: {} {}", reason,
                      gpu ? "This machine has such a GPU."
                          : fmt::format("No GPU of {} is seen on this machine.", cuda ? "NVIDIA" : "AMD")),
          advice};
}

}  // namespace ecmv::experiments
