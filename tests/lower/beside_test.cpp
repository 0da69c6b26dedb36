// What is tried on the host beside what only the host takes, and that a chain found so is chosen whole.
#include "lower/beside.hpp"

#include <gtest/gtest.h>

#include "lower/search.hpp"

namespace peri::lower {
namespace {

struct Values {
  std::vector<ir::Value> made = std::vector<ir::Value>(16);
  std::vector<const ir::Value*> of(std::initializer_list<size_t> which) const {
    std::vector<const ir::Value*> out;
    for (const size_t k : which) out.push_back(&made[k]);
    return out;
  }
};

TEST(Beside, AChainOfLightPartsBetweenTwoOfTheHostIsTriedWhole) {
  const Values v;
  // 0 -> host -> 1 -> light -> 2 -> light -> 3 -> light -> 4 -> host -> 5
  std::vector<Neighbour> parts = {{v.of({0, 1}), true, true},
                                  {v.of({1, 2}), false, true},
                                  {v.of({2, 3}), false, true},
                                  {v.of({3, 4}), false, true},
                                  {v.of({4, 5}), true, true}};
  EXPECT_EQ(tried_beside(parts), (std::vector<size_t>{1, 2, 3}));
  parts[2].light = false;  // it touches neither of the host
  EXPECT_EQ(tried_beside(parts), (std::vector<size_t>{1, 3}));
}

TEST(Beside, AHeavyPartIsTriedOnlyNextToTheHost) {
  const Values v;
  // heavy, heavy, light, light, host, heavy, light, light, and a light one with no connection
  const std::vector<Neighbour> parts = {
      {v.of({0, 1}), false, false}, {v.of({1, 2}), false, false}, {v.of({2, 3}), false, true},
      {v.of({3, 4}), false, true},  {v.of({4, 5}), true, true},   {v.of({5, 6}), false, false},
      {v.of({6, 7}), false, true},  {v.of({7, 8}), false, true},  {v.of({9, 10}), false, true}};
  EXPECT_EQ(tried_beside(parts), (std::vector<size_t>{2, 3, 5}));
}

TEST(Beside, AllAreReachedInAnyOrder) {
  const Values v;
  const std::vector<Neighbour> parts = {{v.of({3, 4}), false, true},
                                        {v.of({1, 2}), false, true},
                                        {v.of({0, 1}), true, false},
                                        {v.of({4, 5}), false, true},
                                        {v.of({2, 3}), false, true}};
  EXPECT_EQ(tried_beside(parts), (std::vector<size_t>{0, 1, 3, 4}));
  EXPECT_TRUE(tried_beside({}).empty());
}

// Three steps of the device between two of the host; each is slower on the host by a quarter of a copy. Alone on the
// host none saves a copy, the ends move one; together they save both.
TEST(Beside, TheSearchTakesSuchAChainWhole) {
  constexpr double kCopy = 0.02, kDevice = 0.002, kHost = 0.007;
  Puzzle p;
  p.atoms = 5;
  p.values = 6;
  p.wanted.assign(6, false);
  p.price = [](int, int from, int to) { return from == to ? 0 : kCopy; };
  for (int k = 0; k < 5; ++k) {
    Piece piece{{k}, {k}, {k + 1}, {{kHost, {0}, {0}}}};
    if (k > 0 && k < 4) piece.ways.push_back({kDevice, {1}, {1}});
    p.pieces.push_back(piece);
  }
  const auto host = solve(p);
  ASSERT_TRUE(host.has_value());
  for (const Picked& picked : host->picked) EXPECT_EQ(picked.way, 0u) << "piece " << picked.piece;
  EXPECT_NEAR(host->cost, 5 * kHost, 1e-9);
  p.pieces[2].ways.erase(p.pieces[2].ways.begin());  // the middle one was not tried there: all three stay on the device
  const auto device = solve(p);
  ASSERT_TRUE(device.has_value());
  EXPECT_NEAR(device->cost, 2 * kHost + 3 * kDevice + 2 * kCopy, 1e-9);
}

}  // namespace
}  // namespace peri::lower
