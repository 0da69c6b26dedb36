// Selects the work to run next. Streams hold queues; a step runs one item that is ready, chosen by a seed, so that over
// many seeds every order occurs that stream order and waits allow.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "base/rng.hpp"
#include "device/capturing.hpp"

namespace peri::device {

// The state of one stream.
struct Queue {
  uint64_t id = 0;
  std::deque<Item> items;
  std::optional<Replay> replay;  // in progress: of the first item
  std::optional<Error> error;    // the first since the last report
  std::shared_ptr<Capturing> capture;
  size_t lane = 0;     // in the capture
  bool began = false;  // it began the capture
};

struct Order {
  bool at_once = false;      // each item runs when it is enqueued, in the calling thread
  uint64_t seed = 0;         // else: determines the order, and how much runs before a caller waits
  int64_t failing_work = 0;  // the copy or launch that fails as it runs, counted from 1; 0: none
};

// Not thread-safe, except run_now(): the caller holds its owner's lock.
class Schedule {
 public:
  Schedule(const Store* store, Order order) : store_(store), order_(order), rng_(order.seed) {}
  void add(Queue* queue);
  void remove(Queue* queue);  // discards its items
  std::span<Queue* const> queues() const { return queues_; }
  bool at_once() const { return order_.at_once; }

  // Appends an item, and runs as much as the seed determines.
  void push(Queue* queue, Item item);
  // Runs until the queue is empty.
  void drain(Queue* queue);
  void reach(const Point& point);
  // Runs an item in an empty queue; `lock` is held except while copies and launches run.
  void run_now(Queue* queue, const Item& item, std::unique_lock<std::mutex>* lock);

  int64_t copies = 0, launches = 0, replays = 0;

 private:
  struct Turn {
    Queue* queue = nullptr;
    std::optional<size_t> lane;  // of its replay
  };
  bool step();  // false: nothing can run
  void take_turns(Queue* queue, std::vector<Turn>* turns);
  uint64_t rank(const Turn& turn) const;
  void run(const Turn& turn);
  // Runs work and counts it; skipped if there is already an error.
  void work(const Item& item, std::optional<Error>* error, std::unique_lock<std::mutex>* lock);
  void settle(Queue* queue, const Item& item);  // records and waits
  void end_replay(Queue* queue);

  const Store* store_;
  Order order_;
  Rng rng_;
  uint64_t epoch_ = 0;
  int64_t works_ = 0;
  std::vector<Queue*> queues_;
};

}  // namespace peri::device
