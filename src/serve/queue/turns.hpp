// Turns: models on one device share its time fairly. While more want to run than may, the next run is that of the model
// that had the least time; alone, a model has all of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace peri::serve {

// All functions may be called from any thread; times are those it is told.
class Turns {
 public:
  // How many runs there may be at once while others wait.
  explicit Turns(int at_once) : capacity_(kWhole * std::max(at_once, 1)) {}

  // One model's part in it.
  class Share {
   public:
    // Called, without a lock of this class but for the share's own, when its turn may have come; null ends it.
    void on_turn(std::function<void()> called);

   private:
    friend class Turns;
    uint64_t id_ = 0;
    int64_t used_ns_ = 0;  // its time, and that of others while it wanted none
    int64_t last_ns_ = 0;  // when it last had something to run
    int running_ = 0;
    bool waiting_ = false;
    std::mutex mutex_;  // of `called_`
    std::function<void()> called_;
  };
  // A run that is under way.
  struct Run {
    int weight = 0;
    int64_t began_ns = 0;
  };

  std::shared_ptr<Share> join();
  void leave(const std::shared_ptr<Share>& share);
  // Whether a run may begin now; if not, and `wants`, the share waits for its turn.
  bool may(Share& share, int64_t now, bool wants);
  // A run of that time begins, 0: not known; also one that did not ask.
  Run begin(Share& share, int64_t now, int64_t expected_ns);
  // A run has ended, and the share wants another, or not. REQUIRES: as of pass().
  void end(Share& share, const Run& run, int64_t now, bool wants);
  bool waits(const Share& share);
  int waiting();  // shares that do
  // It wants no turn any more. REQUIRES: the caller holds no lock that another share's on_turn() asks for.
  void pass(Share& share);

 private:
  static constexpr int kWhole = 32;
  bool alone(const Share& share, int64_t now) const;
  std::shared_ptr<Share> next();
  static void call(const std::shared_ptr<Share>& share);

  const int capacity_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Share>> shares_;
  uint64_t ids_ = 0;
  int running_ = 0;       // in parts of a run
  int waiting_ = 0;       // shares
  int64_t floor_ns_ = 0;  // time of the share that was served last
  int64_t ended_ns_ = 0;  // when a run ended last
};

}  // namespace peri::serve
