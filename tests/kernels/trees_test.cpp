// Trees found by their conditions alone end where a walk ends: any shape, condition, number of rows, NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "kernels/cpu/machines/pieces.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels::cpu::machines {
namespace {
constexpr int64_t kFeatures = 7;

bool holds(ops::TreeMode mode, float x, float split, bool missing) {
  if (std::isnan(x) && missing) return true;
  switch (mode) {
    case ops::TreeMode::kLeq: return x <= split;
    case ops::TreeMode::kLess: return x < split;
    case ops::TreeMode::kGeq: return x >= split;
    case ops::TreeMode::kGreater: return x > split;
    case ops::TreeMode::kEqual: return x == split;
    default: return x != split;
  }
}

float value(Rng* rng, bool nan) {
  return nan && rng->next() % 8 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(static_cast<int>(rng->next() % 9)) - 4;
}

// Splits leaves at random until there are `leaves`; now and then a way leads to a leaf that another has.
void grow(Forest<float>* f, int64_t leaves, Rng* rng) {
  const auto place = [&](int32_t leaf) {
    const auto at = static_cast<int32_t>(f->places.size());
    f->places.push_back({0, 0, {at, at}});
    f->leaf_of.push_back(leaf);
    return at;
  };
  auto next = static_cast<int32_t>(f->first_vote.size()) - 1;
  const auto new_leaf = [&] {
    f->votes.emplace_back(0, static_cast<double>(next));
    f->first_vote.push_back(static_cast<int32_t>(f->votes.size()));
    return place(next++);
  };
  std::vector<int32_t> open = {new_leaf()};
  f->roots.push_back(open[0]);
  for (int64_t n = 1; n < leaves; ++n) {
    const size_t k = rng->next() % 3 == 0 ? rng->next() % open.size() : open.size() - 1;
    const int32_t at = open[k];
    // The place becomes a condition; its leaf moves.
    const int32_t moved = place(f->leaf_of[static_cast<size_t>(at)]),
                  other = rng->next() % 16 == 0 ? moved : new_leaf();
    const auto feature = static_cast<uint32_t>(rng->next() % kFeatures);
    f->leaf_of[static_cast<size_t>(at)] = -1;
    f->places[static_cast<size_t>(at)] = {
        value(rng, false), feature * 32 + static_cast<uint32_t>(rng->next() % 2), {moved, other}};
    if (rng->next() % 2)
      std::swap(f->places[static_cast<size_t>(at)].next[0], f->places[static_cast<size_t>(at)].next[1]);
    open[k] = moved;
    if (other != moved) open.push_back(other);
  }
  f->depths.push_back(1000);  // worth it, whatever the tree is
}

TEST(Trees, EndWhereAWalkEnds) {
  Rng rng(5);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!runs_here(isa)) continue;
    for (const auto mode : {ops::TreeMode::kLeq, ops::TreeMode::kLess, ops::TreeMode::kGeq, ops::TreeMode::kGreater,
                            ops::TreeMode::kEqual, ops::TreeMode::kOther}) {
      Forest<float> f;
      f.mode = mode;
      f.rows = kRowsTogether;
      f.first_vote = {0};
      for (const int64_t leaves : {1, 2, 7, 31, 32, 33, 64, 65, 100, 300}) grow(&f, leaves, &rng);
      const Pieces pieces = pieces_of(f, isa);
      ASSERT_EQ(pieces.trees.size(), f.roots.size());
      for (const int64_t rows : {1, 7, 8, 9, 16, 17, 31, 33, 40, 63, 64}) {
        std::vector<std::vector<float>> x(static_cast<size_t>(rows), std::vector<float>(kFeatures));
        std::vector<const float*> at;
        for (auto& row : x) {
          for (float& v : row) v = value(&rng, true);
          at.push_back(row.data());
        }
        const Guarded columns(static_cast<int64_t>(pieces.column_bytes() / sizeof(float)));
        fill_columns(pieces, at.data(), rows, columns.data());
        for (size_t t = 0; t < f.roots.size(); ++t) {
          const Pieces::Tree& tree = pieces.trees[t];
          ASSERT_GT(tree.count, 0);
          std::vector<int32_t> leaf(kRowsTogether, -1);
          pieces.find(pieces.condition,
                      {pieces.pieces.data() + tree.first_piece, tree.count, columns.data(), rows, leaf.data()});
          for (size_t r = 0; r < x.size(); ++r) {
            int32_t p = f.roots[t];
            while (f.leaf_of[static_cast<size_t>(p)] < 0) {
              const Place<float>& place = f.places[static_cast<size_t>(p)];
              p = place.next[holds(mode, x[r][static_cast<size_t>(place.feature())], place.split, place.missing())];
            }
            const auto found = static_cast<size_t>(tree.first_leaf + leaf[r]);
            ASSERT_EQ(pieces.leaves[found], f.leaf_of[static_cast<size_t>(p)]) << t << " " << r << " of " << rows;
            ASSERT_EQ(tree.target, 0);
            ASSERT_EQ(pieces.votes[found], f.leaf_of[static_cast<size_t>(p)]);
          }
        }
      }
    }
  }
}

TEST(Trees, LargeOnesAreWalked) {
  Rng rng(6);
  Forest<float> f;
  f.mode = ops::TreeMode::kLeq;
  f.rows = 1000;
  f.first_vote = {0};
  grow(&f, 31, &rng);
  grow(&f, 3000, &rng);
  grow(&f, 6000, &rng);
  f.depths = {14, 12, 100000};
  const Pieces pieces = pieces_of(f, Isa::kAvx2);
  EXPECT_GT(pieces.trees[0].count, 0);
  EXPECT_EQ(pieces.trees[1].count, 0) << "it is even";
  EXPECT_EQ(pieces.trees[2].count, 0) << "it has too many conditions";
  f.mode = std::nullopt;
  EXPECT_FALSE(pieces_of(f, Isa::kAvx2).any());
}

TEST(Trees, LeavesWithSeveralVotesKeepThem) {
  Forest<float> f;
  f.mode = ops::TreeMode::kLeq;
  f.rows = 64;
  f.places = {{0, 0, {1, 2}}, {0, 0, {1, 1}}, {0, 0, {2, 2}}};
  f.leaf_of = {-1, 0, 1};
  f.roots = {0};
  f.depths = {1};
  f.first_vote = {0, 1, 3};
  f.votes = {{1, 2.0}, {0, 1.0}, {1, 3.0}};
  EXPECT_EQ(pieces_of(f, Isa::kAvx2).trees[0].target, -1);
  f.first_vote = {0, 1, 2};
  EXPECT_EQ(pieces_of(f, Isa::kAvx2).trees[0].target, -1) << "for different targets";
  f.votes[1].first = 1;
  EXPECT_EQ(pieces_of(f, Isa::kAvx2).trees[0].target, 1);
}

}  // namespace
}  // namespace peri::kernels::cpu::machines
