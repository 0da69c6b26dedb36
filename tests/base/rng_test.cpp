// Numbers of one seed are no moved copy of those of another seed or part.
#include "base/rng.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace peri {
namespace {

TEST(Rng, NeighbouringSeedsShareNoNumber) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    Rng rng(seed);
    for (int k = 0; k < 64; ++k) EXPECT_TRUE(seen.insert(rng.next()).second) << "seed " << seed << ", number " << k;
  }
}

TEST(Rng, PartsOfNeighbouringSeedsShareNoNumber) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 16; ++seed)
    for (uint64_t part = 0; part < 16; ++part) {
      Rng rng(seed_of_part(seed, part));
      for (int k = 0; k < 16; ++k)
        EXPECT_TRUE(seen.insert(rng.next()).second) << "seed " << seed << ", part " << part << ", number " << k;
    }
}

TEST(Rng, GivesTheSameNumbersAgain) {
  Rng a(7), b(7);
  for (int k = 0; k < 8; ++k) EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(seed_of_part(7, 3), seed_of_part(7, 3));
}

}  // namespace
}  // namespace peri
