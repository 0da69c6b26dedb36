// Where values may lie while a cover is searched, and what it costs to have one in another place as well.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "lower/cover.hpp"

namespace peri::lower {

// Values and places by number, as lower/search.hpp names them: place 0 is row-major memory of the backend's device.
class Prices {
 public:
  // A change of place that nothing makes costs `impossible_ms`. `terms` outlives it.
  Prices(const Terms& terms, double impossible_ms) : terms_(terms), impossible_ms_(impossible_ms) {}

  int place_of(const ir::Layout& layout, bool host = false);
  int value_of(const ir::Value* v);
  const std::vector<const ir::Value*>& values() const { return values_; }
  // In ms, copies between host and device included.
  double between(int value, int from, int to);

 private:
  // In which layout, and whether on the host beside the backend's device.
  struct Place {
    ir::Layout layout;
    bool host = false;
    bool operator==(const Place&) const = default;
  };

  const Terms& terms_;
  double impossible_ms_;
  std::vector<Place> places_ = {Place{}};
  std::vector<const ir::Value*> values_;
  std::unordered_map<const ir::Value*, int> value_ids_;
  std::map<std::tuple<int, int, int>, double> prices_;
};

}  // namespace peri::lower
