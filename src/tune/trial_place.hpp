// Where candidates are tried: on the host, or on a device that this process opens when a kernel for it is first tried.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "bench/ceilings.hpp"
#include "device/device.hpp"
#include "tune/checksums.hpp"
#include "tune/evidence.hpp"

namespace peri::kernels {
struct Kernel;
}

namespace peri::tune {

// The device of a kernel's executor; "host".
std::string_view device_of(const kernels::Kernel& kernel);

struct TrialPlace {
  TrialPlace(device::Target host) : target(std::move(host)) {}
  device::Target target;  // of the host, including its devices
  bench::Ceilings ceilings = {};
  std::string name = "host";
  std::shared_ptr<device::Device> device = nullptr;  // null: the host
  std::shared_ptr<Checksums> checksums = nullptr;    // null: memory has to be read back
  size_t most_read = size_t{64} << 20;               // of a larger result only the judged positions are read
  // Records the device's state at this moment: its clock.
  std::function<void(Evidence*)> note_state = [](Evidence*) {};
  bool away() const { return device != nullptr; }
};

class TrialPlaces {
 public:
  // `device`: which one of several devices is used, "cuda:1"; "": the first of each kind.
  explicit TrialPlaces(int threads, std::string device = "");
  const TrialPlace& host() const { return host_; }
  // Opened once. Errors: those of opening it, and that of a device that failed permanently.
  Result<const TrialPlace*> of(const kernels::Kernel& kernel);
  Result<const TrialPlace*> at(std::string_view device);  // of this kind
  // Whether an opened device accepts no more work: this process can try nothing on it any more. Waits for it.
  bool lost();

 private:
  std::string device_;
  TrialPlace host_;
  std::map<std::string, TrialPlace, std::less<>> devices_;
};

}  // namespace peri::tune
