// Queries of a model's state: counts, whether it is stuck, its faults; and cached answers.
#include <algorithm>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/wall_clock.hpp"
#include "serve/queue/model_batch.hpp"

namespace peri::serve {

constexpr int64_t kHeldLookNs = 500000000;  // interval of checks while waiting for other models' runs
constexpr int kBatchesBeforeMore = 50;      // successful batches before their size grows again

ModelStatistics Model::statistics() const {
  const std::lock_guard<std::mutex> lock(statistics_mutex_);
  return statistics_;
}

int64_t Model::pending() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(waiting_.size());
}

int64_t Model::open() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(waiting_.size()) + busy_;
}

bool Model::stuck(int64_t now, int64_t for_ns) const {
  const uint64_t progress = servable_->progress();  // an ensemble queries models that must not wait for this one
  const std::lock_guard<std::mutex> lock(mutex_);
  if (busy_ == 0 || progress != seen_progress_ || seen_at_ns_ == 0) {
    seen_progress_ = progress;
    seen_at_ns_ = now;
    return false;
  }
  return now - seen_at_ns_ > std::max(for_ns, 2 * longest_ns_);
}

void Model::set_trouble(std::string why) {
  const std::lock_guard<std::mutex> lock(statistics_mutex_);
  trouble_ = std::move(why);
}

std::string Model::trouble() const {
  const std::lock_guard<std::mutex> lock(statistics_mutex_);
  return trouble_;
}

void Model::make_batches_smaller() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<int64_t>& sizes = scheduler_.policy().sizes;
  if (sizes.size() < 2) return;
  scheduler_.limit_rows((scheduler_.row_limit() > 0 ? scheduler_.row_limit() : sizes.back()) / 2);
  good_batches_ = 0;
}

// Whether the scheduling between models permits a run now. REQUIRES, for this and the next three: mutex_ is held.
bool Model::my_turn(int64_t now, bool wants) {
  if (!share_ || options_.turns->may(*share_, now, false)) {
    held_ = false;
    return true;
  }
  if (!wants) return false;
  const std::optional<int64_t> due = scheduler_.wake_ns(now);
  held_ = due && *due <= now && !options_.turns->may(*share_, now, true);
  return !held_ && due && *due <= now;
}

Turns::Run Model::take_slot(int64_t now, int64_t expected_ns) {
  ++busy_;
  return share_ ? options_.turns->begin(*share_, now, expected_ns) : Turns::Run();
}

// The turn came, but there is nothing to run. True: the mutex was released meanwhile, and the caller must check again.
bool Model::no_turn_needed(std::unique_lock<std::mutex>& lock) {
  if (!share_ || !options_.turns->waits(*share_)) return false;
  lock.unlock();
  options_.turns->pass(*share_);
  lock.lock();
  return true;
}

// When to check again without a notification.
std::optional<int64_t> Model::wake_at(int64_t now) const {
  if (busy_ >= servable_->slots()) return scheduler_.expiry_ns();
  if (!held_) return scheduler_.wake_ns(now);
  return std::min(now + kHeldLookNs, scheduler_.expiry_ns().value_or(INT64_MAX));
}

void Model::count(const Batch& batch, bool ok, int64_t ended_ns) {
  const uint64_t n = batch.calls.size();
  if (batch.calls.front()->probe) return;
  const std::lock_guard<std::mutex> lock(statistics_mutex_);
  ModelStatistics& s = statistics_;
  if (!ok) return;       // it did not run, or to no end
  if (batch.rows > 0) {  // a request without rows has no work
    ++s.executions;
    ++s.cuts[static_cast<size_t>(batch.reason)];
    ModelStatistics::Batch& row = s.batches[batch.rows];
    row.compute_input.add(batch.joined_ns - batch.began_ns);
    row.compute_infer.add(ended_ns - batch.joined_ns);
    row.compute_output.add(0);
  }
  s.rows += static_cast<uint64_t>(batch.rows);
  s.last_inference_ms = wall_ns() / 1000000;
  for (const CallPtr& c : batch.calls) {
    s.add_success(ended_ns - c->arrived_ns);
    s.queue.add(c->began_ns - c->arrived_ns);
    s.queue_times.add(c->began_ns - c->arrived_ns);
    s.infer_times.add(ended_ns - batch.joined_ns);
  }
  s.compute_input.add(static_cast<int64_t>(n) * (batch.joined_ns - batch.began_ns), n);
  s.compute_infer.add(static_cast<int64_t>(n) * (ended_ns - batch.joined_ns), n);
  s.compute_output.add(0, n);
}

// After a lack of memory, batches grow back step by step.
void Model::grow_batches() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (scheduler_.row_limit() == 0 || ++good_batches_ < kBatchesBeforeMore) return;
  good_batches_ = 0;
  scheduler_.limit_rows(2 * scheduler_.row_limit());
}

uint64_t Model::answered_by() const {
  if (!forwards_) return serial_;
  return Hasher().add_i64(static_cast<int64_t>(serial_)).add_i64(static_cast<int64_t>(forwards_->passes_to())).digest();
}

// True: the answer was cached and has been delivered.
bool Model::answered_before(const CallPtr& call) {
  if (!options_.cache || call->probe) return false;
  const int64_t began = now_ns();
  call->answered_by = answered_by();
  auto outputs = options_.cache->find(call->answered_by, call->inputs);
  const int64_t now = now_ns();
  {
    const std::lock_guard<std::mutex> lock(statistics_mutex_);
    (outputs ? statistics_.cache_hits : statistics_.cache_misses).add(now - began);
    if (outputs) {
      statistics_.add_success(now - call->arrived_ns);
      statistics_.last_inference_ms = wall_ns() / 1000000;
    }
  }
  if (!outputs) return false;
  Answer a;
  a.outputs = std::move(*outputs);
  a.arrived_ns = call->arrived_ns;
  a.began_ns = a.ended_ns = now;
  a.cached = true;
  answer(call, std::move(a));
  return true;
}

void Model::keep_answer(const Call& call, std::span<const Tensor> outputs) {
  const int64_t began = now_ns();
  // What was answered while a model behind this one was replaced may be of either.
  if (call.answered_by == answered_by()) options_.cache->put(call.answered_by, call.inputs, outputs);
  const std::lock_guard<std::mutex> lock(statistics_mutex_);
  statistics_.cache_misses.add(now_ns() - began, 0);
}

}  // namespace peri::serve
