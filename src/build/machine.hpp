// A description of this machine for proofs and the doctor.
#pragma once

#include <string>

#include "base/json.hpp"
#include "device/memory_info.hpp"
#include "device/target.hpp"

namespace peri::build {

struct MachineFacts {
  device::Target
      target;  // including the libraries that this build is linked with; `threads`: CPUs usable by this process
  device::MemoryInfo memory;
};
MachineFacts machine_facts();
std::string cpu_name(const MachineFacts& m);               // "unknown" where the system does not provide it
void write_machine(JsonWriter& w, const MachineFacts& m);  // an object
// kRefused if write_machine() wrote `recorded` on another kind of machine: CPU, instruction sets or caches differ.
Status check_machine(const MachineFacts& here, const Json& recorded);

}  // namespace peri::build
