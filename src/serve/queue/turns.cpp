// Start-time fair queueing by the time that runs took. Runs that are over before another could be sent count as a part
// of one, so that a few of them may be ahead.
#include "serve/queue/turns.hpp"

#include <algorithm>

namespace peri::serve {

constexpr int64_t kShortNs = 150000;         // shorter runs count as parts
constexpr int64_t kPatienceNs = 2000000000;  // without an end of any run nobody waits for those any more
constexpr int64_t kLatelyNs = 10000000;      // who ran within it is thought to come back
constexpr int64_t kMaxBehindNs = 100000000;  // that a model had less than others, and may catch up with

void Turns::Share::on_turn(std::function<void()> called) {
  const std::lock_guard<std::mutex> lock(mutex_);
  called_ = std::move(called);
}

std::shared_ptr<Turns::Share> Turns::join() {
  auto share = std::make_shared<Share>();
  const std::lock_guard<std::mutex> lock(mutex_);
  share->id_ = ++ids_;
  share->used_ns_ = floor_ns_;
  shares_[share->id_] = share;
  return share;
}

void Turns::leave(const std::shared_ptr<Share>& share) {
  share->on_turn(nullptr);
  pass(*share);
  const std::lock_guard<std::mutex> lock(mutex_);
  shares_.erase(share->id_);
}

bool Turns::may(Share& share, int64_t now, bool wants) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int before = 0;  // shares that wait and had less
  if (waiting_ > (share.waiting_ ? 1 : 0))
    for (const auto& [id, other] : shares_)
      before += other->waiting_ && std::pair(other->used_ns_, id) < std::pair(share.used_ns_, share.id_) ? 1 : 0;
  const bool room = running_ + kWhole * before < capacity_;
  if (room || now - ended_ns_ > kPatienceNs || alone(share, now)) return true;
  if (wants && !share.waiting_) {
    share.waiting_ = true;
    ++waiting_;
  }
  return false;
}

bool Turns::alone(const Share& share, int64_t now) const {
  return std::none_of(shares_.begin(), shares_.end(), [&](const auto& row) {
    const Share& other = *row.second;
    return &other != &share && (other.waiting_ || other.running_ > 0 || now - other.last_ns_ < kLatelyNs);
  });
}

Turns::Run Turns::begin(Share& share, int64_t now, int64_t expected_ns) {
  const int64_t parts = expected_ns > 0 ? expected_ns * kWhole / kShortNs : kWhole;
  const Run run{static_cast<int>(std::clamp<int64_t>(parts, 1, kWhole)), now};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (share.waiting_) --waiting_;
  if (running_ == 0) ended_ns_ = now;
  share.waiting_ = false;
  share.used_ns_ = std::max(share.used_ns_, floor_ns_ - kMaxBehindNs);
  floor_ns_ = std::max(floor_ns_, share.used_ns_);
  running_ += run.weight;
  share.running_ += run.weight;
  return run;
}

void Turns::end(Share& share, const Run& run, int64_t now, bool wants) {
  std::shared_ptr<Share> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ -= run.weight;
    share.running_ -= run.weight;
    share.used_ns_ += std::max<int64_t>(now - run.began_ns, 0) * run.weight / kWhole;
    ended_ns_ = share.last_ns_ = now;
    if (wants && !share.waiting_ && waiting_ > 0) {
      share.waiting_ = true;
      ++waiting_;
    }
    woken = next();
  }
  call(woken);
}

bool Turns::waits(const Share& share) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return share.waiting_;
}

int Turns::waiting() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_;
}

void Turns::pass(Share& share) {
  std::shared_ptr<Share> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!share.waiting_) return;
    share.waiting_ = false;
    --waiting_;
    woken = next();
  }
  call(woken);
}

std::shared_ptr<Turns::Share> Turns::next() {
  std::shared_ptr<Share> out;
  if (waiting_ == 0) return out;
  for (const auto& [id, share] : shares_)
    if (share->waiting_ && (!out || share->used_ns_ < out->used_ns_)) out = share;
  return out;
}

void Turns::call(const std::shared_ptr<Share>& share) {
  if (!share) return;
  const std::lock_guard<std::mutex> lock(share->mutex_);
  if (share->called_) share->called_();
}

}  // namespace peri::serve
