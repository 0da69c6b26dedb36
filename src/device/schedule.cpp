// Streams have ranks that the seed draws and now and then draws anew: the first in rank goes on alone as far as it can,
// so a stream is starved or ahead for a while, which is where a missing wait shows.
#include "device/schedule.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace peri::device {

namespace {
// How many turns go by one draw of ranks, on average, by seed: from each turn anew to nearly never.
int64_t turns_per_rank(uint64_t seed) { return int64_t{1} << (seed / 3 % 6); }

// How much runs before anyone waits, by seed: nothing, something, all.
enum class Haste : uint8_t { kNone, kSome, kAll };
Haste haste_of(uint64_t seed) { return static_cast<Haste>(seed % 3); }
}  // namespace

void Schedule::add(Queue* queue) { queues_.push_back(queue); }
void Schedule::remove(Queue* queue) { std::erase(queues_, queue); }

void Schedule::take_turns(Queue* queue, std::vector<Turn>* turns) {
  if (queue->items.empty()) return;
  const Item& item = queue->items.front();
  if (item.kind == Item::Kind::kWait && !item.point->done) return;
  if (item.kind != Item::Kind::kReplay) return turns->push_back({queue, std::nullopt});
  if (!queue->replay) {
    queue->replay.emplace(item.recording);
    queue->replay->error = queue->error;
  }
  if (queue->replay->over()) return turns->push_back({queue, std::nullopt});
  for (size_t lane = 0; lane < item.recording->lanes.size(); ++lane)
    if (queue->replay->ready(lane)) turns->push_back({queue, lane});
}

uint64_t Schedule::rank(const Turn& turn) const {
  return Rng(order_.seed * 0x100000001b3 + epoch_ * 0x10001 + turn.queue->id * 0x101 + turn.lane.value_or(0xff)).next();
}

bool Schedule::step() {
  std::vector<Turn> turns;
  for (Queue* q : queues_) take_turns(q, &turns);
  if (turns.empty()) return false;
  run(*std::max_element(turns.begin(), turns.end(), [&](const Turn& a, const Turn& b) { return rank(a) < rank(b); }));
  if (rng_.below(turns_per_rank(order_.seed)) == 0) ++epoch_;
  return true;
}

void Schedule::run(const Turn& turn) {
  Queue* q = turn.queue;
  if (turn.lane) {
    const Item& item = *q->replay->ready(*turn.lane);
    if (item.is_work()) work(item, &q->replay->error, nullptr);
    q->replay->pass(*turn.lane);
    if (q->replay->over()) end_replay(q);
    return;
  }
  if (q->items.front().kind == Item::Kind::kReplay) return end_replay(q);
  const Item item = std::move(q->items.front());
  q->items.pop_front();
  if (item.is_work())
    work(item, &q->error, nullptr);
  else
    settle(q, item);
}

void Schedule::work(const Item& item, std::optional<Error>* error, std::unique_lock<std::mutex>* lock) {
  if (*error) return;
  ++(item.kind == Item::Kind::kLaunch ? launches : copies);
  if (++works_ == order_.failing_work) {
    *error = Error(ErrorKind::kIo, "work fails as was asked for").at_node(item_name(item));
    return;
  }
  if (lock) lock->unlock();
  Status done = run_work(item, *store_);
  if (lock) lock->lock();
  if (!done.ok()) *error = std::move(done).error();
}

void Schedule::settle(Queue* queue, const Item& item) {
  if (item.kind == Item::Kind::kRecord) {
    item.point->done = true;
    item.point->at_ns = now_ns();
    item.point->error = queue->error;
  } else if (!queue->error) {
    queue->error = item.point->error;
  }
}

void Schedule::end_replay(Queue* queue) {
  if (!queue->error) queue->error = std::move(queue->replay->error);
  queue->replay.reset();
  queue->items.pop_front();
  ++replays;
}

void Schedule::push(Queue* queue, Item item) {
  queue->items.push_back(std::move(item));
  const Haste haste = haste_of(order_.seed);
  if (haste == Haste::kAll)
    while (step()) {}
  else if (haste == Haste::kSome)
    while (rng_.below(2) == 0 && step()) {}
}

void Schedule::drain(Queue* queue) {
  while (!queue->items.empty() && step()) {}
}

void Schedule::reach(const Point& point) {
  while (!point.done && step()) {}
}

void Schedule::run_now(Queue* queue, const Item& item, std::unique_lock<std::mutex>* lock) {
  if (item.is_work()) return work(item, &queue->error, lock);
  if (item.kind != Item::Kind::kReplay) return settle(queue, item);
  Replay replay(item.recording);
  while (!replay.over())
    for (size_t lane = 0; lane < item.recording->lanes.size(); ++lane)
      while (const Item* next = replay.ready(lane)) {
        if (next->is_work()) work(*next, &queue->error, lock);
        replay.pass(lane);
      }
  ++replays;
}

}  // namespace peri::device
