// A batch is a prefix of the queue: levels in order, in each the order of arrival. It ends before the next request that
// is incompatible, and is then complete, since no later request can join it.
#include "serve/queue/scheduler.hpp"

#include <algorithm>

namespace peri::serve {

std::string_view cut_reason_name(CutReason reason) {
  constexpr std::string_view kNames[kCutReasons] = {"full",     "delay",  "deadline", "shape",
                                                    "priority", "memory", "alone",    "sequences"};
  return kNames[static_cast<int>(reason)];
}

int64_t LevelPolicy::limit_ns(int64_t asked_ns) const {
  const bool shorter = timeout_override && asked_ns > 0 && (timeout_ns == 0 || asked_ns < timeout_ns);
  return shorter ? asked_ns : timeout_ns;
}

const LevelPolicy& QueuePolicy::of(int priority) const {
  const auto it = levels.find(priority);
  return it == levels.end() ? level : it->second;
}

Scheduler::Scheduler(QueuePolicy policy) : policy_(std::move(policy)) {
  std::erase_if(policy_.preferred,
                [&](int64_t rows) { return !std::binary_search(policy_.sizes.begin(), policy_.sizes.end(), rows); });
}

void Scheduler::limit_rows(int64_t rows) {
  row_limit_ = policy_.sizes.empty() || rows >= policy_.sizes.back() ? 0 : std::max<int64_t>(rows, 1);
}

bool Scheduler::batches(const Waiting& request) const {
  return std::binary_search(policy_.sizes.begin(), policy_.sizes.end(), request.rows) &&
         request.rows < policy_.sizes.back();
}

Admission Scheduler::submit(Waiting request, int64_t now) {
  if (request.probe)
    request.priority = 1;
  else if (request.priority == 0)
    request.priority = policy_.default_priority;
  if (request.priority < 1 || request.priority > policy_.priority_levels) return Admission::kNoSuchPriority;
  const LevelPolicy& level = policy_.of(request.priority);
  Level& queue = levels_[request.priority];
  if (level.max_queue > 0 && (static_cast<int64_t>(queue.requests.size() + queue.delayed.size()) >= level.max_queue ||
                              over_share(queue, request.tenant, level.max_queue)))
    return Admission::kQueueFull;
  const int64_t timeout = level.limit_ns(request.timeout_ns);
  request.arrival_ns = now;
  request.deadline_ns = timeout > 0 ? now + timeout : 0;
  queue_fairly(queue, request);
  ++waiting_;
  return Admission::kAccepted;
}

// Start-time fair queueing: a tenant's requests are spaced by their rows, and begin no earlier than the request taken
// last. A single tenant is served in the order of arrival.
void Scheduler::queue_fairly(Level& level, Waiting request) {
  if (request.probe) {
    request.turn = level.turn;
    level.requests.push_front(request);
    return;
  }
  Level::Share& share = level.shares[request.tenant];
  request.turn = share.waiting > 0 ? share.turn : level.turn;
  share.turn = request.turn + static_cast<uint64_t>(std::max<int64_t>(request.rows, 1));
  ++share.waiting;
  auto at = level.requests.end();
  while (at != level.requests.begin() && std::prev(at)->turn > request.turn) --at;
  level.requests.insert(at, request);
}

void Scheduler::left(Level& level, const Waiting& request) {
  if (request.probe) return;
  const auto share = level.shares.find(request.tenant);
  if (share != level.shares.end() && --share->second.waiting == 0) level.shares.erase(share);
}

// Half of the queue is first come, first served; the other half is divided equally among the waiting tenants.
bool Scheduler::over_share(const Level& level, uint32_t tenant, int64_t max_queue) {
  const auto mine = level.shares.find(tenant);
  if (mine == level.shares.end() || level.shares.size() < 2) return false;
  const int64_t part = max_queue / 2 / static_cast<int64_t>(level.shares.size());
  return mine->second.waiting >= max_queue / 2 + part;
}

bool Scheduler::cancel(uint64_t id) {
  for (auto& [priority, level] : levels_)
    for (std::deque<Waiting>* queue : {&level.requests, &level.delayed})
      for (auto it = queue->begin(); it != queue->end(); ++it)
        if (it->id == id) {
          left(level, *it);
          queue->erase(it);
          --waiting_;
          return true;
        }
  return false;
}

std::vector<Waiting> Scheduler::expire(int64_t now) {
  std::vector<Waiting> over;
  for (auto& [priority, level] : levels_) {
    const auto late = [&](const Waiting& w) { return w.deadline_ns != 0 && w.deadline_ns <= now; };
    if (std::none_of(level.requests.begin(), level.requests.end(), late)) continue;
    const bool delay = policy_.of(priority).delay_expired;
    std::deque<Waiting> kept;
    for (Waiting& w : level.requests) {
      if (!late(w)) {
        kept.push_back(w);
      } else if (delay) {
        w.deadline_ns = 0;
        level.delayed.push_back(w);
      } else {
        left(level, w);
        over.push_back(w);
      }
    }
    if (kept.size() != level.requests.size()) level.requests.swap(kept);
  }
  waiting_ -= static_cast<int64_t>(over.size());
  return over;
}

std::vector<const Waiting*> Scheduler::in_order() const {
  const size_t most = policy_.sizes.empty() ? 1 : static_cast<size_t>(policy_.sizes.back()) + 1;
  std::vector<const Waiting*> out;
  for (const bool late : {false, true})
    for (const auto& [priority, level] : levels_)
      for (const Waiting& w : late ? level.delayed : level.requests) {
        if (out.size() == most) return out;  // each request has at least one row
        out.push_back(&w);
      }
  return out;
}

Scheduler::Draft Scheduler::draft() const {
  Draft out;
  const std::vector<const Waiting*> queue = in_order();
  if (queue.empty()) return out;
  const Waiting& first = *queue.front();
  out.requests = {&first};
  out.rows = first.rows;
  if (first.probe || !batches(first)) {
    out.due = first.probe || policy_.sizes.empty() || first.rows != policy_.sizes.back() ? CutReason::kAlone
                                                                                         : CutReason::kFull;
    return out;
  }
  int64_t bytes = first.bytes, rows = first.rows;
  const int64_t most = row_limit_ > 0 ? std::min(row_limit_, policy_.sizes.back()) : policy_.sizes.back();
  const CutReason full = row_limit_ > 0 ? CutReason::kMemory : CutReason::kFull;
  size_t allowed = 1;  // length of the longest prefix with a permitted size
  size_t preferred = 0;
  const auto is_in = [](const std::vector<int64_t>& list, int64_t v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  if (is_in(policy_.preferred, rows)) preferred = 1;
  std::vector<const Waiting*> taken = {&first};
  std::optional<CutReason> end;
  for (size_t k = 1; k < queue.size() && !end; ++k) {
    const Waiting& next = *queue[k];
    if (rows + next.rows > most) {
      end = full;
    } else if (next.key != first.key || !batches(next)) {
      end = next.priority == first.priority ? CutReason::kShape : CutReason::kPriority;
    } else if (bytes + next.bytes > policy_.max_batch_bytes) {
      end = CutReason::kMemory;
    } else {
      taken.push_back(&next);
      rows += next.rows;
      bytes += next.bytes;
      if (is_in(policy_.sizes, rows)) allowed = taken.size();
      if (is_in(policy_.preferred, rows)) preferred = taken.size();
      if (rows == most) end = full;
    }
  }
  const bool reached = preferred > 0 && !(end && allowed > preferred);
  taken.resize(reached ? preferred : allowed);
  out.requests = std::move(taken);
  out.rows = 0;
  for (const Waiting* w : out.requests) out.rows += w->rows;
  out.due = reached ? CutReason::kFull : end;
  if (!out.due && policy_.most_waiting > 0 && waiting_ >= policy_.most_waiting) out.due = CutReason::kSequences;
  return out;
}

void Scheduler::take(const Waiting& request) {
  const uint64_t id = request.id;
  Level& level = levels_[request.priority];
  for (std::deque<Waiting>* queue : {&level.requests, &level.delayed})
    for (auto it = queue->begin(); it != queue->end(); ++it)
      if (it->id == id) {
        level.turn = std::max(level.turn, it->turn);
        left(level, *it);
        queue->erase(it);
        --waiting_;
        return;
      }
}

// Until when to wait for others: until the oldest request has waited long enough, or a deadline would be missed.
static std::pair<int64_t, CutReason> limit_of(const std::vector<const Waiting*>& requests, int64_t max_delay_ns) {
  std::pair<int64_t, CutReason> out{INT64_MAX, CutReason::kDelay};
  for (const Waiting* w : requests) out.first = std::min(out.first, w->arrival_ns + max_delay_ns);
  for (const Waiting* w : requests)
    if (w->deadline_ns > 0 && w->deadline_ns - w->expected_ns < out.first)
      out = {w->deadline_ns - w->expected_ns, CutReason::kDeadline};
  return out;
}

std::optional<Cut> Scheduler::poll(int64_t now) {
  if (waiting_ == 0) return std::nullopt;
  const Draft next = draft();
  std::optional<CutReason> reason = next.due;
  if (!reason) {
    const auto [until, why] = limit_of(next.requests, policy_.max_delay_ns);
    if (now < until) return std::nullopt;
    reason = why;
  }
  Cut cut;
  cut.reason = *reason;
  for (const Waiting* w : next.requests) cut.requests.push_back(*w);
  for (const Waiting& w : cut.requests) take(w);
  return cut;
}

std::optional<int64_t> Scheduler::expiry_ns() const {
  std::optional<int64_t> first;
  for (const auto& [priority, level] : levels_)
    for (const Waiting& w : level.requests)
      if (w.deadline_ns > 0 && (!first || w.deadline_ns < *first)) first = w.deadline_ns;
  return first;
}

std::optional<int64_t> Scheduler::wake_ns(int64_t now) const {
  if (waiting_ == 0) return std::nullopt;
  const Draft next = draft();
  const int64_t cut = next.due ? now : limit_of(next.requests, policy_.max_delay_ns).first;
  return std::min(cut, expiry_ns().value_or(cut));
}

}  // namespace peri::serve
