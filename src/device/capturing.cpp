// Each lane knows how much of the others precedes it; a record stores that, a wait takes it over.
#include "device/capturing.hpp"

#include <algorithm>

namespace peri::device {

size_t Capturing::join() {
  recorded_.lanes.emplace_back();
  before_.emplace_back();
  work_.push_back(0);
  return recorded_.lanes.size() - 1;
}

void Capturing::add(size_t lane, Item item) {
  std::vector<Item>& items = recorded_.lanes[lane];
  const bool work = item.is_work();
  items.push_back(std::move(item));
  if (work) work_[lane] = items.size();
  before_[lane].resize(std::max(before_[lane].size(), lane + 1));
  before_[lane][lane] = items.size();
}

size_t Capturing::record(size_t lane) {
  Item item;
  item.kind = Item::Kind::kRecord;
  item.captured_point = recorded_.points++;
  const size_t point = item.captured_point;
  add(lane, std::move(item));
  points_.push_back(before_[lane]);
  return point;
}

void Capturing::wait(size_t lane, size_t point) {
  Item item;
  item.kind = Item::Kind::kWait;
  item.captured_point = point;
  add(lane, std::move(item));
  Before& mine = before_[lane];
  const Before& theirs = points_[point];
  mine.resize(std::max(mine.size(), theirs.size()));
  for (size_t k = 0; k < theirs.size(); ++k) mine[k] = std::max(mine[k], theirs[k]);
}

Result<std::shared_ptr<const Recorded>> Capturing::end() {
  over_ = true;
  if (broken_) return invalid("a stream that took part in the capture is gone");
  Before first = before_[0];
  first.resize(recorded_.lanes.size());
  for (size_t lane = 1; lane < work_.size(); ++lane)
    if (first[lane] < work_[lane])
      return invalid("work of another stream is not waited for at the end of the capture")
          .advise("record an event behind it, and wait for that in the stream that captures");
  return std::make_shared<const Recorded>(std::move(recorded_));
}

}  // namespace peri::device
