// Lifetimes and offsets: greedy by size, best fit among the gaps left by buffers alive at the same time; for programs
// too large for that, step by step with a list of holes. Workspaces of device steps are blocks that live for one step.
#include <algorithm>
#include <map>
#include <set>

#include "base/byte_text.hpp"
#include "plan/sizes.hpp"

namespace peri::plan {

int32_t storage_of(const Program& p, int32_t buffer) {
  while (p.buffers[static_cast<size_t>(buffer)].alias_of >= 0) buffer = p.buffers[static_cast<size_t>(buffer)].alias_of;
  return buffer;
}

std::vector<int32_t> storages(const Program& p) {
  std::vector<int32_t> owner(p.buffers.size());
  for (size_t k = 0; k < owner.size(); ++k)
    owner[k] = p.buffers[k].alias_of >= 0 ? owner[static_cast<size_t>(p.buffers[k].alias_of)] : static_cast<int32_t>(k);
  return owner;
}

std::vector<Lifetime> lifetimes(const Program& p) {
  std::vector<Lifetime> life(p.buffers.size());
  const std::vector<int32_t> owner = storages(p);
  auto touch = [&](int32_t b, int32_t step) {
    if (b < 0) return;
    Lifetime& l = life[static_cast<size_t>(owner[static_cast<size_t>(b)])];
    if (l.first < 0) l.first = step;
    l.last = std::max(l.last, step);
  };
  for (size_t k = 0; k < p.steps.size(); ++k) {
    for (int32_t b : p.steps[k].reads) touch(b, static_cast<int32_t>(k));
    for (int32_t b : p.steps[k].writes) touch(b, static_cast<int32_t>(k));
  }
  for (const Port& o : p.outputs) touch(o.buffer, static_cast<int32_t>(p.steps.size()));
  return life;
}

namespace {
bool in_arena(const Program& p, size_t k) {
  const Buffer& b = p.buffers[k];
  return b.alias_of < 0 && (b.kind == BufferKind::kScratch || b.kind == BufferKind::kOutput) &&
         b.dtype != DType::kString;
}
bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

constexpr size_t kMaxBySize = 16384;  // the greedy way compares every pair

int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

// What is placed: the buffers of a program, then the workspaces of its steps.
struct Blocks {
  std::vector<int64_t> offset, bytes, alignment;  // bytes kUnbound: not known, and not placed
  std::vector<uint32_t> device;
  std::vector<Lifetime> life;
  std::vector<size_t> placed;  // those that share an arena
};

// Largest first, each into the smallest gap between those placed that are alive with it. `todo` falls by size.
template <class Together>  // bool(block, block)
Status place_by_size(const Together& together, const std::vector<size_t>& todo, Blocks* blocks, int64_t* arena_bytes) {
  std::vector<size_t> placed;  // by place, then by size
  const auto before = [&](size_t a, size_t b) {
    return std::pair(blocks->offset[a], blocks->bytes[a]) < std::pair(blocks->offset[b], blocks->bytes[b]);
  };
  for (size_t k : todo) {
    const int64_t align = blocks->alignment[k];
    int64_t best = -1, best_gap = INT64_MAX, at = 0;
    for (size_t q : placed) {
      if (!together(k, q)) continue;
      const int64_t begin = blocks->offset[q], end = begin + blocks->bytes[q], start = round_up(at, align);
      if (begin - start >= blocks->bytes[k] && begin - start < best_gap) {
        best = start;
        best_gap = begin - start;
      }
      at = std::max(at, end);
    }
    blocks->offset[k] = best >= 0 ? best : round_up(at, align);
    PERI_ASSIGN(const int64_t end, checked_add(blocks->offset[k], blocks->bytes[k], "arena"));
    *arena_bytes = std::max(*arena_bytes, end);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), k, before), k);
  }
  return Ok{};
}

// Memory that is free in one step, by place and by size.
class Holes {
 public:
  // The place for `bytes`: the smallest hole that takes them, or the end.
  int64_t take(int64_t bytes, int64_t align) {
    auto it = by_size_.lower_bound({bytes + align - 64, 0});  // every place is a multiple of 64
    if (it == by_size_.end()) return extend(bytes, align);
    const auto [size, at] = *it;
    remove(at, size);
    const int64_t start = round_up(at, align);
    add(at, start - at);
    add(start + bytes, at + size - start - bytes);
    return start;
  }
  void give(int64_t at, int64_t bytes) {
    if (bytes == 0) return;
    auto next = by_place_.lower_bound(at);
    if (next != by_place_.end() && next->first == at + bytes) {
      bytes += next->second;
      remove(next->first, next->second);
    }
    next = by_place_.lower_bound(at);
    if (next != by_place_.begin()) {
      const auto [before, size] = *std::prev(next);
      if (before + size == at) {
        remove(before, size);
        at = before;
        bytes += size;
      }
    }
    add(at, bytes);
  }

 private:
  int64_t extend(int64_t bytes, int64_t align) {
    const int64_t start = round_up(end_, align);
    give(end_, start - end_);
    end_ = start + bytes;
    return start;
  }
  void add(int64_t at, int64_t size) {
    if (size > 0) {
      by_place_[at] = size;
      by_size_.emplace(size, at);
    }
  }
  void remove(int64_t at, int64_t size) {
    by_place_.erase(at);
    by_size_.erase({size, at});
  }
  std::map<int64_t, int64_t> by_place_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// In order of their first step, the largest of a step first. Sums of kMaxBufferBytes over a million buffers stay within
// int64.
void place_by_step(std::vector<size_t> todo, Blocks* blocks, int64_t* arena_bytes) {
  const std::vector<Lifetime>& life = blocks->life;
  std::stable_sort(todo.begin(), todo.end(), [&](size_t a, size_t b) { return life[a].first < life[b].first; });
  std::multimap<int32_t, size_t> alive;  // by last step
  Holes holes;
  const auto taken = [&](size_t k) { return round_up(blocks->bytes[k], 64); };
  for (size_t k : todo) {
    for (; !alive.empty() && alive.begin()->first < life[k].first; alive.erase(alive.begin()))
      holes.give(blocks->offset[alive.begin()->second], taken(alive.begin()->second));
    blocks->offset[k] = holes.take(taken(k), blocks->alignment[k]);
    *arena_bytes = std::max(*arena_bytes, blocks->offset[k] + blocks->bytes[k]);
    alive.emplace(life[k].last, k);
  }
}

// Side by side by place, of one device: each is held against those behind it that begin before its end.
Status check_apart(const Blocks& blocks, const Spans& spans, std::vector<size_t> owners) {
  std::sort(owners.begin(), owners.end(), [&](size_t a, size_t b) { return blocks.offset[a] < blocks.offset[b]; });
  for (size_t i = 0; i < owners.size(); ++i)
    for (size_t j = i + 1; j < owners.size(); ++j) {
      const size_t a = owners[i], b = owners[j];
      if (blocks.offset[b] >= blocks.offset[a] + blocks.bytes[a]) break;
      if (!spans.apart(a, b)) return invalid("buffers %zu and %zu overlap", a, b);
    }
  return Ok{};
}

// By time: those alive in a step lie side by side, so that a new one can only meet its neighbours.
Status check_alive(const Blocks& blocks, std::vector<size_t> owners) {
  const std::vector<Lifetime>& life = blocks.life;
  std::sort(owners.begin(), owners.end(), [&](size_t a, size_t b) { return life[a].first < life[b].first; });
  std::multimap<int32_t, size_t> alive;  // by last step
  std::map<int64_t, size_t> by_place;
  for (size_t k : owners) {
    for (; !alive.empty() && alive.begin()->first < life[k].first; alive.erase(alive.begin()))
      by_place.erase(blocks.offset[alive.begin()->second]);
    const auto next = by_place.lower_bound(blocks.offset[k]);
    if (next != by_place.end() && next->first < blocks.offset[k] + blocks.bytes[k])
      return invalid("buffers %zu and %zu overlap", k, next->second);
    if (next != by_place.begin())
      if (const auto& [at, before] = *std::prev(next); at + blocks.bytes[before] > blocks.offset[k])
        return invalid("buffers %zu and %zu overlap", before, k);
    by_place.emplace(blocks.offset[k], k);
    alive.emplace(life[k].last, k);
  }
  return Ok{};
}

Status check_blocks(const Blocks& blocks, const Spans& spans, const ArenaPlan& plan) {
  std::vector<size_t> owners;
  std::vector<std::vector<size_t>> by_device(std::max<size_t>(plan.device_bytes.size(), 1));
  for (size_t k = 0; k < blocks.offset.size(); ++k) {
    if (blocks.offset[k] == kUnbound) continue;
    const uint32_t device = blocks.device[k];
    const int64_t arena_bytes = device == kHost ? plan.arena_bytes : plan.device_bytes[device];
    if (blocks.offset[k] < 0 || blocks.bytes[k] < 0 || blocks.offset[k] > arena_bytes - blocks.bytes[k])
      return invalid("buffer %zu lies outside the arena", k);
  }
  for (const size_t k : blocks.placed) {
    if (blocks.offset[k] == kUnbound) continue;
    if (blocks.offset[k] % blocks.alignment[k]) return invalid("buffer %zu is not aligned", k);
    if (blocks.life[k].first < 0 || blocks.bytes[k] == 0) continue;
    owners.push_back(k);
    by_device[blocks.device[k]].push_back(k);
  }
  if (spans.empty()) return check_alive(blocks, std::move(owners));
  for (std::vector<size_t>& list : by_device) PERI_TRY(check_apart(blocks, spans, std::move(list)));
  return Ok{};
}

// The buffers of a program and, where there are any, the workspaces of its steps; nothing has a place.
Blocks blocks_of(const Program& p, const std::vector<Lifetime>& life, const Workspaces* workspaces) {
  Blocks out;
  out.life = life;
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    out.alignment.push_back(std::max<int64_t>(p.buffers[k].alignment, 1));
    out.device.push_back(p.buffers[k].device);
    if (in_arena(p, k)) out.placed.push_back(k);
  }
  out.bytes.assign(p.buffers.size(), kUnbound);
  for (size_t k = 0; workspaces && k < p.steps.size(); ++k) {
    const bool any = p.steps[k].device != kHost && workspaces->bytes[k] > 0;
    const auto step = static_cast<int32_t>(k);
    out.alignment.push_back(kWorkspaceAlignment);
    out.device.push_back(p.steps[k].device);
    out.bytes.push_back(any ? workspaces->bytes[k] : kUnbound);
    out.life.push_back(any ? Lifetime{step, step} : Lifetime{});
    if (any) out.placed.push_back(p.buffers.size() + k);
  }
  out.offset.assign(out.bytes.size(), kUnbound);
  return out;
}

// Steps of several devices: who lives with whom is told by what is done before what.
Status place_on_devices(const Spans& spans, const std::vector<size_t>& todo, Blocks* blocks, ArenaPlan* plan) {
  std::vector<std::vector<size_t>> by_device(plan->device_bytes.size());
  for (const size_t k : todo) by_device[blocks->device[k]].push_back(k);
  for (size_t d = 0; d < by_device.size(); ++d) {
    int64_t* const arena_bytes = d == kHost ? &plan->arena_bytes : &plan->device_bytes[d];
    if (by_device[d].size() > kMaxBySize) {  // nothing is shared: one stands behind the other
      for (const size_t k : by_device[d]) {
        blocks->offset[k] = round_up(*arena_bytes, blocks->alignment[k]);
        PERI_ASSIGN(*arena_bytes, checked_add(blocks->offset[k], blocks->bytes[k], "arena"));
      }
      continue;
    }
    PERI_TRY(place_by_size([&](size_t a, size_t b) { return !spans.apart(a, b); }, by_device[d], blocks, arena_bytes));
  }
  return Ok{};
}

Status bind_bytes(const Program& p, const ProgramSizes& sizes, std::span<const int64_t> values, Blocks* blocks) {
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    if (!sizes.table.bound(sizes.buffers[k].bytes, values)) continue;
    const auto bytes = sizes.table.eval(sizes.buffers[k].bytes, values);
    if (!bytes.ok()) return Error(bytes.error()).at_node(p.buffers[k].name);
    blocks->bytes[k] = *bytes;
    if (blocks->bytes[k] < 0) return invalid("buffer %zu has %lld bytes", k, static_cast<long long>(blocks->bytes[k]));
    if (blocks->bytes[k] > kMaxBufferBytes)
      return Error(ErrorKind::kMemory, "a value would take " + bytes_text(static_cast<double>(blocks->bytes[k])))
          .at_node(p.buffers[k].name)
          .expecting("at most " + bytes_text(static_cast<double>(kMaxBufferBytes)))
          .advise(p.tuned_for.empty() ? "make it smaller in the model, whose sizes are fixed" : "give smaller sizes");
  }
  return Ok{};
}

// Aliases follow their owner; they must lie inside it. One that renames all of it, of another size, begins before it.
Status place_aliases(const Program& p, const ProgramSizes& sizes, std::span<const int64_t> values, Blocks* blocks) {
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const Buffer& b = p.buffers[k];
    if (b.alias_of < 0 || blocks->bytes[k] == kUnbound || blocks->bytes[static_cast<size_t>(b.alias_of)] == kUnbound)
      continue;
    PERI_ASSIGN(const int64_t shift, sizes.table.eval(sizes.buffers[k].alias_offset, values));
    const int64_t base_bytes = blocks->bytes[static_cast<size_t>(b.alias_of)];
    if (shift < 0)
      return invalid("a reshape changes the number of elements")
          .expecting(std::to_string(base_bytes * 8 / dtype_bits(b.dtype)))
          .but_found(std::to_string(blocks->bytes[k] * 8 / dtype_bits(b.dtype)))
          .at_node(b.name)
          .advise("give inputs whose sizes fit each other");
    if (shift > base_bytes || blocks->bytes[k] > base_bytes - shift)
      return invalid("buffer %zu reaches outside the buffer it aliases", k);
    if (shift % b.alignment) return invalid("buffer %zu is not aligned in the buffer it aliases", k);
    const int64_t base = blocks->offset[static_cast<size_t>(b.alias_of)];
    if (base != kUnbound) blocks->offset[k] = base + shift;
  }
  return Ok{};
}

// Lower bound of any plan: the most bytes alive at one step.
int64_t most_alive(const Blocks& blocks, const std::vector<size_t>& todo, size_t steps) {
  std::vector<int64_t> delta(steps + 2, 0);
  for (size_t k : todo) {
    delta[static_cast<size_t>(blocks.life[k].first)] += blocks.bytes[k];
    delta[static_cast<size_t>(blocks.life[k].last) + 1] -= blocks.bytes[k];
  }
  int64_t live = 0, most = 0;
  for (int64_t d : delta) most = std::max(most, live += d);
  return most;
}
}  // namespace

Result<ArenaPlan> plan_arena(const Program& p, const ProgramSizes& sizes, std::span<const int64_t> values,
                             Workspaces* workspaces) {
  ArenaPlan plan;
  plan.device_bytes.assign(p.devices.size(), 0);
  Blocks blocks = blocks_of(p, sizes.lifetimes, workspaces);
  PERI_TRY(bind_bytes(p, sizes, values, &blocks));
  std::vector<size_t> todo;
  for (const size_t k : blocks.placed) {
    blocks.alignment[k] = std::max<int64_t>(blocks.alignment[k], 64);
    if (blocks.bytes[k] != kUnbound && blocks.life[k].first >= 0) todo.push_back(k);
  }
  // By size; those of equal size as they stand.
  std::stable_sort(todo.begin(), todo.end(), [&](size_t a, size_t b) { return blocks.bytes[a] > blocks.bytes[b]; });
  if (!sizes.spans.empty()) {
    PERI_TRY(place_on_devices(sizes.spans, todo, &blocks, &plan));
    std::erase_if(todo, [&](size_t k) { return blocks.device[k] != kHost; });
  } else if (todo.size() <= kMaxBySize) {
    const auto together = [&](size_t a, size_t b) { return overlap(blocks.life[a], blocks.life[b]); };
    PERI_TRY(place_by_size(together, todo, &blocks, &plan.arena_bytes));
  } else {
    place_by_step(todo, &blocks, &plan.arena_bytes);
  }
  plan.largest_live_bytes = most_alive(blocks, todo, p.steps.size());
  PERI_TRY(place_aliases(p, sizes, values, &blocks));
  PERI_TRY(check_blocks(blocks, sizes.spans, plan));
  const auto buffers = static_cast<std::ptrdiff_t>(p.buffers.size());
  if (workspaces) workspaces->offset.assign(blocks.offset.begin() + buffers, blocks.offset.end());
  blocks.offset.resize(p.buffers.size());
  blocks.bytes.resize(p.buffers.size());
  plan.offset = std::move(blocks.offset);
  plan.bytes = std::move(blocks.bytes);
  return plan;
}

Status check_arena(const Program& p, const ArenaPlan& plan) {
  Blocks blocks = blocks_of(p, lifetimes(p), nullptr);
  blocks.offset = plan.offset;
  blocks.bytes = plan.bytes;
  return check_blocks(blocks, p.devices.size() > 1 ? Spans(p) : Spans(), plan);
}

}  // namespace peri::plan
