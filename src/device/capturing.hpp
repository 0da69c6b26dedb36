// A capture in progress: the participating streams, their work, and whether all of it is joined at the end.
#pragma once

#include "device/work.hpp"

namespace peri::device {

class Capturing {
 public:
  // A new lane; the first is that of the stream that began the capture.
  size_t join();
  void add(size_t lane, Item item);
  // A point after the current work of the lane; returns its index.
  size_t record(size_t lane);
  void wait(size_t lane, size_t point);
  // Ends the capture. kInvalid where the first lane does not wait for work of another, or a stream was destroyed.
  Result<std::shared_ptr<const Recorded>> end();
  void end_broken() { over_ = broken_ = true; }
  void lose_stream() { broken_ = true; }
  bool over() const { return over_; }

 private:
  // The number of preceding items of each lane; 0 for lanes beyond the end of the list.
  using Before = std::vector<size_t>;
  Recorded recorded_;
  std::vector<Before> before_;  // of the next item of each lane
  std::vector<Before> points_;
  std::vector<size_t> work_;  // by lane: index after its last copy or launch
  bool over_ = false, broken_ = false;
};

}  // namespace peri::device
