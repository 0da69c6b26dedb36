// This machine in words, for proofs and the doctor.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"

namespace peri::cli {

struct MachineFacts {
  std::string cpu;                // "AMD EPYC 9654 96-Core Processor"; "unknown" where the system does not say
  std::vector<std::string> isas;  // "avx2", "avx512", ...
  int cpus = 1;                   // usable by this process
  std::vector<std::pair<std::string, int64_t>> caches;  // "L1 data" -> bytes
  int64_t memory_bytes = 0, available_bytes = 0;
  std::vector<std::string> libraries;
};
MachineFacts machine_facts();
void write_machine(JsonWriter& w, const MachineFacts& m);  // an object
// kRefused if write_machine() wrote `recorded` on another kind of machine: CPU, instruction sets or caches differ.
Status check_machine(const MachineFacts& here, const Json& recorded);

}  // namespace peri::cli
