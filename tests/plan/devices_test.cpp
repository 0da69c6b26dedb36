// What a program says of devices: each lie is refused, segments are maximal, blobs stand once, memory is shared over
// lanes only in the order of steps.
#include <gtest/gtest.h>

#include "base/hash.hpp"
#include "plan/engine_file.hpp"
#include "plan/places.hpp"
#include "plan/sizes.hpp"
#include "tests/plan/programs.hpp"

namespace peri::plan {
namespace {

using tests::ProgramMaker;

// x to the device; a and b from it in two lanes; c of both; c to the host; host step d after it.
enum Steps { kIn, kA, kB, kC, kOut, kD };
enum Buffers { kX, kXd, kAd, kBd, kCd, kY, kZ };
ProgramMaker two_lanes() {
  ProgramMaker m;
  m.p.dims = {"n"};
  m.p.devices = {"host", "null"};
  m.input("x", DType::kF32, "[n]");
  for (const char* name : {"xd", "ad", "bd", "cd"}) m.scratch(name, DType::kF32, "[n]"), m.p.buffers.back().device = 1;
  m.scratch("y", DType::kF32, "[n]");
  m.buffer("z", BufferKind::kOutput, DType::kF32, "[n]");
  const auto away = [&](const char* executor, std::vector<int32_t> reads, int32_t write, uint32_t lane,
                        std::vector<int32_t> waits) {
    Step& s = m.step(executor, std::move(reads), {write});
    s.device = 1;
    s.lane = lane;
    s.waits_for = std::move(waits);
  };
  away("copy", {kX}, kXd, 0, {});
  away("op", {kXd}, kAd, 0, {});
  away("op", {kXd}, kBd, 1, {kIn});
  away("op", {kAd, kBd}, kCd, 0, {kB});
  away("copy", {kCd}, kY, 0, {});
  m.step("op", {kY}, {kZ}).waits_for = {kOut};
  m.output("z", kZ);
  return m;
}

struct Lie {
  const char* says;
  void (*tell)(Program& p);
};
const Lie kLies[] = {
    {"not the host", [](Program& p) { p.devices[0] = "null"; }},
    {"not the host", [](Program& p) { p.devices.clear(); }},
    {"stands twice", [](Program& p) { p.devices = {"host", "null", "null"}; }},
    {"stands twice", [](Program& p) { p.devices[1] = "host"; }},
    {"bad name", [](Program& p) { p.devices[1] = ""; }},
    {"bad name", [](Program& p) { p.devices[1] = "n\nl"; }},
    {"devices",
     [](Program& p) {
       for (int k = 0; k < 20; ++k) p.devices.push_back("d" + std::to_string(k));
     }},
    {"device 2 of 2", [](Program& p) { p.buffers[kAd].device = 2; }},
    {"device 7 of 2", [](Program& p) { p.steps[kA].device = 7; }},
    {"touches buffer",
     [](Program& p) {
       p.steps[kA].device = 0;
       p.steps[kA].lane = 0;
     }},
    {"touches buffer", [](Program& p) { p.steps[kA].reads = {kX}; }},
    {"touches buffer", [](Program& p) { p.steps[kD].reads = {kCd}; }},
    {"touches buffer", [](Program& p) { p.steps[kIn].executor = "op"; }},
    {"touches buffer", [](Program& p) { p.steps[kIn].device = 0; }},
    {"touches buffer", [](Program& p) { p.steps[kIn].reads.push_back(kX); }},
    {"a step of the host has lane", [](Program& p) { p.steps[kD].lane = 1; }},
    {"binds dimensions or has bodies", [](Program& p) { p.dims.push_back("m"), p.steps[kA].binds = {"m"}; }},
    {"binds dimensions or has bodies", [](Program& p) { p.steps[kA].bodies.push_back(std::make_shared<Program>()); }},
    {"the host alone in a body",
     [](Program& p) {
       p.steps[kD].bodies.push_back(std::make_shared<Program>());
       const_cast<Program&>(*p.steps[kD].bodies[0]).devices = {"host", "null"};
     }},
    {"strings lie on device",
     [](Program& p) {
       p.buffers[kAd].dtype = DType::kString;
       p.buffers[kAd].bytes = Dim::symbol("n") * Dim(0);
     }},
    {"what it aliases on device",
     [](Program& p) {
       p.buffers[kY].alias_of = kX;
       p.buffers[kXd].alias_of = kX;
     }},
    {"does not wait for step 0", [](Program& p) { p.steps[kB].waits_for.clear(); }},
    {"does not wait for step 2", [](Program& p) { p.steps[kC].waits_for.clear(); }},
    {"does not wait for step 4", [](Program& p) { p.steps[kD].waits_for.clear(); }},
    {"waits for step", [](Program& p) { p.steps[kB].waits_for = {kC}; }},
    {"more than 16 lanes",
     [](Program& p) {
       for (uint32_t k = 0; k < 20; ++k) {
         p.steps.push_back(p.steps[kA]);
         p.steps.back().lane = 100 + k;
       }
     }},
    {"depends on dimension 'm'", [](Program& p) { p.steps[kA].depends_on = {"m"}; }},
    {"depends on dimension 'n'", [](Program& p) { p.steps[kA].depends_on = {"n", "n"}; }},
    {"needs blob", [](Program& p) { p.steps[kA].variants[0].blobs = {0}; }},
    {"needs blob", [](Program& p) { p.steps[kA].variants[0].blobs = {-1}; }},
    {"hash does not fit",
     [](Program& p) {
       p.add_blob("abc");
       p.blobs[0].bytes = "abd";
     }},
    {"stands twice",
     [](Program& p) {
       p.add_blob("abc");
       p.blobs.push_back(p.blobs[0]);
     }},
};

TEST(Devices, EachLieIsRefused) {
  const Status honest = check_program(two_lanes().p, 0);
  ASSERT_TRUE(honest.ok()) << honest.error().text();
  for (size_t k = 0; k < std::size(kLies); ++k) {
    SCOPED_TRACE("lie " + std::to_string(k) + ": " + kLies[k].says);
    Program p = two_lanes().p;
    kLies[k].tell(p);
    const Status checked = check_program(p, 0);
    ASSERT_FALSE(checked.ok());
    EXPECT_NE(checked.error().text().find(kLies[k].says), std::string::npos) << checked.error().text();
    const std::string bytes = encode_program(p);  // and what is written is what was meant
    auto back = decode_program(std::as_bytes(std::span(bytes)));
    if (back.ok()) EXPECT_FALSE(check_program(*back, 0).ok());
  }
}

TEST(Devices, SegmentsEndWhereTheHostOrAnotherDeviceStands) {
  Program p = two_lanes().p;
  auto found = segments(p);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].begin, 0u);
  EXPECT_EQ(found[0].end, static_cast<size_t>(kD));
  p.steps[kB].device = 0;
  EXPECT_EQ(segments(p).size(), 2u);
  p.steps[kB].device = 2;
  found = segments(p);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].device, 2u);
  EXPECT_EQ(found[2].end, static_cast<size_t>(kD));
  EXPECT_TRUE(segments(tests::small_program().p).empty());
}

TEST(Devices, StepsOfTwoLanesAreNotOrderedUnlessOneWaits) {
  const StepOrder order(two_lanes().p);
  EXPECT_TRUE(order.before(kIn, kB));
  EXPECT_FALSE(order.before(kA, kB));
  EXPECT_FALSE(order.before(kB, kA));
  EXPECT_TRUE(order.before(kA, kC));
  EXPECT_TRUE(order.before(kB, kD)) << "over what the copy waits for";
  EXPECT_FALSE(order.before(kD, kA));
}

TEST(Devices, LanesShareMemoryOnlyWhenTheFirstIsDone) {
  Program p = two_lanes().p;
  const auto offsets = [&] {
    auto plan = plan_arena(p, {{"n", 100}});
    EXPECT_TRUE(plan.ok()) << plan.error().text();
    EXPECT_EQ(plan->device_bytes.size(), 2u);
    return *plan;
  };
  const ArenaPlan plan = offsets();
  const auto apart = [](const ArenaPlan& x, size_t a, size_t b) {
    return x.offset[a] + x.bytes[a] <= x.offset[b] || x.offset[b] + x.bytes[b] <= x.offset[a];
  };
  EXPECT_TRUE(apart(plan, kAd, kBd));
  EXPECT_TRUE(apart(plan, kXd, kAd));
  EXPECT_FALSE(apart(plan, kXd, kCd)) << "c may lie where x was: both readers of x are done";
  EXPECT_LT(plan.device_bytes[1], 4 * 448);
  ArenaPlan bad = plan;
  bad.offset[kBd] = bad.offset[kAd];
  EXPECT_FALSE(check_arena(p, bad).ok());
  bad = plan;
  bad.offset[kCd] = bad.device_bytes[1];
  EXPECT_FALSE(check_arena(p, bad).ok());
  // In one lane a reader that comes later is the last; in two it may be the other.
  Program late = p;
  late.steps[kC].reads = {kAd};
  late.steps[kC].waits_for = {};
  ASSERT_TRUE(check_program(late, 0).ok()) << check_program(late, 0).error().text();
  const auto longer = plan_arena(late, {{"n", 100}});
  ASSERT_TRUE(longer.ok());
  EXPECT_TRUE(apart(*longer, kXd, kCd)) << "b, of the other lane, may still read x";
  EXPECT_FALSE(check_arena(late, plan).ok());
}

TEST(Devices, ABlobStandsOnceAndSurvives) {
  Program p = two_lanes().p;
  p.steps[kA].variants[0].blobs = {p.add_blob("one"), p.add_blob("two")};
  p.steps[kB].variants[0].blobs = {p.add_blob("one")};
  p.steps[kA].depends_on = {"n"};
  ASSERT_EQ(p.blobs.size(), 2u);
  ASSERT_TRUE(check_program(p, 0).ok()) << check_program(p, 0).error().text();
  const std::string bytes = encode_program(p);
  const auto back = decode_program(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(encode_program(*back), bytes);
  EXPECT_EQ(back->devices, p.devices);
  EXPECT_EQ(back->blobs[1].bytes, "two");
  EXPECT_EQ(back->steps[kB].variants[0].blobs, std::vector<int32_t>{0});
  EXPECT_EQ(back->steps[kB].device, 1u);
  EXPECT_EQ(back->steps[kB].lane, 1u);
  EXPECT_EQ(back->steps[kA].depends_on, std::vector<std::string>{"n"});
}

}  // namespace
}  // namespace peri::plan
