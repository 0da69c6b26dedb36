// Ranges of a step's arguments.
#include "tune/away.hpp"

namespace peri::tune {

namespace {
using Arguments = std::vector<runtime::EnqueueContext::Argument>;

Result<std::vector<uint64_t>> sums_of(const Arguments& arguments, Checksums& checksums) {
  std::vector<device::Argument> ranges;
  for (const auto& a : arguments) ranges.push_back({a.address, a.bytes});
  return checksums.of(ranges);
}
}  // namespace

Result<std::vector<uint64_t>> given_sums(runtime::Session& session, size_t step, const std::vector<bool>& weights,
                                         Checksums& checksums) {
  PERI_ASSIGN(const runtime::DeviceStep at, session.device_step(step));
  Arguments given = at.reads;
  size_t copies = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    if (weights[k]) continue;
    PERI_ASSIGN(const runtime::DeviceStep copy, session.device_step(copies++));
    given[k] = copy.reads[0];
  }
  return sums_of(given, checksums);
}

Result<std::vector<uint64_t>> read_sums(runtime::Session& session, size_t step, Checksums& checksums) {
  PERI_ASSIGN(const runtime::DeviceStep at, session.device_step(step));
  return sums_of(at.reads, checksums);
}

Result<std::vector<uint64_t>> written_sums(runtime::Session& session, size_t step, Checksums& checksums) {
  PERI_ASSIGN(const runtime::DeviceStep at, session.device_step(step));
  return sums_of(at.writes, checksums);
}

}  // namespace peri::tune
