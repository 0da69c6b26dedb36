// Start-time fair queueing by run time. Runs that end before another could be sent count as a fraction, so that several
// may be in progress. Resources follow the same order: no share takes units that an earlier share waits for, so that
// runs with large needs do not starve.
#include "serve/queue/turns.hpp"

#include <algorithm>

namespace peri::serve {

constexpr int64_t kShortNs = 150000;         // shorter runs count as fractions
constexpr int64_t kPatienceNs = 2000000000;  // if no run ends for this long, its units are no longer waited for
constexpr int64_t kLatelyNs = 10000000;      // a model that ran within this time is expected to run again
constexpr int64_t kMaxBehindNs = 100000000;  // limit of the time that a model may catch up

void Turns::Share::on_turn(std::function<void()> called) {
  const std::lock_guard<std::mutex> lock(mutex_);
  called_ = std::move(called);
}

std::shared_ptr<Turns::Share> Turns::join() { return *join(Claim()); }

Result<std::shared_ptr<Turns::Share>> Turns::join(Claim claim) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, hold] : claim.holds) {
    if (const auto there = said_.find(name); there != said_.end() && there->second < hold.copies)
      return refused("its runs hold %lld of the resource '%s', of which there are %lld",
                     static_cast<long long>(hold.copies), name.c_str(), static_cast<long long>(there->second))
          .advise("give the server more by --rate-limit-resource, or let the model's rate_limiter ask for fewer");
    for (const auto& [id, other] : shares_)
      if (const auto it = other->claim_.holds.find(name);
          it != other->claim_.holds.end() && it->second.global != hold.global)
        return refused("the resource '%s' is global for one model and each device's own for another", name.c_str());
  }
  auto share = std::make_shared<Share>();
  share->claim_ = std::move(claim);
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

bool Turns::before(const Share& a, const Share& b) {
  return std::pair(a.used_ns_, a.id_) < std::pair(b.used_ns_, b.id_);
}

int64_t Turns::copies_of(std::string_view name) const {
  const auto said = said_.find(name);
  int64_t copies = said == said_.end() ? 0 : said->second;
  bool global = false;
  for (const auto& [id, share] : shares_) {
    const auto it = share->claim_.holds.find(name);
    if (it == share->claim_.holds.end()) continue;
    global = it->second.global;
    if (said == said_.end()) copies = std::max(copies, it->second.copies);
  }
  return global ? copies : copies * devices_;
}

// Whether its units are free, not counting those that an earlier share waits for.
bool Turns::has_copies(const Share& share) const {
  return std::all_of(share.claim_.holds.begin(), share.claim_.holds.end(), [&](const auto& wanted) {
    const auto held = held_.find(wanted.first);
    int64_t taken = wanted.second.copies + (held == held_.end() ? 0 : held->second);
    for (const auto& [id, other] : shares_)
      if (const auto it = other->claim_.holds.find(wanted.first);
          other->waiting_ && it != other->claim_.holds.end() && before(*other, share))
        taken += it->second.copies;
    return taken <= copies_of(wanted.first);
  });
}

bool Turns::may(Share& share, int64_t now, bool wants) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int ahead = 0;  // waiting shares with less used time that could run
  if (waiting_ > (share.waiting_ ? 1 : 0))
    for (const auto& [id, other] : shares_)
      ahead += other->waiting_ && before(*other, share) && has_copies(*other) ? 1 : 0;
  const bool room = running_ + kWhole * ahead < capacity_;
  if ((room || now - ended_ns_ > kPatienceNs || alone(share, now)) && has_copies(share)) return true;
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
  for (const auto& [name, hold] : share.claim_.holds) held_[name] += hold.copies;
  return run;
}

void Turns::end(Share& share, const Run& run, int64_t now, bool wants) {
  std::vector<std::shared_ptr<Share>> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ -= run.weight;
    share.running_ -= run.weight;
    for (const auto& [name, hold] : share.claim_.holds) held_[name] -= hold.copies;
    const int64_t took = std::max<int64_t>(now - run.began_ns, 0) * run.weight / kWhole;
    share.used_ns_ += static_cast<int64_t>(static_cast<double>(took) * share.claim_.weight);
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
  std::vector<std::shared_ptr<Share>> woken;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!share.waiting_) return;
    share.waiting_ = false;
    --waiting_;
    woken = next();
  }
  call(woken);
}

// The shares whose turn has come. A run that ends may release units for several.
std::vector<std::shared_ptr<Turns::Share>> Turns::next() {
  std::vector<std::shared_ptr<Share>> out;
  if (waiting_ == 0) return out;
  std::shared_ptr<Share> first;
  for (const auto& [id, share] : shares_) {
    if (!share->waiting_ || !has_copies(*share)) continue;
    if (!share->claim_.holds.empty())
      out.push_back(share);
    else if (!first || share->used_ns_ < first->used_ns_)
      first = share;
  }
  if (first) out.push_back(std::move(first));
  return out;
}

void Turns::call(const std::vector<std::shared_ptr<Share>>& shares) {
  for (const auto& share : shares) {
    const std::lock_guard<std::mutex> lock(share->mutex_);
    if (share->called_) share->called_();
  }
}

}  // namespace peri::serve
