// Turns: models on one device share its time fairly, or by weights. If more want to run than may, the next run is of
// the model that had the least time; a single model has all of it. Resources that models name have a number of units,
// and a run begins when the units it needs are free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace peri::serve {

// All functions may be called from any thread; times are those it is told.
class Turns {
 public:
  // Copies of a resource, by its name.
  using Copies = std::map<std::string, int64_t, std::less<>>;
  // How many runs there may be at once while others wait, and copies of resources; of one that is not said there are as
  // many as the most that one run asks for.
  // Each of the `devices` has copies of its own, but of what is global; they count together.
  explicit Turns(int at_once, Copies copies = {}, int devices = 1)
      : capacity_(kWhole * std::max(at_once, 1)), said_(std::move(copies)), devices_(devices) {}

  // What a model asks for.
  struct Hold {
    int64_t copies = 0;
    bool global = false;
  };
  struct Claim {
    double weight = 1;                               // of its time: at 2 it has half of what others have
    std::map<std::string, Hold, std::less<>> holds;  // each of its runs, from its beginning to its end
  };

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
    Claim claim_;
    std::mutex mutex_;  // of `called_`
    std::function<void()> called_;
  };
  // A run that is under way.
  struct Run {
    int weight = 0;
    int64_t began_ns = 0;
  };

  // Errors: kRefused: there are never so many copies, or a resource is global for one model and not for another.
  Result<std::shared_ptr<Share>> join(Claim claim);
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
  static bool before(const Share& a, const Share& b);
  int64_t copies_of(std::string_view name) const;
  bool has_copies(const Share& share) const;
  std::vector<std::shared_ptr<Share>> next();
  static void call(const std::vector<std::shared_ptr<Share>>& shares);

  const int capacity_;
  const Copies said_;
  const int devices_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Share>> shares_;
  uint64_t ids_ = 0;
  Copies held_;           // now
  int running_ = 0;       // in parts of a run
  int waiting_ = 0;       // shares
  int64_t floor_ns_ = 0;  // time of the share that was served last
  int64_t ended_ns_ = 0;  // when a run ended last
};

}  // namespace peri::serve
