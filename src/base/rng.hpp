// Rng: a small counter-seeded generator (splitmix64), the same numbers on every machine. Its seed is printed by whoever
// uses it.
#pragma once

#include <cmath>
#include <cstdint>

namespace peri {

class Rng {
 public:
  // Mixed, since two states that are near each other give the same numbers, moved by a few places.
  explicit Rng(uint64_t seed) : state_(mixed(seed * kStep + 0x2545f4914f6cdd1dull)) {}
  uint64_t next() { return mixed(state_ += kStep); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  int64_t below(int64_t n) {
    return static_cast<int64_t>(static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n) >> 64);
  }
  double normal() {  // Box-Muller, one value a call
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;
  // Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014
  static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// The seed of one of several parts, of the first the seed itself: no part has the numbers of another, of this seed or
// of the next.
inline uint64_t seed_of_part(uint64_t seed, uint64_t part) {
  return part == 0 ? seed : Rng(Rng(seed).next() + part).next();
}

}  // namespace peri
