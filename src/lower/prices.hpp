// The places of values during the search for a cover, and the cost of copying one to another place.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "lower/cover.hpp"

namespace peri::lower {

// Values and places by number, as in lower/search.hpp: place 0 is row-major memory of the backend's device.
class Prices {
 public:
  // A change of place that nothing implements costs `impossible_ms`. `terms` must outlive this object.
  Prices(const Terms& terms, double impossible_ms) : terms_(terms), impossible_ms_(impossible_ms) {}

  int place_of(const ir::Layout& layout, bool host = false);
  int value_of(const ir::Value* v);
  const std::vector<const ir::Value*>& values() const { return values_; }
  // In ms, copies between host and device included.
  double between(int value, int from, int to);

 private:
  // A layout, and whether on the host in addition to the backend's device.
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
