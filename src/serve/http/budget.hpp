// ByteBudget: how many bytes the requests of a server may hold together. What is taken of it is given back with the
// memory that it was taken for, which may outlive its request and its server. ReplyBudget: the same of replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace peri::serve {

// What is told where there is no room: beside what others hold now, and ever; and of replies.
constexpr std::string_view kCrowded =
    "too many bytes of requests are under way (--max-total-body-bytes): it may be sent again";
constexpr std::string_view kNeverFits =
    "the body takes more memory than all requests together may hold (--max-total-body-bytes)";
constexpr std::string_view kUnread =
    "replies that clients have not read hold too many bytes (--max-total-body-bytes): it may be sent again";

// All functions may be called from any thread.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t most) : most_(most) {}
  // False: there is no room for so many, and none were taken.
  bool take(uint64_t bytes) {
    uint64_t now = taken_.load(std::memory_order_relaxed);
    do {  // one that is refused takes nothing for a moment either: a small one beside it has its room
      if (bytes > most_ || now > most_ - bytes) return false;
    } while (!taken_.compare_exchange_weak(now, now + bytes));
    return true;
  }
  void give(uint64_t bytes) { taken_ -= bytes; }
  uint64_t taken() const { return taken_; }
  uint64_t most() const { return most_; }
  // Why there is no room for so many: kCrowded or kNeverFits.
  std::string_view refusal(uint64_t bytes) const { return bytes > most_ ? kNeverFits : kCrowded; }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> taken_{0};
};

// What one holder has taken.
class BudgetShare {
 public:
  explicit BudgetShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  BudgetShare(const BudgetShare&) = delete;
  ~BudgetShare() {
    if (budget_) budget_->give(taken_);
  }
  // Holds so many from now on. False: there is no room for them, and it holds what it held.
  bool hold(uint64_t bytes) {
    if (budget_ && bytes > taken_ && !budget_->take(bytes - taken_)) return false;
    if (budget_ && bytes < taken_) budget_->give(taken_ - bytes);
    taken_ = bytes;
    return true;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;  // null: there is no bound
  uint64_t taken_ = 0;
};

// How many bytes replies hold that their clients have not taken. Small ones are bounded by the number of connections or
// calls, and not counted; one that is larger than all the room goes by itself, as no waiting would make it smaller.
class ReplyBudget {
 public:
  static constexpr uint64_t kSmall = 65536;
  // What is to be given back when a reply of so many bytes has gone: it may be sent. None: not beside the others.
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
