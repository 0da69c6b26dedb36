// What dimension expressions prove about themselves: bounds for symbols >= 1, and the simplifications that rest on
// them.
#include "base/dim.hpp"

#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "base/size_table.hpp"

namespace peri {
namespace {

Dim dim(std::string_view text) {
  auto d = Dim::parse(text);
  EXPECT_TRUE(d.ok()) << text;
  return d.ok() ? *d : Dim::poison();
}

TEST(Dim, OfASymbolThatMayBe0NothingIsConcludedFromAtLeast1) {
  const Dim n = Dim::symbol_from_zero("n"), m = Dim::symbol("m"), odd = Dim::symbol_from_zero("a b");
  EXPECT_TRUE(provably_at_least(n, 0) && provably_at_least(n + m, 1));
  EXPECT_FALSE(provably_at_least(n, 1) || provably_at_least(n * m, 1));
  EXPECT_EQ(max(m, Dim(1)), m);
  EXPECT_FALSE(max(n, Dim(1)) == n);
  EXPECT_EQ(n.symbol_name(), "n");
  EXPECT_FALSE(n == Dim::symbol("n"));
  for (const Dim& d : {n, odd, n * m + Dim(2), max(odd, n - Dim(1)), floordiv(n + Dim(1), Dim(2))}) {
    EXPECT_EQ(dim(d.text()), d) << d.text();
    EXPECT_EQ(d.substitute(DimBinding{}), d) << d.text();
    EXPECT_FALSE(provably_at_least(d.substitute(DimBinding{{"m", 1}}), 3)) << d.text();
  }
  EXPECT_EQ((n * m + Dim(2)).text(), "m*n? + 2");
  EXPECT_EQ((n + Dim(3)).eval({{"n", 0}}).value(), 3);
  SizeTable table;
  const int32_t sum = table.add(n + m);
  EXPECT_EQ(table.eval(sum, table.values_of({{"n", 0}, {"m", 4}})).value(), 4);
  EXPECT_FALSE(Dim::parse("?").ok());
}

TEST(Dim, SumsOfManySymbolsAreSizes) {
  Dim sum(0);
  for (int k = 0; k < 300; ++k) sum = sum + Dim::symbol("kept" + std::to_string(k));
  ASSERT_FALSE(sum.is_poison());
  EXPECT_FALSE((sum * Dim(4)).is_poison());
  EXPECT_FALSE((sum * Dim::symbol("n")).is_poison());
  EXPECT_EQ(Dim::parse((sum * Dim(4)).text())->text(), (sum * Dim(4)).text());
}

TEST(Dim, ProductsOfManySymbolsAreSizes) {
  Dim sum(0), other(1);
  DimBinding at = {{"n", 5}};
  int64_t value = 0, others = 1;
  for (int k = 0; k < 90; ++k) {
    const std::string a = "kept" + std::to_string(k), b = "found" + std::to_string(k);
    sum = sum + Dim::symbol(a);
    other = other + Dim(2) * Dim::symbol(b);
    value += at[a] = k % 7 + 1;
    others += 2 * (at[b] = k % 5 + 1);
  }
  const Dim n = Dim::symbol("n");
  for (const auto& [d, wanted] :
       std::vector<std::pair<Dim, int64_t>>{{sum * sum, value * value},
                                            {sum * other, value * others},
                                            {n * sum * other * Dim(12), 60 * value * others},
                                            {Dim(12) * (sum * (n * other)), 60 * value * others},
                                            {sum * sum - sum * sum, 0},
                                            {sum * sum + other, value * value + others}}) {
    ASSERT_FALSE(d.is_poison());
    EXPECT_EQ(d.eval(at).value(), wanted);
    EXPECT_EQ(d.substitute(at), Dim(wanted));
    EXPECT_EQ(dim(d.text()).text(), d.text());
    SizeTable table;
    const int32_t index = table.add(d);
    EXPECT_EQ(table.eval(index, table.values_of(at)).value(), wanted) << d.text().substr(0, 99);
  }
  EXPECT_EQ(n * sum * other, sum * (other * n));
  EXPECT_EQ(floordiv(sum * other, sum), other) << "what a Reshape to -1 is left with";
  EXPECT_EQ(floordiv(Dim(3) * n * sum * other, Dim(3) * n), floordiv(n * sum * other, n));
  EXPECT_TRUE(provably_at_least(sum * other, 90));
  EXPECT_EQ((sum * sum).substitute(DimBinding{{"kept0", 4}}).eval(at).value(), (value + 3) * (value + 3));
}

TEST(Dim, SumsOfManyLongNamesAreSizes) {
  Dim sum(0);
  DimBinding at;
  for (int k = 0; k < 400; ++k) {
    const std::string name = "boxes_that_were_kept_of_class_" + std::to_string(k);
    sum = sum + Dim::symbol(name);
    at[name] = 2;
  }
  ASSERT_FALSE(sum.is_poison());
  EXPECT_EQ(sum.eval(at).value(), 800);
  EXPECT_EQ((sum * sum).eval(at).value(), 640000);
}

TEST(Dim, ProductsOfSumsOfProductsEnd) {
  Dim sum(0);
  for (int k = 0; k < 40; ++k) sum = sum + Dim::symbol("kept" + std::to_string(k));
  Dim grown = sum;
  int levels = 0;
  for (; levels < 64 && !grown.is_poison(); ++levels) {
    EXPECT_LE(grown.text().size(), size_t{1} << 16);
    grown = (grown + sum) * (grown + Dim(2) * sum);
  }
  EXPECT_TRUE(grown.is_poison());
  EXPECT_GT(levels, 2);
}

TEST(Dim, BoundsAreProven) {
  for (const auto& [text, low] : std::vector<std::pair<std::string_view, int64_t>>{{"s", 1},
                                                                                   {"2*s*t + 3", 5},
                                                                                   {"min(512, s)", 1},
                                                                                   {"max(s, t - 100)", 1},
                                                                                   {"floordiv(s + 7, 4)", 2},
                                                                                   {"mod(s, 4)", 0},
                                                                                   {"512 - min(512, s)", 0},
                                                                                   {"8 - mod(s, 4)", 5},
                                                                                   {"s - floordiv(s, 2)", 1},
                                                                                   {"3*s - 2*floordiv(s, 3)", 3},
                                                                                   {"s - floordiv(s + 1, 2)", 0},
                                                                                   {"-7", -7}}) {
    EXPECT_TRUE(provably_at_least(dim(text), low)) << text;
    EXPECT_FALSE(provably_at_least(dim(text), low + 1)) << text;
  }
  EXPECT_FALSE(provably_at_least(dim("s - t"), 0));
  EXPECT_FALSE(provably_at_least(dim("-1*s"), -5));
  EXPECT_FALSE(provably_at_least(dim("mod(s, t)"), 0));
  EXPECT_FALSE(provably_at_least(dim("s - floordiv(t, 2)"), -5));
  EXPECT_FALSE(provably_at_least(Dim::poison(), 0));
}

TEST(Dim, ExtremesSimplify) {
  EXPECT_EQ(max(Dim(0), dim("min(512, s)")).text(), "min(512, s)");
  EXPECT_EQ(min(dim("s"), Dim(1)).text(), "1");
  EXPECT_EQ(max(dim("min(512, s)"), dim("s")).text(), "s");
  EXPECT_EQ(min(dim("s"), dim("max(2, s)")).text(), "s");
  EXPECT_EQ(max(dim("min(512, s)"), dim("t")).text(), "max(min(512, s), t)");
  EXPECT_EQ(max(dim("floordiv(s, 2)"), Dim(0)).text(), "floordiv(s, 2)");
}

// A long chain of broadcasts of the same names keeps one short expression.
TEST(Dim, ExtremesHaveOneFormInAnyOrder) {
  Dim chain = dim("a");
  for (int k = 0; k < 100; ++k) chain = max(chain, dim(k % 3 == 0 ? "b" : k % 3 == 1 ? "c" : "a"));
  EXPECT_EQ(chain.text(), "max(max(a, b), c)");
  EXPECT_EQ(chain, max(dim("c"), max(dim("b"), dim("a"))));
  EXPECT_EQ(chain, dim(chain.text()));
  EXPECT_EQ(max(dim("max(a, b)"), dim("a + b")).text(), max(dim("b"), dim("a + b")).text());
  EXPECT_EQ(min(min(dim("a"), dim("b")), min(dim("b"), dim("a"))).text(), "min(a, b)");
}

// A proven bound holds for random assignments of random expressions.
TEST(Dim, ProofsHoldWhenEvaluated) {
  Rng rng(5);
  const std::vector<Dim> symbols = {Dim::symbol("a"), Dim::symbol("b")};
  for (int round = 0; round < 2000; ++round) {
    Dim d = symbols[static_cast<size_t>(rng.below(2))];
    for (int step = 0; step < 4; ++step) {
      const Dim other = rng.below(2) ? symbols[static_cast<size_t>(rng.below(2))] : Dim(rng.below(9) - 4);
      switch (rng.below(7)) {
        case 0: d = d + other; break;
        case 1: d = d - other; break;
        case 2: d = d * other; break;
        case 3: d = floordiv(d, Dim(1 + rng.below(5))); break;
        case 4: d = mod(d, Dim(1 + rng.below(5))); break;
        case 5: d = min(d, other); break;
        default: d = max(d, other); break;
      }
    }
    for (int k = 0; k < 5; ++k) {
      auto v = d.eval({{"a", 1 + rng.below(7)}, {"b", 1 + rng.below(7)}});
      if (!v.ok()) continue;
      EXPECT_FALSE(provably_at_least(d, *v + 1)) << d.text() << " can be " << *v;
    }
  }
}

TEST(Dim, ADivisionBy0NamesTheDimensionsAndTheRemedy) {
  const Dim n = Dim::symbol_from_zero("n"), m = Dim::symbol_from_zero("m");
  const auto said = [](const Dim& d, const DimBinding& at) { return d.eval(at).error().text(); };
  const std::string one = "expected dimension 'n' at least 1, found 'n' is 0; give dimension 'n' a size of at least 1";
  EXPECT_EQ(said(floordiv(Dim(96), n), {{"n", 0}}), "size 'floordiv(96, n?)' divides by 0: " + one);
  EXPECT_EQ(said(Dim(2) + mod(m, floordiv(m, n)), {{"m", 3}, {"n", 0}}),
            "size 'floordiv(m?, n?)' divides by 0: " + one);
  EXPECT_EQ(said(floordiv(Dim(96), m - n), {{"m", 3}, {"n", 3}}),
            "size 'floordiv(96, m? - n?)' divides by 0: expected sizes at which 'm? - n?' is not 0, found 'm' is 3 and "
            "'n' is 3");
}

TEST(CheckedNumel, TheOtherSizesOfAnEmptyTensorFitToo) {
  const auto numel = [](std::vector<int64_t> dims) { return checked_numel(dims); };
  EXPECT_EQ(numel({3, 4}).value(), 12);
  EXPECT_EQ(numel({}).value(), 1);
  EXPECT_EQ(numel({0, 5}).value(), 0);
  EXPECT_FALSE(numel({0, 5, INT64_MAX}).ok());
  EXPECT_FALSE(numel({INT64_MAX, 0, 2}).ok());
  EXPECT_FALSE(numel({-1, 0}).ok());
}

}  // namespace
}  // namespace peri
