// Runs one piece of work, and orders the work of a replay.
#include "device/work.hpp"

#include <cstring>

#include "base/fault.hpp"

namespace peri::device {

std::string item_name(const Item& item) {
  switch (item.kind) {
    case Item::Kind::kCopyIn: return "copy to the device";
    case Item::Kind::kCopyOut: return "copy to the host";
    case Item::Kind::kCopy: return "copy within the device";
    case Item::Kind::kLaunch: return "launch '" + item.launch->name + "'";
    case Item::Kind::kRecord: return "record";
    case Item::Kind::kWait: return "wait";
    case Item::Kind::kReplay: return "replay";
  }
  return "work";
}

namespace {
Status run_launch(const Launch& launch, const Store& store) {
  std::vector<std::span<std::byte>> arguments;
  for (const Argument& a : launch.arguments) {
    PERI_ASSIGN(std::byte* const at, store.at(a.address, a.bytes));
    arguments.emplace_back(at, a.bytes);
  }
  return contained([&] { return launch.function(arguments); });  // its fault is an error of the work
}

Status run_any(const Item& item, const Store& store) {
  if (item.kind == Item::Kind::kLaunch) return run_launch(*item.launch, store);
  const std::byte* from = item.host_from;
  std::byte* to = item.host_to;
  if (item.kind != Item::Kind::kCopyIn) {
    PERI_ASSIGN(from, store.at(item.from, item.bytes));
  }
  if (item.kind != Item::Kind::kCopyOut) {
    PERI_ASSIGN(to, store.at(item.to, item.bytes));
  }
  if (item.kind == Item::Kind::kCopy && from < to + item.bytes && to < from + item.bytes)
    return invalid("a copy between ranges that overlap");
  if (item.bytes > 0) std::memcpy(to, from, item.bytes);
  return Ok{};
}
}  // namespace

Status run_work(const Item& item, const Store& store) {
  Status done = run_any(item, store);
  if (!done.ok()) return std::move(done).error().at_node(item_name(item));
  return done;
}

bool Replay::over() const {
  for (size_t lane = 0; lane < next.size(); ++lane)
    if (next[lane] < recording->lanes[lane].size()) return false;
  return true;
}

const Item* Replay::ready(size_t lane) const {
  const std::vector<Item>& items = recording->lanes[lane];
  if (next[lane] == items.size()) return nullptr;
  const Item& item = items[next[lane]];
  return item.kind == Item::Kind::kWait && !reached[item.captured_point] ? nullptr : &item;
}

void Replay::pass(size_t lane) {
  const Item& item = recording->lanes[lane][next[lane]++];
  if (item.kind == Item::Kind::kRecord) reached[item.captured_point] = true;
}

}  // namespace peri::device
