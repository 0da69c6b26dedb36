// An entry exists from a sequence's first request until it has no requests and can receive no more.
#include "serve/queue/sequences.hpp"

#include <algorithm>

namespace peri::serve {

constexpr size_t kRemembered = 1024;  // recently ended sequences with their reasons; at least as many as may be active

std::string SequenceId::shown() const {
  if (text.empty()) return std::to_string(number);
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

SequenceVerdict Sequences::submit(uint64_t request, const SequenceStep& step, int64_t deadline_ns, int64_t now) {
  if (step.id.none()) return SequenceVerdict::kNoId;
  Place at = entries_.find(step.id);
  const bool known = at != entries_.end();
  if (!step.start && !(known && at->second.open)) return SequenceVerdict::kNoStart;
  if (policy_.max_waiting > 0 && waiting_ >= policy_.max_waiting) {
    if (!known) return SequenceVerdict::kFull;
    // Later requests would otherwise be answered without the refused one.
    at->second.open = false;
    at->second.why = "one of its requests found the queue full";
    settle(at, now);
    return SequenceVerdict::kFull;
  }
  if (!known) {
    at = entries_.try_emplace(step.id).first;
    backlog_.push_back(step.id);
  }
  if (step.start) {
    ++counts_.started;
    if (known && at->second.open) ++counts_.ended;  // ended by this start
  }
  Entry& e = at->second;
  wake_off(at);
  e.open = !step.end;
  e.why.clear();
  e.queue.push_back({request, step.start, step.end, deadline_ns});
  requests_.emplace(request, step.id);
  ++waiting_;
  if (deadline_ns > 0) deadlines_.emplace(deadline_ns, request);
  unremember(step.id);
  fill_slots(now);
  if (const Place there = entries_.find(step.id); there != entries_.end()) go_on(there, now);
  return SequenceVerdict::kTaken;
}

std::string Sequences::ended_why(const SequenceId& id) const {
  if (const auto at = entries_.find(id); at != entries_.end() && !at->second.open) return at->second.why;
  const auto it = ended_.find(id);
  return it == ended_.end() ? "" : it->second;
}

std::vector<SequenceId> Sequences::open() const {
  std::vector<SequenceId> out;
  for (const auto& [id, e] : entries_)
    if (e.open) out.push_back(id);
  return out;
}

void Sequences::lost(const std::vector<SequenceId>& ids, const std::string& why) {
  for (const SequenceId& id : ids)
    if (entries_.count(id) == 0) remember(id, why);
}

std::vector<uint64_t> Sequences::take_turns() { return std::exchange(turns_, {}); }

bool Sequences::waits(uint64_t request) const {
  const auto it = requests_.find(request);
  return it != requests_.end() && entries_.at(it->second).running.request != request;
}

const std::vector<Tensor>& Sequences::state(uint64_t request) const { return entries_.at(requests_.at(request)).state; }

// Gives the next request of the sequence its turn if possible.
void Sequences::go_on(Place at, int64_t) {
  Entry& e = at->second;
  if (!e.slot || e.running.request != 0 || e.queue.empty()) return;
  e.running = e.queue.front();
  e.queue.pop_front();
  --waiting_;
  if (e.running.deadline_ns > 0) deadlines_.erase({e.running.deadline_ns, e.running.request});
  if (e.running.start) e.state.clear();
  turns_.push_back(e.running.request);
}

void Sequences::give_slot_up(Place at) {
  if (at->second.slot) {
    at->second.slot = false;
    ++free_;
    return;
  }
  const auto it = std::find(backlog_.begin(), backlog_.end(), at->first);
  if (it != backlog_.end()) backlog_.erase(it);
}

void Sequences::fill_slots(int64_t now) {
  while (free_ > 0 && !backlog_.empty()) {
    const Place at = entries_.find(backlog_.front());
    backlog_.pop_front();
    at->second.slot = true;
    --free_;
    go_on(at, now);
  }
}

// After a request has left: starts the next, ends the sequence, or starts its idle time.
void Sequences::settle(Place at, int64_t now) {
  Entry& e = at->second;
  if (e.running.request != 0) return;
  if (!e.queue.empty()) return go_on(at, now);
  wake_off(at);
  if (e.open) {
    e.idle_since_ns = now;
    idle_.emplace(now, at->first);
    return;
  }
  if (!e.why.empty()) remember(at->first, e.why);
  give_slot_up(at);
  entries_.erase(at);
  fill_slots(now);
}

void Sequences::wake_off(Place at) { idle_.erase({at->second.idle_since_ns, at->first}); }

void Sequences::forget(const Item& item) {
  requests_.erase(item.request);
  if (item.deadline_ns > 0) deadlines_.erase({item.deadline_ns, item.request});
}

void Sequences::unremember(const SequenceId& id) {
  if (ended_.erase(id) > 0) ended_order_.erase(std::find(ended_order_.begin(), ended_order_.end(), id));
}

void Sequences::remember(const SequenceId& id, std::string why) {
  unremember(id);
  ended_.emplace(id, std::move(why));
  ended_order_.push_back(id);
  while (ended_order_.size() > std::max(kRemembered, static_cast<size_t>(policy_.slots))) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

void Sequences::done(uint64_t request, std::vector<Tensor> state, int64_t now) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  const Place at = entries_.find(it->second);
  Entry& e = at->second;
  const bool end = e.running.end;
  if (end) ++counts_.ended;
  forget(e.running);
  e.running = {};
  e.state = end ? std::vector<Tensor>() : std::move(state);
  // A later sequence of the same name waits behind those already in the backlog.
  if (end && !e.queue.empty() && e.slot && !backlog_.empty()) {
    give_slot_up(at);
    backlog_.push_back(at->first);
    return fill_slots(now);
  }
  settle(at, now);
}

std::vector<uint64_t> Sequences::fail(uint64_t request, const std::string& why, int64_t now) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return {};
  const Place at = entries_.find(it->second);
  Entry& e = at->second;
  auto from = e.queue.begin();
  if (e.running.request == request) {
    forget(e.running);
    e.running = {};
    e.state.clear();
  } else {
    from = std::find_if(from, e.queue.end(), [&](const Item& i) { return i.request == request; });
    forget(*from);
    --waiting_;
    from = e.queue.erase(from);
  }
  std::vector<uint64_t> in_vain;
  while (from != e.queue.end() && !from->start) {
    in_vain.push_back(from->request);
    forget(*from);
    --waiting_;
    from = e.queue.erase(from);
  }
  ++counts_.broken;
  if (from == e.queue.end()) {
    e.open = false;
    e.why = why;
  }
  settle(at, now);
  return in_vain;
}

std::vector<uint64_t> Sequences::expire(int64_t now) {
  while (!idle_.empty() && idle_.begin()->first + policy_.idle_ns <= now) {
    const Place at = entries_.find(idle_.begin()->second);
    at->second.open = false;
    at->second.why = "it was over after " + std::to_string(policy_.idle_ns / 1000) + " us without a request";
    ++counts_.idle;
    settle(at, now);
  }
  std::vector<uint64_t> late;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    late.push_back(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
  }
  return late;
}

std::optional<int64_t> Sequences::wake_ns() const {
  std::optional<int64_t> out;
  if (!idle_.empty()) out = idle_.begin()->first + policy_.idle_ns;
  if (!deadlines_.empty()) out = std::min(out.value_or(INT64_MAX), deadlines_.begin()->first);
  return out;
}

SequenceCounts Sequences::counts() const {
  SequenceCounts out = counts_;
  out.slots = policy_.slots;
  out.active = policy_.slots - free_;
  out.backlog = static_cast<int64_t>(backlog_.size());
  for (const auto& [id, e] : entries_)
    for (const Tensor& t : e.state) out.state_bytes += static_cast<int64_t>(t.bytes().size());
  return out;
}

}  // namespace peri::serve
