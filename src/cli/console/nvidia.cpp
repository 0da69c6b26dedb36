// Each library is reported independently: a missing one does not affect the others.
#include "cli/console/nvidia.hpp"

#include "device/cuda/cuda.hpp"

namespace peri::cli {

namespace {
using device::cuda::GpuFacts;
using device::cuda::Vendor;

// One line with at most three parts: message, expectation and finding, remedy.
std::string reason_of(Error error) {
  error.file.clear();
  return error.text();
}

std::vector<std::string> show_libraries(const Page& page, JsonWriter* w) {
  std::vector<std::string> used;
  w->key("libraries").begin_array();
  for (const Vendor v : device::cuda::vendors()) {
    const std::string name(device::cuda::vendor_name(v));
    const auto library = device::cuda::open_library(v);
    w->begin_object().field("name", name);
    if (library.ok()) {
      const std::string version = library->version().text();
      page.line("NVIDIA    %-10s %-10s %s", name.c_str(), version.c_str(), library->path().c_str());
      w->field("version", version).field("path", library->path());
      if (v != Vendor::kDriver && v != Vendor::kNvml) used.push_back(name + " " + version);
    } else {
      page.line("NVIDIA    %-10s not used: %s", name.c_str(), reason_of(library.error()).c_str());
      w->field("reason", library.error().text());
    }
    w->end_object();
  }
  w->end_array();
  return used;
}

void show_gpu(const Page& page, JsonWriter* w, const GpuFacts& f, const device::Target& target) {
  page.line("GPU       cuda:%-5d %s (%s), %d multiprocessors at %d MHz, %s", f.ordinal, f.name.c_str(),
            f.chip().c_str(), f.multiprocessors, f.clock_khz / 1000,
            bytes_text(static_cast<double>(f.memory_bytes)).c_str());
  w->begin_object()
      .field("ordinal", f.ordinal)
      .field("pci", f.pci)
      .field("clock_khz", f.clock_khz)
      .field("memory_clock_khz", f.memory_clock_khz)
      .field("bus_bits", f.bus_bits)
      .key("target");
  device::write_target(*w, target);
  w->end_object();
}
}  // namespace

void show_nvidia(const Page& page, JsonWriter* w) {
  w->begin_object();
  const std::vector<std::string> libraries = show_libraries(page, w);
  const auto driver = device::cuda::open_driver();
  auto gpus = driver.ok() ? device::cuda::list_gpus(**driver) : Result<std::vector<GpuFacts>>(driver.error());
  w->key("gpus").begin_array();
  if (gpus.ok())
    for (const GpuFacts& f : *gpus) show_gpu(page, w, f, device::cuda::target_of(f, **driver, libraries));
  w->end_array();
  if (!gpus.ok()) {
    page.line("GPU       none: %s", reason_of(gpus.error()).c_str());
    w->field("no_gpu", gpus.error().text());
  }
  w->end_object();
}

}  // namespace peri::cli
