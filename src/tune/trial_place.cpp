// Devices according to the executors' table; a GPU adds its chip to the host's target.
#include "tune/trial_place.hpp"

#include "bench/gpu_ceilings.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/nvml.hpp"
#include "device/open.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"

namespace peri::tune {

std::string_view device_of(const kernels::Kernel& kernel) {
  for (const exec::Entry* e : exec::entries())
    if (e->executor.name == kernel.executor && !e->executor.device.empty()) return e->executor.device;
  return "host";
}

namespace {
void add_gpu(const device::cuda::CudaDevice& gpu, TrialPlace* place) {
  place->ceilings = bench::gpu_ceilings(gpu.facts());
  auto opened = device::cuda::Nvml::open();
  if (!opened.ok()) return;  // a state that nobody tells
  place->note_state = [nvml = std::shared_ptr<device::cuda::Nvml>(std::move(*opened)),
                       pci = gpu.facts().pci](Evidence* e) {
    const auto state = nvml->state(pci);
    if (state.ok() && state->sm_mhz) e->clock_mhz = *state->sm_mhz;
  };
}
}  // namespace

TrialPlaces::TrialPlaces(int threads, std::string device)
    : device_(std::move(device)), host_(device::cpu_target(threads, exec::libraries())) {
  host_.ceilings = bench::machine_ceilings(threads);
}

Result<const TrialPlace*> TrialPlaces::of(const kernels::Kernel& kernel) { return at(device_of(kernel)); }

Result<const TrialPlace*> TrialPlaces::at(std::string_view name) {
  if (name == host_.name) return &host_;
  if (const auto it = devices_.find(name); it != devices_.end()) {
    PERI_TRY(it->second.device->synchronize());
    return &it->second;
  }
  PERI_ASSIGN(std::shared_ptr<device::Device> opened, device::open_device(device::which_of(name, device_)));
  TrialPlace place(device::with_gpu(host_.target, opened->target()));
  place.name = name;
  if (const auto* gpu = dynamic_cast<const device::cuda::CudaDevice*>(opened.get())) add_gpu(*gpu, &place);
  if (auto sums = Checksums::open(opened.get()); sums.ok()) place.checksums = std::move(*sums);
  place.device = std::move(opened);
  return &devices_.emplace(place.name, std::move(place)).first->second;
}

bool TrialPlaces::lost() {
  for (auto& [name, place] : devices_) {
    (void)place.device->synchronize();  // what an error of work itself tells once
    if (!place.device->synchronize().ok()) return true;
  }
  return false;
}

}  // namespace peri::tune
