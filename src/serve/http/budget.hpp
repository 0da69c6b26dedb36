// ByteBudget: limit of the bytes that the requests of a server hold together. A share is returned with the memory that
// it was taken for, which may outlive its request and its server. ReplyBudget: the same for replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace peri::serve {

// Messages for a lack of memory: temporarily, and permanently; and for replies.
constexpr std::string_view kCrowded =
    "too many bytes of requests are under way (--max-total-body-bytes): it may be sent again";
constexpr std::string_view kNeverFits =
    "the body takes more memory than all requests together may hold (--max-total-body-bytes)";
constexpr std::string_view kUnread =
    "replies that clients have not read hold too many bytes (--max-total-body-bytes): it may be sent again";

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t most) : most_(most) {}
  // False: the limit would be exceeded, and nothing was taken.
  bool take(uint64_t bytes) {
    uint64_t now = taken_.load(std::memory_order_relaxed);
    do {  // a refused one takes nothing even for a moment: a small one beside it still fits
      if (bytes > most_ || now > most_ - bytes) return false;
    } while (!taken_.compare_exchange_weak(now, now + bytes));
    return true;
  }
  void give(uint64_t bytes) { taken_ -= bytes; }
  uint64_t taken() const { return taken_; }
  uint64_t most() const { return most_; }
  // Why so many bytes were refused: kCrowded or kNeverFits.
  std::string_view refusal(uint64_t bytes) const { return bytes > most_ ? kNeverFits : kCrowded; }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

// The share of one holder.
class BudgetShare {
 public:
  explicit BudgetShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  BudgetShare(const BudgetShare&) = delete;
  ~BudgetShare() {
    if (budget_) budget_->give(taken_);
  }
  // Changes the share to so many bytes. False: the limit would be exceeded, and the share is unchanged.
  bool hold(uint64_t bytes) {
    if (budget_ && bytes > taken_ && !budget_->take(bytes - taken_)) return false;
    if (budget_ && bytes < taken_) budget_->give(taken_ - bytes);
    taken_ = bytes;
    return true;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;  // null: unlimited
  uint64_t taken_ = 0;
};

// Limit of the bytes of replies that clients have not received. Small ones are bounded by the number of connections or
// calls, and not counted; one larger than the limit is sent alone, since waiting would not make it fit.
class ReplyBudget {
 public:
  static constexpr uint64_t kSmall = 65536;
  // The number to return when a reply of so many bytes has been sent: it may be sent. None: not together with the
  // others.
  std::optional<uint64_t> take(uint64_t bytes, uint64_t most) {
    if (bytes <= kSmall) return 0;
    const uint64_t others = taken_.fetch_add(bytes);
    if (others == 0 || (bytes <= most && others <= most - bytes)) return bytes;
    taken_ -= bytes;
    return std::nullopt;
  }
  void give(uint64_t bytes) {
    if (bytes > 0) taken_ -= bytes;
  }

 private:
  std::atomic<uint64_t> taken_{0};
};

}  // namespace peri::serve
