// kept_boxes_bench: suppression of boxes in an order of scores by KeptBoxes, median of seven runs in ms, on sets of
// boxes like a detector's: classes apart in one call, small objects, objects of all sizes, few.
#include <algorithm>
#include <cstdio>

#include "base/clock.hpp"
#include "base/rng.hpp"
#include "exec/sized/kept_boxes.hpp"

namespace {
struct Set {
  const char* name;
  int boxes;
  double apart, side, large;  // of classes; of most boxes; the share of boxes of 200
};
constexpr Set kSets[] = {{"27,000 boxes of 90 classes apart", 27000, 321, 40, 0},
                         {"3,000 boxes of 90 classes apart", 3000, 321, 40, 0},
                         {"20,000 small objects", 20000, 0, 0.6, 0},
                         {"20,000 of all sizes", 20000, 0, 4, 0.02},
                         {"400 of one image", 400, 0, 3, 0}};

std::vector<peri::exec::Box> boxes_of(const Set& set, uint64_t seed) {
  peri::Rng rng(seed);
  std::vector<peri::exec::Box> out;
  for (int k = 0; k < set.boxes; ++k) {
    const double at = set.apart * static_cast<double>(rng.below(90)), side = rng.uniform() < set.large ? 200 : set.side;
    const double x = at + 320 * rng.uniform(), y = at + 320 * rng.uniform();
    const double right = x + side * rng.uniform(), bottom = y + side * rng.uniform();
    out.push_back(
        {static_cast<float>(y), static_cast<float>(x), static_cast<float>(bottom), static_cast<float>(right)});
  }
  return out;
}
}  // namespace

int main() {
  for (const Set& set : kSets) {
    std::vector<double> ms;
    for (uint64_t run = 0; run < 7; ++run) {
      const auto boxes = boxes_of(set, run % 3);
      const int64_t start = peri::now_ns();
      peri::exec::KeptBoxes kept;
      for (const peri::exec::Box& b : boxes)
        if (!kept.any_over(b, 0.5F)) kept.add(b);
      ms.push_back(peri::seconds_since(start) * 1e3);
    }
    std::sort(ms.begin(), ms.end());
    std::printf("%s: %.3f ms\n", set.name, ms[ms.size() / 2]);
  }
}
