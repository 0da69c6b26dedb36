// Candidates by location, their order, and the query of each library for its own version.
#include "device/cuda/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "base/file.hpp"
#include "base/knobs.hpp"
#include "device/cuda/python_folders.hpp"

namespace peri::device::cuda {

namespace {
namespace fs = std::filesystem;

constexpr const char* kToolkit = "/usr/local/cuda/lib64";

// Versions from headers of each library: cuda.h CUDA_VERSION, nvrtc.h, nvJitLink.h, cublasLt.h, cudnn_version.h.
struct Row {
  Vendor vendor;
  std::string_view name;
  std::array<const char*, 2> files;  // newest first; both may be there
  Version least, below;              // known to work: from `least` on, before `below`; below 0: every newer one
  bool of_driver = false;            // installed with the driver, found by the loader
  bool counts_cuda = false;          // its version is that of CUDA
  std::string_view package = "";     // what the names of its packages begin with
  std::string_view remedy;
};
constexpr std::string_view kWheels = "install the toolkit or its pip package, or set PERI_CUDA_PATH to its folder";
constexpr Row kRows[] = {
    {Vendor::kDriver, "driver", {"libcuda.so.1", nullptr}, {12, 0, 0}, {}, true, false, "", "install NVIDIA's driver"},
    {Vendor::kNvml, "NVML", {"libnvidia-ml.so.1", nullptr}, {}, {}, true, false, "", "install NVIDIA's driver"},
    {Vendor::kNvrtc,
     "NVRTC",
     {"libnvrtc.so.13", "libnvrtc.so.12"},
     {12, 0, 0},
     {14, 0, 0},
     false,
     true,
     "nvidia_cuda_nvrtc",
     kWheels},
    {Vendor::kNvJitLink,
     "nvJitLink",
     {"libnvJitLink.so.13", "libnvJitLink.so.12"},
     {12, 3, 0},
     {14, 0, 0},
     false,
     true,
     "nvidia_nvjitlink",
     kWheels},
    {Vendor::kCublasLt,
     "cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     {12, 0, 0},
     {14, 0, 0},
     false,
     true,
     "nvidia_cublas",
     kWheels},
    {Vendor::kCudnn, "cuDNN", {"libcudnn.so.9", nullptr}, {9, 0, 0}, {10, 0, 0}, false, false, "nvidia_cudnn", kWheels},
};
constexpr std::array<Vendor, 6> kVendors = {Vendor::kDriver,    Vendor::kNvml,     Vendor::kNvrtc,
                                            Vendor::kNvJitLink, Vendor::kCublasLt, Vendor::kCudnn};
const Row& row_of(Vendor vendor) { return kRows[static_cast<size_t>(vendor)]; }

struct Candidate {
  std::string path;
  Version told;  // by names; {}: not told
};

// "13.0.88", as many numbers as there are, at most three; {} for less than two.
Version numbers(std::string_view text) {
  std::array<int, 3> n = {};
  size_t count = 0;
  for (const char *at = text.data(), *end = at + text.size(); count < n.size();) {
    const auto [next, code] = std::from_chars(at, end, n[count]);
    if (code != std::errc() || n[count] < 0) break;
    ++count;
    if (next == end || *next != '.') break;
    at = next + 1;
  }
  return count < 2 ? Version{} : Version{n[0], n[1], n[2]};
}

// The version that a package beside the folder nvidia/ states.
Version version_of_package(const fs::path& folder, std::string_view package) {
  std::error_code failed;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, failed))
    if (const std::string name = e.path().filename().string();
        name.starts_with(package) && name.ends_with(".dist-info"))
      return version_in_name(name);
  return {};
}

// The real file's name tells more than the link's.
Version version_of_file(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  return failed ? Version{} : version_in_name(real.filename().string());
}

class Search {
 public:
  explicit Search(const Row& row) : row_(row) {}

  std::vector<Candidate> run() {
    const std::optional<std::string> named = knob(Knob::kCudaPath);
    if (named && named->empty()) return {};
    for (const std::string& folder : split_path(named.value_or("")))
      for (const char* below : {"", "lib64", "lib"}) look_in(fs::path(folder) / below, {});
    if (named && (!row_.of_driver || !found_.empty())) return std::move(found_);
    if (!row_.of_driver) look_in_python();
    ask_loader();
    if (!row_.of_driver) look_in(kToolkit, {});
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.told > b.told; });
    return std::move(found_);
  }

 private:
  void add(const fs::path& path, Version told) {
    std::error_code failed;
    for (const Candidate& c : found_)
      if (fs::equivalent(c.path, path, failed)) return;
    const Version own = version_of_file(path);
    found_.push_back({path.string(), own == Version{} ? told : own});
  }
  void look_in(const fs::path& folder, Version told) {
    std::error_code failed;
    for (const char* file : row_.files)
      if (file && fs::is_regular_file(folder / file, failed)) add(folder / file, told);
  }
  void look_in_python() {
    std::error_code failed;
    for (const std::string& site : python_folders()) {
      std::vector<fs::path> parts;
      for (const fs::directory_entry& e : fs::directory_iterator(fs::path(site) / "nvidia", failed))
        parts.push_back(e.path() / "lib");
      std::sort(parts.begin(), parts.end());
      for (const fs::path& p : parts) look_in(p, version_of_package(site, row_.package));
    }
  }
  // The loader tells a place only by opening.
  void ask_loader() {
    for (const char* file : row_.files) {
      void* const handle = file ? dlopen(file, RTLD_LAZY | RTLD_LOCAL) : nullptr;
      if (!handle) continue;
      link_map* map = nullptr;
      if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map->l_name[0] == '/') add(map->l_name, {});
      dlclose(handle);
    }
  }

  const Row& row_;
  std::vector<Candidate> found_;
};

Version of_decimals(int v, int major, int minor, int patch) { return {v / major, v / minor % 100, v / patch % 100}; }

Status no_answer(const char* symbol, int code) {
  return unsupported("it does not tell its version: %s gave error %d", symbol, code);
}

Result<Version> ask_driver(const Library& l) {
  int (*function)(int*) = nullptr;
  int v = 0;
  PERI_TRY(l.find("cuDriverGetVersion", &function));
  if (const int code = function(&v); code != 0) PERI_TRY(no_answer("cuDriverGetVersion", code));
  return Version{v / 1000, v % 1000 / 10, 0};  // cuda.h: 1000 * major + 10 * minor
}

// NVML's own version is that of the driver it came with. Its init is counted; this one is given back.
Result<Version> ask_nvml(const Library& l) {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*function)(char*, unsigned) = nullptr;
  PERI_TRY(l.find("nvmlInit_v2", &init));
  PERI_TRY(l.find("nvmlShutdown", &shutdown));
  PERI_TRY(l.find("nvmlSystemGetDriverVersion", &function));
  if (const int code = init(); code != 0) PERI_TRY(no_answer("nvmlInit_v2", code));
  char text[80] = {};  // nvml.h NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
  const int code = function(text, sizeof text);
  shutdown();
  if (code != 0) PERI_TRY(no_answer("nvmlSystemGetDriverVersion", code));
  return numbers(std::string_view(text));
}

Result<Version> ask_nvrtc(const Library& l) {
  int (*function)(int*, int*) = nullptr;
  Version v;
  PERI_TRY(l.find("nvrtcVersion", &function));
  if (const int code = function(&v.major, &v.minor); code != 0) PERI_TRY(no_answer("nvrtcVersion", code));
  return v;
}

Result<Version> ask_jit_link(const Library& l) {
  int (*function)(unsigned*, unsigned*) = nullptr;
  unsigned major = 0, minor = 0;
  PERI_TRY(l.find("nvJitLinkVersion", &function));
  if (const int code = function(&major, &minor); code != 0) PERI_TRY(no_answer("nvJitLinkVersion", code));
  return Version{static_cast<int>(major), static_cast<int>(minor), 0};
}

// cublasLt.h: 10000 * major + 100 * minor + patch; cudnn_version.h the same from 9 on.
Result<Version> ask_number(const Library& l, const char* symbol) {
  size_t (*function)() = nullptr;
  PERI_TRY(l.find(symbol, &function));
  return of_decimals(static_cast<int>(function()), 10000, 100, 1);
}

Result<Version> ask(const Library& l) {
  switch (l.vendor()) {
    case Vendor::kDriver: return ask_driver(l);
    case Vendor::kNvml: return ask_nvml(l);
    case Vendor::kNvrtc: return ask_nvrtc(l);
    case Vendor::kNvJitLink: return ask_jit_link(l);
    case Vendor::kCublasLt: return ask_number(l, "cublasLtGetVersion");
    case Vendor::kCudnn: return ask_number(l, "cudnnGetVersion");
  }
  return internal_error("a library without a version");
}

// What a library of a newer CUDA makes, an older driver does not load. 0: there is no driver, which is no limit.
int served_major() {
  const auto driver = open_library(Vendor::kDriver);
  return driver.ok() ? driver->version().major : 0;
}

Status check_version(const Row& row, const Version& v) {
  const std::string name(row.name);
  if (v < row.least || (row.below != Version{} && v >= row.below)) {
    const std::string until = row.below == Version{} ? " or newer" : " or newer, before " + row.below.text();
    return unsupported("%s %s is not known to work", name.c_str(), v.text().c_str())
        .expecting(row.least.text() + until)
        .but_found(v.text());
  }
  const int served = row.counts_cuda ? served_major() : 0;
  if (served == 0 || v.major <= served) return Ok{};
  return unsupported("%s %s is newer than the driver", name.c_str(), v.text().c_str())
      .expecting(format("a driver for CUDA %d", v.major))
      .but_found(format("one for CUDA %d", served));
}

// A file of cuDNN may be no more than a door to its parts, which ends the process at the first call where the part does
// not load: 0.1 MB, while one that holds all is of hundreds. A part beside it is the one that it takes, else the
// loader's.
Status check_parts(const std::string& path) {
  constexpr size_t kMaxDoor = size_t{1} << 20;
  constexpr const char* kPart = "libcudnn_graph.so.9";
  const auto bytes = read_file(path, kMaxDoor);
  if (!bytes.ok() || bytes->find("libcudnn_graph.so") == std::string::npos) return Ok{};
  const fs::path beside = fs::path(path).parent_path() / kPart;
  std::error_code failed;
  if (dlopen(fs::exists(beside, failed) ? beside.c_str() : kPart, RTLD_LAZY | RTLD_LOCAL)) return Ok{};
  const char* const why = dlerror();
  return unsupported("its part %s does not load: %s", kPart, why ? why : "the loader does not say why").in_file(path);
}

Result<Library> open_file_of(const Row& row, const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    const char* const why = dlerror();
    return unsupported("the loader refuses it: %s", why ? why : "it does not say why").in_file(path);
  }
  Library library(row.vendor, handle, path);
  if (row.vendor == Vendor::kCudnn)
    if (Status whole = check_parts(path); !whole.ok()) return std::move(whole).error().advise(row.remedy);
  auto version = ask(library);
  Status fine = version.ok() ? check_version(row, *version) : Status(version.error());
  if (!fine.ok()) return std::move(fine).error().in_file(path).advise(row.remedy);
  library.set_version(*version);
  return library;
}
}  // namespace

std::string Version::text() const {
  return patch == 0 ? format("%d.%d", major, minor) : format("%d.%d.%d", major, minor, patch);
}

std::span<const Vendor> vendors() { return kVendors; }
std::string_view vendor_name(Vendor vendor) { return row_of(vendor).name; }

Result<void*> Library::find_symbol(const char* symbol) const {
  void* const at = dlsym(handle_, symbol);
  if (!at)
    return unsupported("%s has no function %s: it is older than what is used here",
                       std::string(vendor_name(vendor_)).c_str(), symbol)
        .in_file(path_);
  return at;
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(':', at), text.size());
    if (end > at) out.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Version version_in_name(std::string_view name) {
  if (const size_t so = name.find(".so."); so != std::string_view::npos) return numbers(name.substr(so + 4));
  const size_t dash = name.rfind('-', name.find(".dist-info"));
  return dash == std::string_view::npos ? Version{} : numbers(name.substr(dash + 1));
}

Result<Library> open_library(Vendor vendor) {
  const Row& row = row_of(vendor);
  std::optional<Error> first;
  for (const Candidate& c : Search(row).run()) {
    if (c.told != Version{})
      if (Status fine = check_version(row, c.told); !fine.ok()) {
        if (!first) first = std::move(fine).error().in_file(c.path).advise(row.remedy);
        continue;
      }
    auto opened = open_file_of(row, c.path);
    if (opened.ok()) return opened;
    if (!first) first = std::move(opened).error();
  }
  if (first) return *std::move(first);
  const std::optional<std::string> named = knob(Knob::kCudaPath);
  const std::string where = !named           ? "not found"
                            : named->empty() ? "not looked for: PERI_CUDA_PATH is set to nothing"
                                             : "not found in PERI_CUDA_PATH=" + *named;
  return unsupported("%s (%s) is %s", std::string(row.name).c_str(), row.files[0], where.c_str())
      .advise(named && named->empty() ? "unset PERI_CUDA_PATH, or set it to the folder of the libraries" : row.remedy);
}

}  // namespace peri::device::cuda
