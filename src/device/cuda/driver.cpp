// Converts codes to errors; the list of sticky ones is that of cuda.h, which says for each that the process must end.
#include "device/cuda/driver.hpp"

#include <algorithm>

#include "device/lost.hpp"

namespace peri::device::cuda {

namespace {
constexpr CuResult kSticky[] = {kCuEccUncorrectable,
                                kCuNvlinkUncorrectable,
                                kCuContained,
                                kCuIllegalAddress,
                                kCuLaunchTimeout,
                                kCuContextIsDestroyed,
                                kCuAssert,
                                kCuHardwareStackError,
                                kCuIllegalInstruction,
                                kCuMisalignedAddress,
                                kCuInvalidAddressSpace,
                                kCuInvalidPc,
                                kCuLaunchFailed,
                                kCuTensorMemoryLeak,
                                kCuExternalDevice};
constexpr CuResult kAbsent[] = {
    kCuStubLibrary,    kCuDeviceUnavailable,    kCuNoDevice,           kCuInvalidDevice,  kCuNotSupported,
    kCuSystemNotReady, kCuSystemDriverMismatch, kCuCompatNotSupported, kCuNoBinaryForGpu, kCuInvalidImage};

template <size_t N>
bool holds(const CuResult (&codes)[N], CuResult code) {
  return std::find(std::begin(codes), std::end(codes), code) != std::end(codes);
}

Error not_started(const Driver& driver, const char* call, CuResult code) {
  Error error = unsupported("the driver gives no GPU: %s", code_text(driver, code).c_str());
  error.file = driver.path;
  error.node = call;
  error.remedy = code == kCuNoDevice ? "check nvidia-smi and CUDA_VISIBLE_DEVICES"
                 : code == kCuStubLibrary
                     ? "the toolkit has this library to link with, it drives nothing: install NVIDIA's driver"
                 : code == kCuSystemDriverMismatch ? "restart the machine, or reload the driver's modules"
                                                   : "check nvidia-smi";
  return error;
}
}  // namespace

std::string code_text(const Driver& driver, CuResult code) {
  const char *name = nullptr, *text = nullptr;
  if (!driver.error_name || driver.error_name(code, &name) != kCuSuccess || !name) name = "error";
  if (!driver.error_text || driver.error_text(code, &text) != kCuSuccess || !text) text = "no text";
  std::string_view shown = name;
  if (constexpr std::string_view kBegin = "CUDA_ERROR_"; shown.starts_with(kBegin)) shown.remove_prefix(kBegin.size());
  return format("%s (%d): %s", std::string(shown).c_str(), code, text);
}

bool is_sticky(CuResult code) { return holds(kSticky, code); }

ErrorKind kind_of(CuResult code) {
  if (code == kCuOutOfMemory) return ErrorKind::kMemory;
  return holds(kAbsent, code) ? ErrorKind::kUnsupported : ErrorKind::kIo;
}

Result<std::shared_ptr<const Driver>> open_driver() {
  PERI_ASSIGN(const Library library, open_library(Vendor::kDriver));
  auto driver = std::make_shared<Driver>();
  driver->version = library.version();
  driver->path = library.path();
#define PERI_DRIVER(member, symbol, parameters) PERI_TRY(library.find(symbol, &driver->member));
#include "device/cuda/driver.def"
#undef PERI_DRIVER
  if (const CuResult code = driver->init(0); code != kCuSuccess) return not_started(*driver, "cuInit", code);
  int count = 0;
  CuResult code = driver->device_count(&count);
  if (code == kCuSuccess && count == 0) code = kCuNoDevice;
  if (code != kCuSuccess) return not_started(*driver, "cuDeviceGetCount", code);
  return std::shared_ptr<const Driver>(std::move(driver));
}

Status Health::check(CuResult code, std::string_view call) {
  if (code == kCuSuccess) return Ok{};
  const std::lock_guard<std::mutex> lock(lock_);
  if (failure_) return *failure_;
  Error error(kind_of(code), device_ + ": " + code_text(*driver_, code));
  error.node = call;
  if (!is_sticky(code)) return error;
  error.message = device_ + " failed and cannot be used by this process any more: " + code_text(*driver_, code);
  std::vector<std::string> told;  // a loop or several requests enqueue a name again
  for (const std::string& name : suspects_)
    if (std::find(told.begin(), told.end(), name) == told.end()) told.push_back(name);
  for (const std::string& name : told) error.found += (error.found.empty() ? "after '" : ", '") + name + "'";
  error.remedy = "end this process and start again; sessions on other devices go on";
  failure_ = error;
  note_lost_device(error);
  return error;
}

Status Health::alive() const {
  const std::lock_guard<std::mutex> lock(lock_);
  if (failure_) return *failure_;
  return Ok{};
}

void Health::enqueued(const std::string& name) {
  const std::lock_guard<std::mutex> lock(lock_);
  if (suspects_.size() == kSuspects) suspects_.erase(suspects_.begin());
  suspects_.push_back(name);
}

void Health::finished() {
  const std::lock_guard<std::mutex> lock(lock_);
  suspects_.clear();
}

Result<std::vector<GpuFacts>> list_gpus(const Driver& driver) {
  Health health(std::make_shared<const Driver>(driver), "the driver");
  int count = 0;
  PERI_TRY(health.check(driver.device_count(&count), "cuDeviceGetCount"));
  std::vector<GpuFacts> out;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice device = 0;
    PERI_TRY(health.check(driver.device_get(&device, ordinal), "cuDeviceGet"));
    GpuFacts f;
    f.ordinal = ordinal;
    char text[256] = {};
    PERI_TRY(health.check(driver.device_name(text, sizeof text, device), "cuDeviceGetName"));
    f.name = text;
    PERI_TRY(health.check(driver.device_pci(text, sizeof text, device), "cuDeviceGetPCIBusId"));
    f.pci = text;
    size_t bytes = 0;
    PERI_TRY(health.check(driver.device_memory(&bytes, device), "cuDeviceTotalMem"));
    f.memory_bytes = static_cast<int64_t>(bytes);
    int l2 = 0, shared = 0, pools = 0;
    const std::pair<int, int*> attributes[] = {{kCuCapabilityMajor, &f.major},
                                               {kCuCapabilityMinor, &f.minor},
                                               {kCuMultiprocessors, &f.multiprocessors},
                                               {kCuL2Bytes, &l2},
                                               {kCuClockKhz, &f.clock_khz},
                                               {kCuMemoryClockKhz, &f.memory_clock_khz},
                                               {kCuBusBits, &f.bus_bits},
                                               {kCuPools, &pools},
                                               {kCuSharedPerBlockOptin, &shared}};
    for (const auto& [attribute, value] : attributes)
      PERI_TRY(health.check(driver.device_attribute(value, attribute, device), "cuDeviceGetAttribute"));
    f.l2_bytes = l2;
    f.shared_bytes = shared;
    f.pools = pools != 0;
    out.push_back(std::move(f));
  }
  return out;
}

}  // namespace peri::device::cuda
