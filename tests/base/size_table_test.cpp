// Compiled sizes give what their expressions give: values, and every kind of error.
#include "base/size_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/rng.hpp"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

// Of this whole program: counts, and allocates as ever.
void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace peri {
namespace {

Dim dim(std::string_view text) {
  auto d = Dim::parse(text);
  EXPECT_TRUE(d.ok()) << text;
  return d.ok() ? *d : Dim::poison();
}

const char* const kNames[] = {"a", "b", "c"};

Dim random_dim(Rng* rng, int depth) {
  const int64_t kind = depth == 0 ? rng->below(2) : rng->below(9);
  if (kind == 0) return rng->below(21) - 10;
  if (kind == 1) return Dim::symbol(kNames[rng->below(3)]);
  const Dim x = random_dim(rng, depth - 1), y = random_dim(rng, depth - 1);
  switch (kind) {
    case 2: return x + y;
    case 3: return x - y;
    case 4: return x * y;
    case 5: return floordiv(x, y);
    case 6: return mod(x, y);
    case 7: return max(x, y);
    default: return min(x, y);
  }
}

TEST(SizeTable, GivesWhatTheExpressionsGive) {
  constexpr uint64_t kSeed = 20261122;
  Rng rng(kSeed);
  const int64_t sizes[] = {0, 1, 2, 3, 7, -5, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN + 1};
  int values = 0, errors = 0;
  for (int round = 0; round < 400; ++round) {
    SizeTable table({"b"});
    std::vector<Dim> dims;
    std::vector<int32_t> at;
    for (int k = 0; k < 6; ++k) {
      dims.push_back(random_dim(&rng, 4));
      at.push_back(table.add(dims.back()));
    }
    for (int turn = 0; turn < 8; ++turn) {
      DimBinding binding;
      for (const char* name : kNames)
        if (rng.below(8)) binding[name] = sizes[rng.below(10)];
      const std::vector<int64_t> bound = table.values_of(binding);
      for (size_t k = 0; k < dims.size(); ++k) {
        const auto want = dims[k].eval(binding), have = table.eval(at[k], bound);
        ASSERT_EQ(have.ok(), want.ok()) << dims[k].text() << " seed " << kSeed;
        if (want.ok())
          ASSERT_EQ(*have, *want) << dims[k].text() << " seed " << kSeed;
        else
          ASSERT_EQ(have.error().text(), want.error().text());
        ++(want.ok() ? values : errors);
        std::set<std::string> needed;
        dims[k].collect_symbols(needed);
        const bool all = std::all_of(needed.begin(), needed.end(), [&](const auto& n) { return binding.contains(n); });
        ASSERT_EQ(table.bound(at[k], bound), all) << dims[k].text();
      }
    }
  }
  EXPECT_GT(values, 5000);
  EXPECT_GT(errors, 500);
}

TEST(SizeTable, EqualExpressionsShareTheirCode) {
  SizeTable table({"n", "m"});
  const int32_t first = table.add(dim("2*n + m"));
  EXPECT_EQ(table.add(dim("m + n + n")), first);
  EXPECT_EQ(table.add(std::vector<Dim>{dim("n"), dim("2*n + m"), Dim(3)})[1], first);
  EXPECT_EQ(table.count(), 3u);
  EXPECT_EQ(table.find("m"), 1);
  EXPECT_EQ(table.find("k"), -1);
  EXPECT_EQ(table.add(dim("overflow")), 3);
  EXPECT_NE(table.add(Dim::poison()), 3) << "a dimension of that name is another thing";
}

TEST(SizeTable, EvaluatingAllocatesNothing) {
  SizeTable table({"a", "b"});
  std::vector<int32_t> at;
  for (const char* text : {"7", "a", "4*a*b + 12*a + 8", "floordiv(a + 15, 16)*max(b, a - 3)", "mod(a*a, min(b, 9))"})
    at.push_back(table.add(dim(text)));
  const std::vector<int64_t> values = table.values_of({{"a", 37}, {"b", 5}});
  const int64_t before = allocations;
  int64_t sum = 0;
  for (int turn = 0; turn < 100; ++turn)
    for (const int32_t k : at) sum += table.bound(k, values) ? table.eval(k, values).value() : 0;
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(sum, 100 * (7 + 37 + (4 * 37 * 5 + 12 * 37 + 8) + 3 * 34 + 1369 % 5));
  table.add(dim("a + 1"));
  EXPECT_GT(allocations, before) << "what counts does count";
}

TEST(SizeTable, TheDeepestExpressionFits) {
  Dim d = Dim::symbol("a");
  for (int depth = 0; depth < 40; ++depth) {
    const Dim next = max(floordiv(Dim::symbol("b") * d + Dim(depth), Dim(3)), mod(d, Dim(7)) - Dim::symbol("c"));
    if (next.is_poison()) break;
    d = next;
  }
  ASSERT_FALSE(d.is_poison());
  const DimBinding binding = {{"a", 3}, {"b", 2}, {"c", 1}};
  SizeTable table;
  const int32_t at = table.add(d);
  EXPECT_EQ(*table.eval(at, table.values_of(binding)), *d.eval(binding));
}

}  // namespace
}  // namespace peri
