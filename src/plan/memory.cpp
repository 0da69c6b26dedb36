// Sums over buffers.
#include "plan/memory.hpp"

#include <set>

#include "base/bytes.hpp"
#include "plan/sizes.hpp"

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
  const std::string work = m.workspaces > 0 ? " (" + mib_text(m.workspaces) + " for workspaces)" : "";
  return mib_text(m.total()) + ": weights " + mib_text(m.weights) + ", arena " + mib_text(m.arena) + work +
         ", inputs and states " + mib_text(m.ports);
}

Result<std::vector<DeviceMemory>> device_memory(const Program& p, const DimBinding& dims,
                                                std::vector<int64_t> workspaces) {
  const ProgramSizes sizes = compile_sizes(p);
  const std::vector<int64_t> values = sizes.table.values_of(dims);
  PERI_ASSIGN(const ArenaPlan plain, plan_arena(p, sizes, values));
  if (workspaces.size() != p.steps.size()) return device_memory(p, plain);
  Workspaces work{std::move(workspaces), {}};
  PERI_ASSIGN(const ArenaPlan plan, plan_arena(p, sizes, values, &work));
  std::vector<DeviceMemory> out = device_memory(p, plan);
  for (size_t d = 1; d < out.size(); ++d) out[d].workspaces = plan.device_bytes[d] - plain.device_bytes[d];
  return out;
}

std::vector<std::string> memory_lines(const Program& p, const DimBinding& dims, std::vector<int64_t> workspaces) {
  std::vector<std::string> out;
  if (p.devices.size() == 1) return out;
  const auto all = device_memory(p, dims, std::move(workspaces));
  if (!all.ok()) return out;
  for (size_t d = 1; d < all->size(); ++d) out.push_back(p.devices[d] + ": " + memory_text((*all)[d]));
  return out;
}

}  // namespace peri::plan
