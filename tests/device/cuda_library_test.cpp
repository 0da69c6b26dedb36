// Where NVIDIA's libraries are looked for, which of several is taken, and what a missing, older or broken one is said
// to be.
#include "device/cuda/library.hpp"

#include <fstream>

#include "device/cuda/driver.hpp"
#include "device/cuda/nvml.hpp"
#include "device/cuda/python_folders.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/device/devices.hpp"

namespace peri::device::cuda {
namespace {
using tests::Fakes;
using tests::Folder;
using tests::must;
using tests::Variable;
namespace fs = std::filesystem;

void expect_text(const Error& error, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(error.text().find(part), std::string::npos) << part << " in " << error.text();
}

TEST(CudaLibrary, NamesTellVersions) {
  EXPECT_EQ(version_in_name("libcudnn.so.9.14.0"), (Version{9, 14, 0}));
  EXPECT_EQ(version_in_name("libcublasLt.so.13.1.0.3"), (Version{13, 1, 0}));
  EXPECT_EQ(version_in_name("libcudnn.so.9"), Version{});
  EXPECT_EQ(version_in_name("nvidia_cudnn_cu13-9.19.0.56.dist-info"), (Version{9, 19, 0}));
  EXPECT_EQ(version_in_name("nothing"), Version{});
  EXPECT_EQ((Version{13, 0, 0}).text(), "13.0");
  EXPECT_EQ((Version{9, 19, 2}).text(), "9.19.2");
  EXPECT_LT((Version{9, 14, 5}), (Version{9, 19, 0}));
  EXPECT_EQ(split_path("/a::/b"), (std::vector<std::string>{"/a", "/b"}));
}

TEST(CudaLibrary, EachIsOpenedAndTellsItsVersion) {
  const Fakes fakes{{"libcuda.so.1", "driver"},      {"libnvidia-ml.so.1", "nvrtc"}, {"libnvrtc.so.13", "nvrtc"},
                    {"libnvJitLink.so.13", "nvrtc"}, {"libcublasLt.so.13", "nvrtc"}, {"libcudnn.so.9", "nvrtc"}};
  Fakes::control<void()>("driver", "fake_reset")();
  std::string told;
  for (const Vendor v : vendors()) {
    const auto library = open_library(v);
    ASSERT_TRUE(library.ok()) << library.error().text();
    EXPECT_TRUE(library->path().starts_with(fakes.folder.path.string())) << library->path();
    told += std::string(vendor_name(v)) + " " + library->version().text() + "; ";
  }
  EXPECT_EQ(told, "driver 13.0; NVML 580.159.4; NVRTC 13.0; nvJitLink 13.0; cuBLASLt 13.1; cuDNN 9.19; ");
}

TEST(CudaLibrary, TheFolderDecides) {
  const Folder empty;
  const Variable variable("PERI_CUDA_PATH", empty.path.string());
  const auto missing = open_library(Vendor::kNvrtc);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kUnsupported);
  expect_text(missing.error(), {"NVRTC", "libnvrtc.so.13", empty.path.c_str(), "install"});
  const Variable nothing("PERI_CUDA_PATH", "");
  for (const Vendor v : vendors()) expect_text(open_library(v).error(), {"set to nothing"});
}

TEST(CudaLibrary, FoldersBelowAndSeveralAreLookedAt) {
  const Fakes fakes{};
  const Folder other;
  fs::create_directory(other.path / "lib64");
  fs::create_symlink(tests::fake_file("nvrtc"), other.path / "lib64" / "libnvrtc.so.12");
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(12, 9);
  const Variable variable("PERI_CUDA_PATH", fakes.folder.path.string() + ":" + other.path.string());
  const Library library = must(open_library(Vendor::kNvrtc));
  EXPECT_EQ(library.path(), (other.path / "lib64" / "libnvrtc.so.12").string());
  EXPECT_EQ(library.version(), (Version{12, 9, 0}));
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(13, 0);
}

TEST(CudaLibrary, VersionsThatAreNotKnownToWorkAreRefused) {
  const Fakes fakes{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}, {"libcudnn.so.9", "nvrtc"}};
  Fakes::control<void()>("driver", "fake_reset")();
  Fakes::control<void(int)>("driver", "fake_version")(11040);
  expect_text(open_library(Vendor::kDriver).error(), {"driver 11.4", "12.0 or newer", "libcuda.so.1"});
  Fakes::control<void(int)>("driver", "fake_version")(15020);
  EXPECT_EQ(must(open_library(Vendor::kDriver)).version().text(), "15.2") << "a newer driver serves what is older";
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(14, 1);
  expect_text(open_library(Vendor::kNvrtc).error(), {"NVRTC 14.1", "before 14.0"});
  Fakes::control<void(int, int)>("nvrtc", "fake_nvrtc_version")(13, 0);
  Fakes::control<void(size_t)>("nvrtc", "fake_cudnn_version")(100100);
  expect_text(open_library(Vendor::kCudnn).error(), {"cuDNN 10.1", "before 10.0"});
  Fakes::control<void(size_t)>("nvrtc", "fake_cudnn_version")(91900);
}

TEST(CudaLibrary, ADriverServesNoNewerCuda) {
  const Fakes fakes{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}, {"libcudnn.so.9", "nvrtc"}};
  Fakes::control<void()>("driver", "fake_reset")();
  Fakes::control<void(int)>("driver", "fake_version")(12040);
  expect_text(open_library(Vendor::kNvrtc).error(),
              {"NVRTC 13.0 is newer than the driver", "for CUDA 13", "for CUDA 12"});
  EXPECT_TRUE(open_library(Vendor::kCudnn).ok()) << "it counts its own versions";
  fs::copy_file(tests::fake_file("nvrtc"), fakes.folder.path / "libnvrtc.so.12");
  void* const older = dlopen((fakes.folder.path / "libnvrtc.so.12").c_str(), RTLD_NOW);
  reinterpret_cast<void (*)(int, int)>(dlsym(older, "fake_nvrtc_version"))(12, 9);
  EXPECT_EQ(must(open_library(Vendor::kNvrtc)).version().text(), "12.9") << "the newest that the driver serves";
  Fakes::control<void()>("driver", "fake_reset")();
  EXPECT_EQ(must(open_library(Vendor::kNvrtc)).version().text(), "13.0");
}

TEST(CudaLibrary, FilesThatAreNoSuchLibrary) {
  const Fakes fakes{{"libnvrtc.so.13", "sibling"}};
  expect_text(open_library(Vendor::kNvrtc).error(), {"nvrtcVersion", "libnvrtc.so.13"});
  std::ofstream(fakes.folder.path / "libcudnn.so.9") << "no library";
  expect_text(open_library(Vendor::kCudnn).error(), {"loader refuses", "libcudnn.so.9"});
}

// NVIDIA's own ends the process at its first call.
TEST(CudaLibrary, ADoorToAPartThatDoesNotLoadIsNotAsked) {
  const Fakes fakes{};
  const fs::path file = fakes.folder.path / "libcudnn.so.9";
  fs::copy_file(tests::fake_file("nvrtc"), file);
  EXPECT_TRUE(open_library(Vendor::kCudnn).ok());
  fs::remove(file);
  fs::copy_file(tests::fake_file("nvrtc"), file);
  std::ofstream(file, std::ios::app | std::ios::binary) << "libcudnn_graph.so";
  std::ofstream(fakes.folder.path / "libcudnn_graph.so.9") << "no library";
  expect_text(open_library(Vendor::kCudnn).error(), {"its part libcudnn_graph.so.9 does not load", "libcudnn.so.9"});
}

TEST(CudaLibrary, WhereNoneIsLookedForTheRemedyIsToLook) {
  const tests::Variable none("PERI_CUDA_PATH", "");
  expect_text(open_library(Vendor::kCudnn).error(), {"is set to nothing", "unset PERI_CUDA_PATH"});
}

// A python3 on PATH with wheels of cuDNN, and PATH itself, in a process of their own since both are asked once.
TEST(CudaLibrary, WheelsOfPythonAndTheNewestOfSeveral) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    const Folder site, bin;
    for (const auto& [part, version] : {std::pair{"old", "9.14.0.2"}, std::pair{"new", "9.99.0.56"}}) {
      const fs::path folder = site.path / part;
      fs::create_directories(folder / "nvidia" / "cudnn" / "lib");
      fs::create_directories(folder / (std::string("nvidia_cudnn_cu13-") + version + ".dist-info"));
      fs::copy_file(tests::fake_file("nvrtc"), folder / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9");
    }
    const fs::path python = bin.path / "python3";
    std::ofstream(python) << "#!/bin/sh\necho relative\necho " << (site.path / "old").string() << "\necho "
                          << (site.path / "new").string() << "\n";
    fs::permissions(python, fs::perms::owner_all);
    const Variable path("PATH", bin.path.string() + ":/usr/bin:/bin");
    unsetenv("PERI_CUDA_PATH");
    const auto library = open_library(Vendor::kCudnn);
    const bool right = library.ok() && python_folders().size() == 2 &&
                       library->path() == (site.path / "new/nvidia/cudnn/lib/libcudnn.so.9").string();
    if (!right) fprintf(stderr, "%s\n", library.ok() ? library->path().c_str() : library.error().text().c_str());
    fs::remove_all(site.path);
    fs::remove_all(bin.path);
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

// PERI_PYTHON stands before the python3 on PATH.
TEST(CudaLibrary, ThePythonThatIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    const Folder bin;
    for (const char* name : {"python3", "own"}) {
      std::ofstream(bin.path / name) << "#!/bin/sh\necho /of/" << name << "\n";
      fs::permissions(bin.path / name, fs::perms::owner_all);
    }
    const Variable path("PATH", bin.path.string() + ":/usr/bin:/bin");
    const Variable python("PERI_PYTHON", (bin.path / "own").string());
    const bool right = python_folders() == std::vector<std::string>{"/of/own"};
    fs::remove_all(bin.path);
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

// One that never ends to write says nothing, and is not waited for.
TEST(CudaLibrary, APythonThatWritesWithoutEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    const Folder bin;
    const fs::path python = bin.path / "python3";
    std::ofstream(python) << "#!/bin/sh\nexec yes /a/folder\n";
    fs::permissions(python, fs::perms::owner_all);
    const Variable path("PATH", bin.path.string() + ":/usr/bin:/bin");
    alarm(60);
    const bool none = python_folders().empty();
    fs::remove_all(bin.path);
    std::exit(none ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

TEST(CudaDriver, SaysWhyThereIsNoGpu) {
  const Fakes fakes{{"libcuda.so.1", "driver"}};
  const auto reset = Fakes::control<void()>("driver", "fake_reset");
  const auto fail = Fakes::control<void(long, int)>("driver", "fake_fail");
  reset();
  fail(1, kCuNoDevice);
  expect_text(open_driver().error(), {"gives no GPU", "(100)", "cuInit", "nvidia-smi"});
  reset();
  fail(1, kCuStubLibrary);
  expect_text(open_driver().error(), {"(34)", "to link with"});
  reset();
  Fakes::control<void(int, int)>("driver", "fake_devices")(0, 1);
  expect_text(open_driver().error(), {"gives no GPU", "cuDeviceGetCount"});
  reset();
  Fakes::control<void(int, int)>("driver", "fake_devices")(2, 1);
  const auto driver = must(open_driver());
  const auto gpus = must(list_gpus(*driver));
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[1].name, "Fake H200");
  EXPECT_EQ(gpus[1].pci, "0000:01:00.0");
  EXPECT_EQ(gpus[1].chip_specific(), "sm_90a");
  EXPECT_EQ(gpus[1].multiprocessors, 132);
  reset();
}

TEST(CudaDriver, AnOldDriverLacksFunctions) {
  const Fakes fakes{{"libcuda.so.1", "old_driver"}};
  const auto opened = open_driver();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kUnsupported);
  expect_text(opened.error(), {"cuInit", "older"});
}

TEST(CudaNvml, ReadingsMayBeMissing) {
  const Fakes fakes{{"libnvidia-ml.so.1", "nvrtc"}};
  const auto live = Fakes::control<long()>("nvrtc", "fake_nvrtc_live");
  const long before = live();
  {
    const auto nvml = must(Nvml::open());
    const GpuState state = must(nvml->state("0000:00:00.0"));
    EXPECT_EQ(state.sm_mhz, 1980u);
    EXPECT_EQ(state.memory_mhz, 3201u);
    EXPECT_EQ(state.milliwatts, 75000u);
    EXPECT_FALSE(state.limit_milliwatts.has_value());
    EXPECT_EQ(state.slowed_by, 1u) << "by the older name of the function";
    EXPECT_FALSE(nvml->state("0000:99:00.0").ok());
  }
  EXPECT_EQ(live(), before);
}

}  // namespace
}  // namespace peri::device::cuda
