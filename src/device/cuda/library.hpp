// NVIDIA's libraries as values: the file of each, its version, or why it is missing. Nothing is linked; a missing
// library matters only where it is needed.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace peri::device::cuda {

struct Version {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Version&) const = default;
  std::string text() const;  // "13.0", "9.19.0"
};

enum class Vendor : uint8_t { kDriver, kNvml, kNvrtc, kNvJitLink, kCublasLt, kCudnn };
std::span<const Vendor> vendors();
// "driver", "NVML", "NVRTC", "nvJitLink", "cuBLASLt", "cuDNN".
std::string_view vendor_name(Vendor vendor);

// An open library. It stays open until the process ends, since NVIDIA's libraries have threads and state of their own.
class Library {
 public:
  Library(Vendor vendor, void* handle, std::string path) : vendor_(vendor), handle_(handle), path_(std::move(path)) {}
  Vendor vendor() const { return vendor_; }
  const std::string& path() const { return path_; }
  const Version& version() const { return version_; }
  void set_version(Version v) { version_ = v; }

  // The function of that name; kUnsupported, naming the file, where it is missing.
  template <class F>
  Status find(const char* symbol, F** function) const {
    PERI_ASSIGN(void* const at, find_symbol(symbol));
    *function = reinterpret_cast<F*>(at);
    return Ok{};
  }

 private:
  Result<void*> find_symbol(const char* symbol) const;
  Vendor vendor_;
  void* handle_;
  std::string path_;
  Version version_;
};

// Searches and opens the library. In order: the folders of PERI_CUDA_PATH, which alone are searched where it is set
// (the driver's own two libraries come from the loader if the folders lack them; set to "": there are none at all); the
// folders nvidia/*/lib of PERI_PYTHON, else the python3 on PATH; the loader; /usr/local/cuda. Among several, chooses
// the newest of the versions known to work, as far as file and package names show versions, and none newer than the
// driver's CUDA; the driver's come from the loader only. Thread-safe; repeated at each call. Errors: kUnsupported with
// the reason and a remedy.
Result<Library> open_library(Vendor vendor);

// The text of PERI_CUDA_PATH as folders, in order.
std::vector<std::string> split_path(std::string_view text);
// The version at the end of a file or package name: "libcudnn.so.9.14.0", "nvidia_cudnn_cu13-9.19.0.56.dist-info". A
// single number ("libcudnn.so.9") is not a version: then {}.
Version version_in_name(std::string_view name);

}  // namespace peri::device::cuda
