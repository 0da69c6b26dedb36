// Windows have the values of their definitions, periodic and symmetric, in every type; a size that is none is refused.
#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

RefTensor window(const char* op, const char* size, const char* attrs = "") {
  return run_text(text_of("graph { const n: i64[] = [%s]; y = %s(n)%s; output y }", size, op, attrs), {})[0];
}
void expect_near(const RefTensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.f.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got.f[k], want[k], 1e-12) << k;
}

TEST(WindowFunction, ValuesOfTheDefinitions) {
  expect_near(window("hann_window", "4"), {0, 0.5, 1, 0.5});
  expect_near(window("hann_window", "5", " {periodic=0}"), {0, 0.5, 1, 0.5, 0});
  expect_near(window("hamming_window", "4"), {4.0 / 46, 25.0 / 46, 1, 25.0 / 46});
  expect_near(window("blackman_window", "5", " {periodic=0}"), {0, 0.34, 1, 0.34, 0});
  expect_near(window("hann_window", "1"), {0});
  EXPECT_TRUE(window("hann_window", "0").f.empty());
  EXPECT_TRUE(std::isnan(window("hann_window", "1", " {periodic=0}").f[0])) << "0 / 0, as the definition says";
}

TEST(WindowFunction, IntegersAreCutOff) {
  const RefTensor y = window("hann_window", "4", " {output_datatype=13}");
  EXPECT_EQ(y.dtype, DType::kI32);
  EXPECT_EQ(y.i, (std::vector<int64_t>{0, 0, 1, 0}));
}

TEST(WindowFunction, ASizeThatIsNoneIsRefused) {
  for (const char* text : {"graph { const n: i64[] = [-1]; y = hann_window(n); output y }",
                           "graph { const n: i64[2] = [3, 4]; y = hann_window(n); output y }",
                           "graph { const n: i64[] = [3]; y = hann_window(n) {output_datatype=24}; output y }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok()) << g.error().text();
    EXPECT_FALSE(infer_graph(*g).ok()) << text;
  }
}

}  // namespace
}  // namespace peri::ops
