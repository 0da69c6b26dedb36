// Every pass does what its examples say, keeps the meaning of the graphs it changes, and leaves text that parses back.
#include <gtest/gtest.h>

#include <set>

#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::passes {
namespace {

class EveryPass : public testing::TestWithParam<const Entry*> {};

TEST_P(EveryPass, DoesWhatItsExamplesSay) {
  const Pass& pass = GetParam()->pass;
  EXPECT_FALSE(pass.contract.empty());
  EXPECT_FALSE(pass.examples.empty()) << "a pass states at least one example";
  for (const Example& e : pass.examples) {
    SCOPED_TRACE(std::string(pass.name) + ": " + std::string(e.name));
    ir::Graph g = parse(e.before);
    const ir::Graph before = g.clone(), wanted = parse(e.after);
    auto report = run_pass(pass, g, e.precision);
    ASSERT_TRUE(report.ok()) << report.error().text();
    EXPECT_TRUE(ir::equal(g, wanted)) << "found\n" << ir::print(g) << "wanted\n" << ir::print(wanted);
    EXPECT_TRUE(report->rewrites > 0 || ir::equal(g, before)) << "what changed is neither inferred nor put in order";
    expect_parses_back(g);
    for (uint64_t seed : {1, 2}) expect_same_meaning(before, g, seed);
    // Nothing is left for a second run.
    auto again = run_pass(pass, g, e.precision);
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->rewrites, 0) << ir::print(g);
  }
}
INSTANTIATE_TEST_SUITE_P(Passes, EveryPass, testing::ValuesIn(entries().begin(), entries().end()),
                         [](const auto& info) { return std::string(info.param->pass.name); });

TEST(Order, NamesPassesAfterWhatTheyFollow) {
  std::set<std::string_view> seen, known;
  for (const Entry* e : entries()) known.insert(e->pass.name);
  for (std::string_view name : order()) {
    const Pass* pass = find(name);
    ASSERT_NE(pass, nullptr) << name;
    for (std::string_view before : pass->follows)
      EXPECT_TRUE(seen.contains(before)) << name << " must follow " << before;
    seen.insert(name);
  }
  EXPECT_EQ(seen, known) << "a pass of the folder stands nowhere in the order";
}

TEST(Pipeline, RefusesAnUnknownName) {
  ir::Graph g = parse("graph { input x: f32[2]; y = relu(x); output y }");
  auto r = run_pipeline(g, {.disabled = {"fuse_everything"}, .dump_dir = ""});
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().text().find("fuse_attention"), std::string::npos) << "lists the known ones";
}

}  // namespace
}  // namespace peri::passes
