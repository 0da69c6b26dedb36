// Calls whose client left or whose time is over: those that wait are answered, and a run that nobody waits for any more
// is asked to end.
#include <algorithm>

#include "base/clock.hpp"
#include "serve/queue/model_batch.hpp"

namespace peri::serve {

// A servable that has not begun the run yet knows no such request: it is asked again, at growing intervals.
constexpr int kMaxAsks = 10;
constexpr int64_t kFirstAskAgainNs = 2000000;

Error client_left() { return {ErrorKind::kCancelled, "the client cancelled the request"}; }
Error time_over() { return refused("Request timeout expired"); }

// When the time of a call that runs is over; 0: never. Limits of a queue are for waiting, as is one whose requests are
// delayed; the client's own also ends the run, where a model takes it.
int64_t Model::limit_of(const Call& call) const {
  if (call.probe || call.timeout_ns <= 0) return 0;
  const QueuePolicy& queue = options_.queue;
  const LevelPolicy& level = queue.of(call.priority > 0 ? call.priority : queue.default_priority);
  return level.timeout_override && !level.delay_expired ? call.arrived_ns + call.timeout_ns : 0;
}

int64_t Model::Batch::ask_ns() const {
  if (asks > kMaxAsks) return INT64_MAX;
  int64_t due = 0;
  for (const CallPtr& c : calls) {
    if (c->gone) continue;
    if (c->limit_ns == 0) return INT64_MAX;
    due = std::max(due, c->limit_ns);
  }
  return std::max(due, again_ns);
}

// The tickets of runs to be ended now. REQUIRES, for this and the next: mutex_ is held.
std::vector<uint64_t> Model::late_runs(int64_t now) {
  std::vector<uint64_t> out;
  for (Batch* b : running_) {
    if (b->ask_ns() > now) continue;
    b->again_ns = now + (kFirstAskAgainNs << b->asks++);
    out.push_back(b->calls.front()->id);
  }
  return out;
}

std::optional<int64_t> Model::next_ask() const {
  int64_t next = INT64_MAX;
  for (const Batch* b : running_) next = std::min(next, b->ask_ns());
  return next == INT64_MAX ? std::nullopt : std::optional(next);
}

// Registers a batch that begins. True: nobody waits for it any more.
bool Model::begin_run(Batch& batch) {
  bool limited = false, over = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.push_back(&batch);
    over = batch.ask_ns() == 0;
    batch.asks += over;
    for (const CallPtr& c : batch.calls) limited = limited || c->limit_ns > 0;
  }
  if (limited) wake_.notify_one();  // a thread waits for the limit
  return over;
}

// Whether the model asked for the end of this batch, which has come.
bool Model::end_run(Batch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(running_, &batch);
  return batch.asks > 0;
}

void Model::cancel(const CallPtr& call) {
  bool waits = false;
  std::vector<uint64_t> late;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t id = call->id;
    const bool turnless = sequences_ && sequences_->waits(id);
    waits = waiting_.count(id) > 0 && (turnless || scheduler_.cancel(id));
    if (waits) waiting_.erase(id);
    call->gone = true;
    if (!waits) late = late_runs(now_ns());
  }
  if (waits) return refuse(call, FailureReason::kCanceled, client_left());
  for (const uint64_t ticket : late) servable_->cancel(ticket);  // may answer at once, which takes the mutex
  if (!late.empty()) wake_.notify_one();
}

std::vector<CallPtr> Model::take_expired(int64_t now) {
  std::vector<CallPtr> out;
  const auto take = [&](uint64_t id) {
    out.push_back(std::move(waiting_.at(id)));
    waiting_.erase(id);
  };
  for (const Waiting& w : scheduler_.expire(now)) take(w.id);
  if (sequences_)
    for (const uint64_t id : sequences_->expire(now))
      if (waiting_.count(id) > 0) take(id);  // otherwise another thread has taken it in order to refuse it
  return out;
}

}  // namespace peri::serve
