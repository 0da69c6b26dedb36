// Numbers and names from nvml.h (12.x and 13.x agree); each reading may be missing independently.
#include "device/cuda/nvml.hpp"

namespace peri::device::cuda {

namespace {
constexpr int kSmClock = 1, kMemoryClock = 2;  // enum nvmlClockType_t
constexpr int kGpuTemperature = 0;             // enum nvmlTemperatureSensors_t
using Handle = struct NvmlDeviceTag*;
}  // namespace

struct Nvml::Table {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_pci)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*power_limit)(Handle, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*slowed_by)(Handle, unsigned long long*) = nullptr;
};

Nvml::Nvml(std::unique_ptr<Table> table) : table_(std::move(table)) {}
Nvml::~Nvml() { table_->shutdown(); }

Result<std::unique_ptr<Nvml>> Nvml::open() {
  PERI_ASSIGN(const Library library, open_library(Vendor::kNvml));
  auto table = std::make_unique<Table>();
  PERI_TRY(library.find("nvmlInit_v2", &table->init));
  PERI_TRY(library.find("nvmlShutdown", &table->shutdown));
  PERI_TRY(library.find("nvmlDeviceGetHandleByPciBusId_v2", &table->by_pci));
  PERI_TRY(library.find("nvmlDeviceGetClockInfo", &table->clock));
  PERI_TRY(library.find("nvmlDeviceGetPowerUsage", &table->power));
  PERI_TRY(library.find("nvmlDeviceGetEnforcedPowerLimit", &table->power_limit));
  PERI_TRY(library.find("nvmlDeviceGetTemperature", &table->temperature));
  if (!library.find("nvmlDeviceGetCurrentClocksEventReasons", &table->slowed_by).ok())  // the newer name
    PERI_TRY(library.find("nvmlDeviceGetCurrentClocksThrottleReasons", &table->slowed_by));
  if (const int code = table->init(); code != 0)
    return unsupported("NVML does not start: error %d", code).in_file(library.path());
  return std::unique_ptr<Nvml>(new Nvml(std::move(table)));
}

Result<GpuState> Nvml::state(const std::string& pci) const {
  Handle device = nullptr;
  if (const int code = table_->by_pci(pci.c_str(), &device); code != 0)
    return unsupported("NVML knows no GPU at %s: error %d", pci.c_str(), code);
  GpuState out;
  unsigned value = 0;
  unsigned long long bits = 0;
  const auto told = [&value](int code) { return code == 0 ? std::optional<unsigned>(value) : std::nullopt; };
  out.sm_mhz = told(table_->clock(device, kSmClock, &value));
  out.memory_mhz = told(table_->clock(device, kMemoryClock, &value));
  out.milliwatts = told(table_->power(device, &value));
  out.limit_milliwatts = told(table_->power_limit(device, &value));
  out.celsius = told(table_->temperature(device, kGpuTemperature, &value));
  if (table_->slowed_by(device, &bits) == 0) out.slowed_by = bits;
  return out;
}

}  // namespace peri::device::cuda
