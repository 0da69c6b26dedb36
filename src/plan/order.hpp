// Which steps are complete before which others begin, and which of them a device may capture: pure functions of a
// program.
//
// Steps of the host run one after the other, in program order. Steps of a device are enqueued in program order: each
// runs after the earlier ones of its lane, after earlier steps of the host, after the earlier segments of its device,
// and after what it waits for. A step of the host runs after a device's only if it waits for it, or an earlier one did.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.hpp"

namespace peri::plan {

// A maximal run of steps of one device with no step of the host between them: all of it can be enqueued, or captured
// once per shape and replayed.
struct Segment {
  size_t begin = 0, end = 0;  // steps
  uint32_t device = 0;
};
std::vector<Segment> segments(const Program& program);

class StepOrder {
 public:
  // REQUIRES: devices, lanes and waits_for are within their ranges (check_program() checks them first).
  explicit StepOrder(const Program& program);
  size_t lanes() const { return lanes_; }  // 0 is the host; then each lane of a device that has steps
  size_t lane_of(size_t step) const { return lane_of_[step]; }
  // The last step of a lane that is complete before `step` begins; -1: none.
  int32_t last_before(size_t step, size_t lane) const { return clock_[step * lanes_ + lane]; }
  bool before(size_t earlier, size_t step) const {
    return earlier < step && last_before(step, lane_of_[earlier]) >= static_cast<int32_t>(earlier);
  }

 private:
  size_t lanes_ = 1;
  std::vector<uint32_t> lane_of_;
  std::vector<int32_t> clock_;  // by step and lane
};

// The lifetimes over all lanes of each buffer that owns memory, followed by those of the steps themselves, for memory
// that a step uses while it runs.
class Spans {
 public:
  Spans() = default;
  explicit Spans(const Program& program);
  bool empty() const { return lanes_ == 0; }
  // Whether all accesses to one of the two are complete before the first access to the other.
  bool apart(size_t a, size_t b) const { return ends_before(a, b) || ends_before(b, a); }

 private:
  bool ends_before(size_t a, size_t b) const {
    for (size_t lane = 0; lane < lanes_; ++lane)
      if (last_[a * lanes_ + lane] > known_[b * lanes_ + lane]) return false;
    return true;
  }
  size_t lanes_ = 0;
  std::vector<int32_t> last_;   // by buffer and lane: the last step that accesses it; -1: none
  std::vector<int32_t> known_;  // the last step of the lane that is complete before any step that accesses it
};

}  // namespace peri::plan
