// Calls whose client left or whose time is over: those that wait are answered, and a run that nobody waits for any more
// is asked to end.
#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "serve/queue/model_batch.hpp"

namespace peri::serve {

// A servable that has not begun the run yet knows no such request: it is asked again, at growing intervals.
constexpr int kMaxAsks = 10;
constexpr int64_t kFirstAskAgainNs = 2000000;
constexpr int kMaxWithdrawals = 2;  // a run begins, or is sent to where it waits, in between

Error client_left() { return {ErrorKind::kCancelled, "the client cancelled the request"}; }
Error time_over() { return refused("Request timeout expired"); }

// Limits of a queue are for waiting, as is one whose requests are delayed; the client's own also ends the run, where a
// model takes it.
void Model::set_limits(Call* call) const {
  if (call->probe) return;
  const QueuePolicy& queue = options_.queue;
  const LevelPolicy& level = queue.of(call->priority > 0 ? call->priority : queue.default_priority);
  if (level.delay_expired) return;
  const int64_t waits = level.limit_ns(call->timeout_ns);
  if (waits > 0) call->begin_by_ns = call->arrived_ns + waits;
  if (level.timeout_override && call->timeout_ns > 0) call->limit_ns = call->arrived_ns + call->timeout_ns;
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

int64_t Model::Batch::withdraw_ns() const {
  if (withdrawals > kMaxWithdrawals) return INT64_MAX;
  int64_t due = INT64_MAX;
  for (const CallPtr& c : calls)
    if (!c->gone && c->begin_by_ns > 0) due = std::min(due, c->begin_by_ns);
  return due == INT64_MAX ? due : std::max(due, withdraw_again_ns);
}

// The tickets of runs to be ended now. REQUIRES, for this and the next two: mutex_ is held.
std::vector<uint64_t> Model::late_runs(int64_t now) {
  std::vector<uint64_t> out;
  for (Batch* b : running_) {
    if (b->ask_ns() > now) continue;
    b->again_ns = now + (kFirstAskAgainNs << b->asks++);
    out.push_back(b->calls.front()->id);
  }
  return out;
}

// Those to be taken back now if they have not begun: what answers later may keep one behind a run that takes long.
std::vector<uint64_t> Model::late_beginnings(int64_t now) {
  std::vector<uint64_t> out;
  for (Batch* b : running_) {
    if (!later_ || b->withdraw_ns() > now) continue;
    b->withdraw_again_ns = now + (kFirstAskAgainNs << b->withdrawals++);
    out.push_back(b->calls.front()->id);
  }
  return out;
}

std::optional<int64_t> Model::next_ask() const {
  int64_t next = INT64_MAX;
  for (const Batch* b : running_) next = std::min({next, b->ask_ns(), later_ ? b->withdraw_ns() : INT64_MAX});
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
    if (later_) limited = std::min(batch.ask_ns(), batch.withdraw_ns()) < sleeps_until_ns_;
  }
  if (limited) wake_.notify_one();  // a thread waits for the limit
  return over;
}

// A batch that was taken back before it began: who has time yet is run again.
void Model::begin_again(Batch& batch) {
  const int64_t now = now_ns();
  (void)end_run(batch);
  std::vector<CallPtr> late, again;
  int64_t rows = 0;
  for (const CallPtr& c : batch.calls) {
    const bool over = c->begin_by_ns > 0 && c->begin_by_ns <= now;
    (over || c->gone ? late : again).push_back(c);
    c->began_ns = 0;
    rows += over || c->gone ? 0 : c->rows;
  }
  const std::vector<int64_t>& sizes = options_.queue.sizes;
  const bool together = std::ranges::binary_search(sizes, rows);
  while (!again.empty()) {
    std::vector<CallPtr> next = together ? std::exchange(again, {}) : std::vector{again.back()};
    if (!together) again.pop_back();
    Turns::Run turn;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      turn = take_slot(now, 0);  // in addition to the slot of the batch, which is released below
    }
    run(std::move(next), together ? batch.reason : CutReason::kAlone, turn);
  }
  leave_slot(batch.turn);
  for (const CallPtr& c : late)
    c->gone ? refuse(c, FailureReason::kCanceled, client_left()) : refuse(c, FailureReason::kTimeout, time_over());
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
