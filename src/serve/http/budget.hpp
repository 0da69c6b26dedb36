// ByteBudget: how many bytes the requests of a server may hold together. What is taken of it is given back with the
// memory that it was taken for, which may outlive its request and its server.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace peri::serve {

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
  bool take(uint64_t bytes) {
    if (budget_ && !budget_->take(bytes)) return false;
    taken_ += bytes;
    return true;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;  // null: there is no bound
  uint64_t taken_ = 0;
};

}  // namespace peri::serve
