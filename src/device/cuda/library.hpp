// NVIDIA's libraries as values: which file of each is used, its version, or why there is none. Nothing is linked; a
// missing library matters only where it is needed.
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

// An open library. It stays open until the process ends, since NVIDIA's libraries keep threads and state of their own.
class Library {
 public:
  Library(Vendor vendor, void* handle, std::string path) : vendor_(vendor), handle_(handle), path_(std::move(path)) {}
  Vendor vendor() const { return vendor_; }
  const std::string& path() const { return path_; }
  const Version& version() const { return version_; }
  void set_version(Version v) { version_ = v; }

  // The function of that name; kUnsupported, naming the file, where the library has none.
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

// Looks for the library and opens it. In turn: the folders of PERI_CUDA_PATH, which decide alone where it is set (the
// driver's own two libraries come from the loader where the folders lack them; set to nothing: there are none at all);
// the folders nvidia/*/lib of the python3 on PATH; the loader; /usr/local/cuda. Of several the newest of the versions
// that are known to work is taken, as far as names of files and packages tell versions, and none that is newer than the
// driver's CUDA; the driver's come from the loader only. Any thread; asked anew at each call. Errors: kUnsupported with
// the reason and what to do.
Result<Library> open_library(Vendor vendor);

// The text of PERI_CUDA_PATH as folders, in order.
std::vector<std::string> split_path(std::string_view text);
// The version that a name of a file or package ends with: "libcudnn.so.9.14.0",
// "nvidia_cudnn_cu13-9.19.0.56.dist-info". One number alone ("libcudnn.so.9") is no version: then {}.
Version version_in_name(std::string_view name);

}  // namespace peri::device::cuda
