// A capture in progress: the streams that take part, their work, and whether all of it is joined at the end.
#pragma once

#include "device/work.hpp"

namespace peri::device {

class Capturing {
 public:
  // A new lane; the first is that of the stream that began.
  size_t join();
  void add(size_t lane, Item item);
  // A point behind what the lane holds; its index.
  size_t record(size_t lane);
  void wait(size_t lane, size_t point);
  // No more is taken. kInvalid where work of another lane is not waited for by the first, or a stream went.
  Result<std::shared_ptr<const Recorded>> end();
  void end_broken() { over_ = broken_ = true; }
  void lose_stream() { broken_ = true; }
  bool over() const { return over_; }

 private:
  // How much of each lane comes before: items by lane, lanes behind the end of the list with none.
  using Before = std::vector<size_t>;
  Recorded recorded_;
  std::vector<Before> before_;  // of each lane's next item
  std::vector<Before> points_;
  std::vector<size_t> work_;  // by lane: behind its last copy or launch
  bool over_ = false, broken_ = false;
};

}  // namespace peri::device
