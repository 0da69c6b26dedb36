// The list of devices.
#include "device/open.hpp"

#include <charconv>

#include "device/cuda/cuda.hpp"
#include "device/null.hpp"

namespace peri::device {

std::string_view kind_of(std::string_view name) { return name.substr(0, name.find(':')); }

Result<int> ordinal_of(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = name.substr(colon + 1);
  int out = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  // "007" and "-0" would be other names of what has one
  if (code != std::errc() || std::to_string(out) != digits || out < 0)
    return usage("'%s' names no device", std::string(name).c_str()).expecting("a kind, or KIND:NUMBER, as in cuda:0");
  const std::string kind(kind_of(name));
  if (out > 0 && (kind == "cpu" || kind == "host"))
    return usage("there is no %s:%d", kind.c_str(), out).expecting(kind + ", of which there is one");
  return out;
}

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  PERI_ASSIGN(const int ordinal, ordinal_of(name));
  if (kind_of(name) == "null") {
    if (ordinal != 0) return usage("there is no null:%d", ordinal).expecting("null:0");
    NullOptions options;
    options.memory_bytes = host_memory().total_bytes;
    PERI_ASSIGN(std::unique_ptr<Device> made, make_null_device(std::move(options)));
    return std::shared_ptr<Device>(std::move(made));
  }
  if (kind_of(name) == "cuda") {
    PERI_ASSIGN(std::unique_ptr<cuda::CudaDevice> made, cuda::make_cuda_device({.ordinal = ordinal}));
    return std::shared_ptr<Device>(std::move(made));
  }
  return refused("this build has no device '%s'", std::string(name).c_str())
      .expecting("host, cuda, null")
      .advise("build the engine again for a device that is here: peri build MODEL -o ENGINE");
}

Status check_there(std::string_view name) {
  PERI_ASSIGN(const int ordinal, ordinal_of(name));
  if (kind_of(name) != "cuda") return Ok{};
  PERI_ASSIGN(const auto driver, cuda::open_driver());
  PERI_ASSIGN(const auto gpus, cuda::list_gpus(*driver));
  return cuda::check_ordinal(ordinal, gpus.size());
}

std::string chip_at(std::string_view name) {
  const auto ordinal = ordinal_of(name);
  if (!ordinal.ok() || kind_of(name) != "cuda") return "";
  const auto driver = cuda::open_driver();
  if (!driver.ok()) return "";
  const auto gpus = cuda::list_gpus(**driver);
  if (!gpus.ok() || static_cast<size_t>(*ordinal) >= gpus->size()) return "";
  const cuda::GpuFacts& gpu = (*gpus)[static_cast<size_t>(*ordinal)];
  return format("%s (%d multiprocessors)", gpu.name.c_str(), gpu.multiprocessors);
}

bool has_numbers(std::string_view kind) { return kind == "cuda"; }

std::string which_of(std::string_view kind, std::string_view chosen) {
  return std::string(!chosen.empty() && kind_of(chosen) == kind ? chosen : kind);
}

bool is_asked_for(std::string_view device, std::string_view asked) {
  return device == asked || (device.starts_with(asked) && device.substr(asked.size()).starts_with(':'));
}

}  // namespace peri::device
