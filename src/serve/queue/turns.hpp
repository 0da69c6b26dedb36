// Turns: models on one device share its time fairly, or by weights. If more want to run than may, the next run is of
// the model that used the least time; a single model may use all of it. Resources named by models have a number of
// units, and a run begins when the units that it needs are free.
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

// Thread-safe; the current time is passed in.
class Turns {
 public:
  // Units of a resource, by its name.
  using Copies = std::map<std::string, int64_t, std::less<>>;
  // The number of concurrent runs while others wait, and the units of resources; a resource that is not listed has as
  // many units as the largest need of one run. Each of the `devices` has its own units, except of global ones; they are
  // counted together.
  explicit Turns(int at_once, Copies copies = {}, int devices = 1)
      : capacity_(kWhole * std::max(at_once, 1)), said_(std::move(copies)), devices_(devices) {}

  // The needs of a model.
  struct Hold {
    int64_t copies = 0;
    bool global = false;
  };
  struct Claim {
    double weight = 1;                               // factor on its time: 2 gives half as much as 1
    std::map<std::string, Hold, std::less<>> holds;  // by each of its runs, from begin to end
  };

  // The share of one model.
  class Share {
   public:
    // Called when its turn may have come, under no lock but the share's own; null removes it.
    void on_turn(std::function<void()> called);

   private:
    friend class Turns;
    uint64_t id_ = 0;
    int64_t used_ns_ = 0;  // its time, and that of others while it was idle
    int64_t last_ns_ = 0;  // when it last had work
    int running_ = 0;
    bool waiting_ = false;
    Claim claim_;
    std::mutex mutex_;  // of `called_`
    std::function<void()> called_;
  };
  // A run in progress.
  struct Run {
    int weight = 0;
    int64_t began_ns = 0;
  };

  // Errors: kRefused: there are not enough units in total, or a resource is global for one model and not for another.
  Result<std::shared_ptr<Share>> join(Claim claim);
  std::shared_ptr<Share> join();
  void leave(const std::shared_ptr<Share>& share);
  // Whether a run may begin now; if not, and with `wants`, the share waits for its turn.
  bool may(Share& share, int64_t now, bool wants);
  // Begins a run of this expected time, 0: unknown; may() need not have been called.
  Run begin(Share& share, int64_t now, int64_t expected_ns);
  // Ends a run; `wants`: the share wants another. REQUIRES: as for pass().
  void end(Share& share, const Run& run, int64_t now, bool wants);
  bool waits(const Share& share);
  int waiting();  // number of waiting shares
  // The share wants no turn any more. REQUIRES: the caller holds no lock that another share's on_turn() takes.
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
  Copies held_;           // currently in use
  int running_ = 0;       // in parts of a run
  int waiting_ = 0;       // shares
  int64_t floor_ns_ = 0;  // time of the share served last
  int64_t ended_ns_ = 0;  // end of the last run
};

}  // namespace peri::serve
