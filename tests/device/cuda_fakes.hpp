// The fake libraries (fake/*.c) in a temporary folder, under the names of NVIDIA's, and PERI_CUDA_PATH set to it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>

namespace peri::device::tests {

inline std::string fake_file(const std::string& fake) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake" / (fake + ".so")).string();
}

// An environment variable for the lifetime of this object.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "peri_cuda_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

class Fakes {
 public:
  // Pairs of a library's name and the fake that replaces it.
  explicit Fakes(std::initializer_list<std::pair<const char*, const char*>> libraries) {
    for (const auto& [name, fake] : libraries) std::filesystem::create_symlink(fake_file(fake), folder.path / name);
    variable.emplace("PERI_CUDA_PATH", folder.path.string());
  }
  // A function that configures the fake. It and the fake's state exist for the whole process.
  template <class F>
  static F* control(const char* fake, const char* symbol) {
    void* const handle = dlopen(fake_file(fake).c_str(), RTLD_NOW);
    void* const at = handle ? dlsym(handle, symbol) : nullptr;
    EXPECT_NE(at, nullptr) << fake << " " << symbol;
    return reinterpret_cast<F*>(at);
  }
  Folder folder;
  std::optional<Variable> variable;
};

// A simulated GPU: the fake driver runs kernels' texts compiled by the host's compiler. Everything is removed
// afterwards.
class HostedGpu : public testing::Test {
 protected:
  void SetUp() override {
    compiled_.emplace("FAKE_CUDA_COMPILES", folder_.path.string());
    cache_.emplace("PERI_CACHE", (folder_.path / "cache").string());
    std::filesystem::create_directories(folder_.path / "cache");
    Fakes::control<void()>("driver", "fake_reset")();
  }
  Folder folder_;
  Fakes fakes_{{"libcuda.so.1", "driver"}, {"libnvidia-ml.so.1", "nvrtc"}, {"libnvrtc.so.13", "nvrtc"}};

 private:
  std::optional<Variable> compiled_, cache_;
};

}  // namespace peri::device::tests
