// Evidence: every fact comes back from its one form, and a time that the machine cannot reach is none.
#include <algorithm>

#include "tune/evidence.hpp"

#include <gtest/gtest.h>

#include "ops/entry.hpp"
#include "tune/judge.hpp"
#include "tune/work.hpp"

namespace peri::tune {
namespace {

Evidence full() {
  Evidence e;
  e.time_ms = 0.1;
  e.statistic = kTimeStatistic;
  e.samples = 9;
  e.visits = 3;
  e.clock_mhz = 1980;
  e.spread = 0.25;
  e.workspace_bytes = 64;
  e.floor_ms = 0.05;
  e.untimed = "why";
  e.max_error = 0.5;
  e.rejected = "wrong";
  e.compared_with = "k@1 {}";
  e.runs = 1;
  e.shared_runs = 2;
  e.positions = 3;
  e.since = 7;
  e.shapes = 4;
  e.skipped = 5;
  return e;
}

TEST(Evidence, EveryFactComesBack) {
  const auto read = read_evidence(evidence_text(full()));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_TRUE(*read == full());
  const std::string text = evidence_text(full());
  const Json object = *parse_json(text);
  int64_t facts = 0;
#define PERI_FACT(type, name, unknown, may)                    \
  EXPECT_NE(object.find(#name), nullptr) << "full() has none"; \
  ++facts;
#include "tune/evidence.def"
#undef PERI_FACT
  EXPECT_EQ(std::count(text.begin(), text.end(), ':'), facts) << text;
  EXPECT_EQ(evidence_text(Evidence()), "{}");
  EXPECT_TRUE(*read_evidence("{}") == Evidence());
  EXPECT_EQ(read_evidence("{}")->workspace_bytes, -1) << "what an older build did not tell is not known";
  Evidence none;
  none.workspace_bytes = 0;
  EXPECT_TRUE(*read_evidence(evidence_text(none)) == none) << "none is a fact";
}

TEST(Evidence, WhatCannotBeIsRefused) {
  for (const char* text :
       {"[]", "{\"time_ms\":1}", "{\"statistic\":\"p20\"}", "{\"max_error\":2}", "{\"runs\":-1}",
        "{\"workspace_bytes\":-2}", "{\"spread\":-2}", "{\"clock_mhz\":-1}", "{\"since\":-1}", "{\"max_error\":-2}",
        "{\"floor_ms\":-2}", "{\"visits\":-1}", "{\"time_ms\":\"NaN\",\"statistic\":\"p20\"}", "{\"rejected\":1}"})
    EXPECT_FALSE(read_evidence(text).ok()) << text;
}

bench::Ceilings one_gigahertz() {
  bench::Ceilings c;
  c.clock_ghz = 1;
  c.flops_per_cycle = 10;
  c.narrow_flops_per_cycle = 100;
  c.levels = {{{100, 0}, {50, 1000}, {10, 100000}}};
  return c;
}

TEST(Floor, IsWhatNoClockGoesBelow) {
  const bench::Ceilings c = one_gigahertz();
  EXPECT_DOUBLE_EQ(c.floor_ms({1e7, false, 0}), 1);
  EXPECT_DOUBLE_EQ(c.floor_ms({1e7, true, 0}), 0.1);
  EXPECT_DOUBLE_EQ(c.floor_ms({0, false, 1000}), 1e-5) << "all of it in the first cache";
  EXPECT_DOUBLE_EQ(c.floor_ms({0, false, 1.1e6}), 0.1) << "a million bytes come from afar";
  EXPECT_EQ(c.floor_ms({}), 0);
  EXPECT_GT(bench::machine_ceilings(1).clock_ghz, 0.5);
}

TEST(Floor, ATimeBelowItIsNoTime) {
  Evidence e = full();
  e.untimed.clear();
  EXPECT_TRUE(believe_time(0.1, one_gigahertz(), &e));
  EXPECT_EQ(e.time_ms, 0.1);
  EXPECT_FALSE(believe_time(0.11, one_gigahertz(), &e));
  EXPECT_FALSE(e.timed());
  EXPECT_NE(e.untimed.find("0.1 ms were measured"), std::string::npos) << e.untimed;
  EXPECT_NE(e.untimed.find("0.11 ms at 1.00 GHz"), std::string::npos) << e.untimed;
  EXPECT_TRUE(check_evidence(e).ok());
}

ir::Graph graph(const char* text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(g).value();
}

TEST(Work, OnlyWhatCannotBeLeftOutMakesAFloor) {
  const auto product =
      work_of(graph("graph { input x: f32[8,4]; input w: f32[4,2]; m = matmul(x, w); y = relu(m); output y }"), 0);
  EXPECT_DOUBLE_EQ(product.least.flops, 2 * 8 * 4 * 2);
  EXPECT_DOUBLE_EQ(product.bytes, 4 * (32 + 8 + 16)) << "the product itself stays inside";
  EXPECT_FALSE(product.least.narrow);
  const auto bytes = work_of(
      graph(
          "graph { input x: u8[1,2,5,5]; const s: f32[] = [0.01]; const z: u8[] = [120]; input w: i8[3,2,1,1]; const "
          "t: f32[] = [0.1]; const v: i8[] = [0]; const q: f32[] = [0.25]; const o: u8[] = [100]; y = qlinear_conv(x, "
          "s, z, w, t, v, q, o); output y }"),
      0);
  EXPECT_EQ(bytes.flops, 2 * 3 * 25 * 2);
  EXPECT_EQ(bytes.byte_flops, bytes.flops);
  EXPECT_EQ(bytes.least.flops, bytes.flops);
  EXPECT_TRUE(bytes.least.narrow);
  const auto wide = work_of(graph("graph { input x: i32[8,4]; input w: i32[4,2]; y = matmul(x, w); output y }"), 0);
  EXPECT_EQ(wide.flops, 2 * 8 * 4 * 2);
  EXPECT_EQ(wide.byte_flops, 0);
  const auto cheaper = work_of(graph("graph { input x: f32[8,4]; input w: f32[4,2]; y = matmul(x, w); output y }"), 50);
  EXPECT_DOUBLE_EQ(cheaper.least.flops, 50) << "of the algorithm that was chosen";
  const auto picked =
      work_of(graph("graph { input x: f32[1000,4]; input i: i64[2]; y = gather(x, i) {axis = 0}; output y }"), 0);
  EXPECT_DOUBLE_EQ(picked.bytes, 4 * 8) << "most of the table is never read";
  EXPECT_EQ(picked.least.flops, 0);
  const auto many =
      work_of(graph("graph { input x: f32[6,4]; input i: i64[1000]; y = gather(x, i) {axis = 0}; output y }"), 0);
  EXPECT_DOUBLE_EQ(many.bytes, 4 * 4000) << "the indices may name one row";
}

}  // namespace
}  // namespace peri::tune
