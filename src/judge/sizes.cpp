// Candidates for a size, and the first that the model's shapes allow.
#include "judge/sizes.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "device/memory_info.hpp"
#include "exec/region/region_payload.hpp"

namespace peri::judge {
namespace {

using Change = std::function<int64_t(int64_t)>;
}  // namespace

bool possible(const ir::Graph& graph, const DimBinding& sizes) {
  const auto bound = exec::bind_region(graph, sizes, true);
  if (!bound.ok() || bound->values().size() != graph.values().size()) return bound.ok();
  for (size_t k = 0; k < graph.values().size(); ++k) {
    const auto &stated = graph.values()[k]->type.shape, &found = bound->values()[k]->type.shape;
    if (!stated || !found || !is_const(*found)) continue;
    const auto dims = eval(*stated, sizes), there = eval(*found, sizes);
    if (dims.ok() && there.ok() && *dims != *there) return false;
  }
  return true;
}

namespace {
// All dimensions changed, else the first that can be changed alone.
std::optional<DimBinding> changed(const ir::Graph& graph, const DimBinding& from, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    DimBinding all = from;
    for (auto& [name, value] : all) value = change(value);
    if (all != from && possible(graph, all)) return all;
  }
  for (const auto& [name, value] : from) {
    for (const Change& change : changes) {
      DimBinding one = from;
      one[name] = change(value);
      if (one != from && possible(graph, one)) return one;
    }
  }
  return std::nullopt;
}
}  // namespace

std::vector<DimBinding> sizes_to_judge(const ir::Graph& graph, const DimBinding& tuned_for,
                                       const std::vector<DimBinding>& bounds) {
  std::vector<DimBinding> out = {tuned_for};
  if (tuned_for.empty()) return out;
  for (const DimBinding& bound : bounds)
    if (std::find(out.begin(), out.end(), bound) == out.end()) out.push_back(bound);
  if (!bounds.empty()) return out;
  // Odd sizes first: tails of every kernel. Multiples of what the size is one of, for models that halve it.
  const std::vector<Change> smaller = {
      [](int64_t v) { return v > 2 ? (v * 5 / 8) | 1 : 1; },
      [](int64_t v) { return std::max<int64_t>(1, v / 2); },
      [](int64_t v) { return std::max<int64_t>(1, v / 4 * 3); },
      [](int64_t) { return int64_t{1}; },
  };
  const std::vector<Change> larger = {
      [](int64_t v) { return v < 2 ? v + 1 : (v + v / 8 + 1) | 1; },
      [](int64_t v) { return v < 8 ? 2 * v : v + v / 2; },
      [](int64_t v) { return 2 * v; },
      [](int64_t v) { return v + 1; },
  };
  for (const auto* changes : {&smaller, &larger})
    if (auto sizes = changed(graph, tuned_for, *changes);
        sizes && std::find(out.begin(), out.end(), *sizes) == out.end())
      out.push_back(std::move(*sizes));
  DimBinding empty = tuned_for;  // a decoder's first step
  for (const ir::Value* v : graph.inputs)
    for (const Dim& d : v->type.shape ? *v->type.shape : Shape())
      if (d.is_symbol() && !provably_at_least(d, 1)) empty[d.symbol_name()] = 0;
  if (std::find(out.begin(), out.end(), empty) == out.end() && possible(graph, empty)) out.push_back(std::move(empty));
  return out;
}

std::string lacks_memory(double bytes, const char* what) { return device::lacks_host_memory(bytes, what); }

std::string lacks_memory(const ir::Graph& graph, const DimBinding& sizes) {
  double bytes = 0;
  for (const auto* ports : {&graph.inputs, &graph.outputs})
    for (const ir::Value* v : *ports) {
      if (!v->type.shape || dtype_size(v->type.dtype) < 1) continue;
      const auto dims = eval(*v->type.shape, sizes);
      if (!dims.ok()) continue;  // the run says how large it is
      double size = dtype_size(v->type.dtype);
      for (const int64_t d : *dims) size *= static_cast<double>(d);
      bytes += size;
    }
  return lacks_memory(bytes, "a run takes at least");
}

std::string lacks_memory(const plan::Program& program, const DimBinding& sizes, bool separate) {
  const auto arena = plan::plan_arena(program, sizes);
  if (!arena.ok()) return "";  // the run says why
  double bytes = separate ? 0 : static_cast<double>(arena->arena_bytes);
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const plan::BufferKind kind = program.buffers[k].kind;
    if (arena->bytes[k] == plan::kUnbound || kind == plan::BufferKind::kWeight) continue;
    if (separate || kind == plan::BufferKind::kInput || kind == plan::BufferKind::kOutput)
      bytes += static_cast<double>(arena->bytes[k]);
  }
  return lacks_memory(bytes, "a run takes");
}

Result<double> bytes_to_judge(const plan::Program& program, const DimBinding& sizes) {
  // Of 32 bits, by what is read and written: its contents row-major, in float64, with radii, and what compares them.
  constexpr double kRead = 5, kWritten = 11, kWeight = 2;
  PERI_ASSIGN(const plan::ArenaPlan arena, plan::plan_arena(program, sizes));
  const auto bytes_of = [&](int32_t b) {
    const auto k = static_cast<size_t>(b);
    return b < 0 || arena.bytes[k] == plan::kUnbound ? 0.0 : static_cast<double>(arena.bytes[k]);
  };
  double bytes = static_cast<double>(arena.arena_bytes), largest = 0;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const plan::BufferKind kind = program.buffers[k].kind;
    if (kind == plan::BufferKind::kWeight) continue;
    const bool port = kind == plan::BufferKind::kInput || kind == plan::BufferKind::kOutput;
    bytes += (port ? 2 : 1) * bytes_of(static_cast<int32_t>(k));
  }
  for (const plan::Step& s : program.steps) {
    double own = 0;
    for (const int32_t b : s.reads)
      own += b < 0 ? 0 : bytes_of(b) * (program.buffers[static_cast<size_t>(b)].weight >= 0 ? kWeight : kRead);
    for (const int32_t b : s.writes) own += kWritten * bytes_of(b);
    largest = std::max(largest, own);
  }
  return bytes + largest;
}

std::string lacks_memory_to_judge(const plan::Program& program, const DimBinding& sizes) {
  const auto bytes = bytes_to_judge(program, sizes);
  return bytes.ok() ? lacks_memory(*bytes, "to judge it takes") : "";  // the run says why
}

}  // namespace peri::judge
