// Ranges of a step's arguments.
#include "tune/away.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/entry.hpp"

namespace peri::tune {

namespace {
using Arguments = std::vector<runtime::EnqueueContext::Argument>;

Result<std::vector<uint64_t>> sums_of(const Arguments& arguments, Checksums& checksums) {
  std::vector<device::Argument> ranges;
  for (const auto& a : arguments)  // a weight that the step has in a form of its own lies nowhere else
    ranges.push_back(a.address.value ? device::Argument{a.address, a.bytes} : device::Argument{});
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

bool picks(const TrialPlace& place, const ir::Value& result, const Expected* expected, size_t k) {
  if (!place.checksums || !expected || expected_of(*expected, k).positions.empty()) return false;
  double bytes = dtype_bits(result.type.dtype) / 8.0;
  for (const int64_t d : kernels::dims_of(result)) bytes *= static_cast<double>(d);
  return dtype_bits(result.type.dtype) % 8 == 0 && bytes > static_cast<double>(place.most_read);
}

Result<Tensor> picked_result(runtime::Session& session, size_t step, size_t k, const ir::Value& result,
                             std::span<const int64_t> positions, const TrialPlace& place) {
  PERI_ASSIGN(const runtime::DeviceStep at, session.device_step(step));
  const auto bytes = static_cast<size_t>(dtype_bits(result.type.dtype) / 8);
  PERI_ASSIGN(const std::vector<std::byte> picked,
              place.checksums->pick({at.writes[k].address, at.writes[k].bytes}, bytes, positions));
  PERI_ASSIGN(Tensor out, Tensor::zeros(result.type.dtype, kernels::dims_of(result)));
  for (size_t n = 0; n < positions.size(); ++n)
    std::memcpy(out.mutable_data() + static_cast<size_t>(positions[n]) * bytes, picked.data() + n * bytes, bytes);
  return out;
}

std::vector<int64_t> positions_to_read(const ir::Value& result, const Expected& expected, size_t k) {
  constexpr uint64_t kSeed = 7;  // any: the same positions in every run
  int64_t count = 1;
  for (const int64_t d : kernels::dims_of(result)) count *= d;
  const std::vector<int64_t> parts = part_positions(count, kSeed + k), &judged = expected_of(expected, k).positions;
  std::vector<int64_t> out;
  std::set_union(parts.begin(), parts.end(), judged.begin(), judged.end(), std::back_inserter(out));
  return out;
}

}  // namespace peri::tune
