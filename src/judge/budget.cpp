// How far an output may lie from the expected one, by its type, its precision and what was given.
#include "judge/budget.hpp"

#include <algorithm>

#include "judge/whole.hpp"

namespace peri::judge {

double Budget::allowed(DType type) const {
  if (!is_float(type)) return 0;
  return given ? max_error
               : std::max({max_error, kRoundings * unit_roundoff(type), kRoundings * unit_roundoff(precision)});
}

double room_for_rounding(double moved) {
  // Where values are rounded to 16 bits between steps, an answer may err this many times as far as the reference that
  // rounds every value.
  // Rests on: tests/judge/whole_test.cpp (TwoRoundingsErrAlike): an engine rounds fewer values than that reference.
  constexpr double kTimesNarrowRounding = 1.5;
  return std::min(kTimesNarrowRounding * moved, kMaxShareOfSpread);
}

Budget peer_budget() {
  Budget b;
  b.min_cosine = 0.9999;
  b.max_change = 1e-3;
  return b;
}

namespace {
bool is_rounding(const Difference& d, DType type) {
  return is_float(type) && d.linf <= kRoundings * unit_roundoff(DType::kF32) * d.largest;
}
}  // namespace

bool by_rounding(const Difference& d, const Budget& b, DType type) { return !b.given && is_rounding(d, type); }

bool kept_budget(const Budget& b, bool peer, const OutputVerdict& o, DType type) {
  const Budget usual = peer ? peer_budget() : Budget();
  if (!is_float(type)) return false;
  if (b.given && !(o.difference.relative <= b.max_error)) return true;
  if (o.difference.cosine < b.min_cosine && b.min_cosine != usual.min_cosine) return true;
  return o.of_change.value_or(0) > b.max_change && b.max_change != usual.max_change;
}

std::string breach(const OutputVerdict& o, double allowed, const Budget& b, DType type) {
  const Difference& d = o.difference;
  if (!is_float(type)) return unequal(d);
  if (!(d.relative <= allowed) && !by_rounding(d, b, type))
    return format("error %.3g of its range, allowed %.3g", d.relative, allowed);
  const Budget usual = peer_budget();  // by others, that were given, the smallest change counts
  const bool tiny = d.relative <= 4 * unit_roundoff(type) || is_rounding(d, type);  // two roundings of each side
  if (!(d.cosine >= b.min_cosine) && !(tiny && b.min_cosine == usual.min_cosine))
    return format("its cosine is 1 - %.3g, allowed is 1 - %.3g", 1 - d.cosine, 1 - b.min_cosine);
  if (o.of_change.value_or(0) > b.max_change && !(tiny && b.max_change == usual.max_change))
    return format("error %.3g of the change between two seeds, allowed %.3g", *o.of_change, b.max_change);
  return "";
}

}  // namespace peri::judge
