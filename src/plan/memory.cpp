// A sum over buffers.
#include "plan/memory.hpp"

#include <set>

#include "base/bytes.hpp"

namespace peri::plan {

std::vector<DeviceMemory> device_memory(const Program& p, const ArenaPlan& plan) {
  std::vector<DeviceMemory> out(p.devices.size());
  std::vector<std::set<std::pair<uint64_t, uint64_t>>> seen(p.devices.size());
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const Buffer& b = p.buffers[k];
    DeviceMemory& at = out[b.device];
    if (b.kind == BufferKind::kWeight && b.device != kHost) {
      const Weight& w = p.weights[static_cast<size_t>(b.weight)];
      const uint64_t own = UINT64_MAX - static_cast<uint64_t>(b.weight);  // of one that lies in no file
      if (seen[b.device].emplace(w.offset ? w.offset : own, w.bytes).second)
        at.weights += static_cast<int64_t>(w.bytes);
    } else if (b.alias_of < 0 && plan.bytes[k] != kUnbound &&
               (b.kind == BufferKind::kState || (b.kind == BufferKind::kInput && b.device != kHost))) {
      at.ports += plan.bytes[k];
    }
  }
  for (size_t d = 0; d < out.size(); ++d) out[d].arena = d == kHost ? plan.arena_bytes : plan.device_bytes[d];
  return out;
}

std::string memory_text(const DeviceMemory& m) {
  return mib_text(m.total()) + ": weights " + mib_text(m.weights) + ", arena " + mib_text(m.arena) +
         ", inputs and states " + mib_text(m.ports);
}

std::vector<std::string> memory_lines(const Program& p, const DimBinding& dims) {
  std::vector<std::string> out;
  if (p.devices.size() == 1) return out;
  const auto plan = plan_arena(p, dims);
  if (!plan.ok()) return out;
  const std::vector<DeviceMemory> all = device_memory(p, *plan);
  for (size_t d = 1; d < all.size(); ++d) out.push_back(p.devices[d] + ": " + memory_text(all[d]));
  return out;
}

}  // namespace peri::plan
