// Each price is computed once: a conversion that nobody timed yet is measured for it.
#include "lower/prices.hpp"

#include <algorithm>

#include "lower/sides.hpp"

namespace peri::lower {

int Prices::place_of(const ir::Layout& layout, bool host) {
  const Place place{layout, host};
  const auto it = std::find(places_.begin(), places_.end(), place);
  if (it != places_.end()) return static_cast<int>(it - places_.begin());
  places_.push_back(place);
  return static_cast<int>(places_.size()) - 1;
}

int Prices::value_of(const ir::Value* v) {
  const auto [it, is_new] = value_ids_.emplace(v, static_cast<int>(values_.size()));
  if (is_new) values_.push_back(v);
  return it->second;
}

double Prices::between(int value, int from, int to) {
  if (from == to) return 0;
  const auto [it, is_new] = prices_.emplace(std::tuple(value, from, to), impossible_ms_);
  if (!is_new) return it->second;
  const ir::Type& type = values_[static_cast<size_t>(value)]->type;
  const Place &a = places_[static_cast<size_t>(from)], &b = places_[static_cast<size_t>(to)];
  it->second = a.host == b.host ? 0 : crossing_ms(terms_, type);
  if (same_memory(type, a.layout, b.layout)) return it->second;
  const auto dims = eval(*type.shape, terms_.tuned_for);
  return it->second +=
         dims.ok() ? terms_.backend.change_ms(terms_.tuner, type.dtype, *dims, a.layout, b.layout) : impossible_ms_;
}

}  // namespace peri::lower
