// Control and bind-shape steps on small programs: sizes known only while running, branches, loops, loops in branches,
// and what they refuse.
#include <gtest/gtest.h>

#include "exec/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using plan::BufferKind;
using tests::ProgramMaker;

Result<std::shared_ptr<const Engine>> engine_of(const plan::Program& p, WeightSource weights = {}) {
  static const std::vector<const Executor*> table = exec::table();
  return Engine::create(p, std::move(weights), {table, {{"avx2"}, {}}, 2});
}
Tensor f32(std::vector<int64_t> dims, std::vector<float> v) { return Tensor::of_f32(std::move(dims), v); }
Tensor i64(std::vector<int64_t> dims, std::vector<int64_t> v) { return Tensor::of_i64(std::move(dims), v); }
Tensor boolean(bool v) {
  Tensor t = Tensor::zeros(DType::kBool, {}).value();
  t.set_i64(0, v);
  return t;
}
std::vector<double> values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.numel(); ++i) out.push_back(t.f64(i));
  return out;
}
Result<std::vector<Tensor>> run(const plan::Program& p, const std::vector<Tensor>& inputs) {
  PERI_ASSIGN(auto engine, engine_of(p));
  PERI_ASSIGN(auto session, Session::create(engine));
  return session->run(inputs);
}

// x[k] -> positions of what is not zero [1,n] -> the values there.
ProgramMaker picking() {
  ProgramMaker m;
  m.p.dims = {"k", "n"};
  const int32_t x = m.input("x", DType::kF32, "[k]");
  const int32_t at = m.scratch("at", DType::kI64, "[1,n]");
  const int32_t y = m.scratch("y", DType::kF32, "[1,n]");
  const int32_t flat = m.scratch("flat", DType::kF32, "[n]");
  m.p.buffers.back().alias_of = y;
  m.reference({x}, {at}, "graph { input x: f32[k]; y = non_zero(x); output y }").binds = {"n"};
  m.reference({x, at}, {y}, "graph { input x: f32[k]; input at: i64[1,n]; y = gather(x, at); output y }");
  m.output("picked", flat);
  m.output("at", at);
  return m;
}

TEST(BindShape, LaterStepsUseTheBoundSize) {
  auto engine = engine_of(picking().p);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine);
  ASSERT_TRUE(session.ok());
  for (const std::vector<float>& x :
       {std::vector<float>{0, 3, 0, 5}, {1, 2, 3, 4}, {0, 0, 0, 0}, {0, 0, 7, 0}, {1, 0}}) {
    auto out = (*session)->run(std::vector<Tensor>{f32({static_cast<int64_t>(x.size())}, x)});
    ASSERT_TRUE(out.ok()) << out.error().text();
    std::vector<double> want;
    for (float v : x)
      if (v != 0) want.push_back(v);
    EXPECT_EQ(values((*out)[0]), want);
    EXPECT_EQ((*out)[1].dims(), (std::vector<int64_t>{1, static_cast<int64_t>(want.size())}));
  }
}

// cond, x[k] -> cond ? x + x : 0 - x
ProgramMaker branching() {
  ProgramMaker m;
  m.p.dims = {"k"};
  const int32_t cond = m.input("cond", DType::kBool, "[]");
  const int32_t x = m.input("x", DType::kF32, "[k]");
  const int32_t y = m.buffer("y", BufferKind::kOutput, DType::kF32, "[k]");
  plan::Step& s = m.step("if", {cond, x}, {y});
  for (const char* op : {"y = add(x, x)", "y = neg(x)"}) {
    ProgramMaker body;
    body.p.dims = {"d"};
    const int32_t in = body.input("x", DType::kF32, "[d]");
    const int32_t out = body.buffer("y", BufferKind::kOutput, DType::kF32, "[d]");
    body.reference({in}, {out}, std::string("graph { input x: f32[d]; ") + op + "; output y }");
    body.output("y", out);
    s.bodies.push_back(std::make_shared<plan::Program>(body.p));
  }
  m.output("y", y);
  return m;
}

TEST(If, TakesTheBranchOfItsCondition) {
  for (const std::vector<float>& x : {std::vector<float>{1, 2}, {3}}) {
    const Tensor t = f32({static_cast<int64_t>(x.size())}, x);
    auto yes = run(branching().p, {boolean(true), t});
    auto no = run(branching().p, {boolean(false), t});
    ASSERT_TRUE(yes.ok()) << yes.error().text();
    ASSERT_TRUE(no.ok()) << no.error().text();
    EXPECT_EQ((*yes)[0].f64(0), 2 * x[0]);
    EXPECT_EQ((*no)[0].f64(0), -x[0]);
  }
}

// Also of a branch that is never taken: no request should find out.
TEST(If, OfAKernelThatIsNotThereIsNoEngine) {
  ProgramMaker m = branching();
  auto body = std::make_shared<plan::Program>(*m.p.steps[0].bodies[1]);
  body->steps[0].executor = "cpu";
  body->steps[0].variants[0].payload = "kernel nobody@1 {}\ngraph { input x: f32[d]; y: f32[d] = neg(x); output y }";
  m.p.steps[0].bodies[1] = body;
  const auto engine = engine_of(m.p);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().text().find("kernel 'nobody' is not in this binary"), std::string::npos)
      << engine.error().text();
}

TEST(If, RefusesBodiesThatDoNotFit) {
  auto broken = [](const std::function<void(plan::Program&)>& change) {
    ProgramMaker m = branching();
    change(m.p);
    auto out = run(m.p, {boolean(true), f32({2}, {1, 2})});
    EXPECT_FALSE(out.ok());
    return out.ok() ? std::string() : out.error().text();
  };
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].bodies.pop_back(); }).find("two bodies"), std::string::npos);
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].reads = {1, 0}; }).find("one element"), std::string::npos);
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].reads = {0, 0}; }).find("another type"), std::string::npos);
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].reads = {0}; }).find("inputs"), std::string::npos);
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].reads = {0, -1}; }).find("left out"), std::string::npos);
  EXPECT_NE(broken([](plan::Program& p) { p.steps[0].bodies[0]->steps[0].executor = "nowhere"; }).find("'nowhere'"),
            std::string::npos);
}

// trips, go, total[1], step[1] -> total after, all totals stacked [t,1]; stops when total reaches 10.
ProgramMaker counting() {
  ProgramMaker m;
  m.p.dims = {"t"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), go = m.input("go", DType::kBool, "[]");
  const int32_t total = m.input("total", DType::kF32, "[1]"), step = m.input("step", DType::kF32, "[1]");
  const int32_t last = m.scratch("last", DType::kF32, "[1]"), all = m.scratch("all", DType::kF32, "[t,1]");
  ProgramMaker body;
  const int32_t i = body.input("i", DType::kI64, "[]"), c = body.input("c", DType::kBool, "[]");
  (void)i;
  (void)c;
  const int32_t v = body.input("v", DType::kF32, "[1]"), s = body.input("s", DType::kF32, "[1]");
  const int32_t sum = body.scratch("sum", DType::kF32, "[1]");
  const int32_t flag = body.scratch("flag", DType::kBool, "[1]"), more = body.scratch("more", DType::kBool, "[]");
  body.p.buffers.back().alias_of = flag;
  body.reference({v, s}, {sum}, "graph { input v: f32[1]; input s: f32[1]; y = add(v, s); output y }");
  body.reference({sum}, {flag}, "graph { input v: f32[1]; const ten: f32[1] = [10.0]; y = less(v, ten); output y }");
  body.output("more", more);
  body.output("v", sum);
  body.output("scan", sum);
  plan::Step& loop = m.step("loop", {trips, go, total, step}, {last, all}, "carried=1");
  loop.binds = {"t"};
  loop.bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("last", last);
  m.output("all", all);
  return m;
}

TEST(Loop, StopsByTripCountOrCondition) {
  const plan::Program p = counting().p;
  auto go = [&](int64_t trips, bool first, float step) {
    return run(p, {i64({}, {trips}), boolean(first), f32({1}, {0}), f32({1}, {step})});
  };
  auto three = go(3, true, 2);
  ASSERT_TRUE(three.ok()) << three.error().text();
  EXPECT_EQ(values((*three)[0]), (std::vector<double>{6}));
  EXPECT_EQ(values((*three)[1]), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ((*three)[1].dims(), (std::vector<int64_t>{3, 1}));
  auto stopped = go(1000, true, 4);
  ASSERT_TRUE(stopped.ok()) << stopped.error().text();
  EXPECT_EQ(values((*stopped)[1]), (std::vector<double>{4, 8, 12}));
  for (auto& none : {go(0, true, 1), go(5, false, 1)}) {
    ASSERT_TRUE(none.ok()) << none.error().text();
    EXPECT_EQ(values((*none)[0]), (std::vector<double>{0}));
    EXPECT_EQ((*none)[1].dims(), (std::vector<int64_t>{0, 1}));
  }
  for (int64_t trips : {int64_t{-1}, INT64_MIN}) {
    auto none = go(trips, true, 1);
    ASSERT_TRUE(none.ok()) << none.error().text();
    EXPECT_EQ((*none)[1].dims(), (std::vector<int64_t>{0, 1}));
  }
  auto by_condition = go(INT64_MAX, true, 4);
  ASSERT_TRUE(by_condition.ok()) << by_condition.error().text();
  EXPECT_EQ((*by_condition)[1].dims(), (std::vector<int64_t>{3, 1}));
}

TEST(Loop, WithoutEndIsBoundedByIterationsAndMemory) {
  static const std::vector<const Executor*> table = exec::table();
  EngineOptions few{table, {{"avx2"}, {}}, 1}, small = few;
  few.max_iterations = 1000;
  small.memory_bytes = 4096;
  for (const EngineOptions& options : {few, small}) {
    auto engine = Engine::create(counting().p, {}, options);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine);
    ASSERT_TRUE(session.ok());
    const std::vector<Tensor> in = {i64({}, {INT64_MAX}), boolean(true), f32({1}, {0}), f32({1}, {-1})};
    auto out = (*session)->run(in);
    ASSERT_FALSE(out.ok());
    const bool by_count = options.max_iterations == 1000;
    EXPECT_EQ(out.error().kind, by_count ? ErrorKind::kInvalid : ErrorKind::kMemory) << out.error().text();
    EXPECT_NE(out.error().text().find(by_count ? "did not end" : "grow beyond"), std::string::npos);
    const std::vector<Tensor> after = {i64({}, {2}), boolean(true), f32({1}, {0}), f32({1}, {1})};
    EXPECT_TRUE((*session)->run(after).ok());
  }
}

// trips, x[n] -> x beside itself, that beside itself, ...
ProgramMaker doubling() {
  ProgramMaker m;
  m.p.dims = {"n", "k"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), x = m.input("x", DType::kI64, "[n]");
  const int32_t last = m.scratch("last", DType::kI64, "[k]");
  ProgramMaker body;
  body.p.dims = {"a"};
  body.input("i", DType::kI64, "[]");
  const int32_t go = body.input("go", DType::kBool, "[]"), v = body.input("v", DType::kI64, "[a]");
  const int32_t more = body.scratch("more", DType::kBool, "[]"), w = body.scratch("w", DType::kI64, "[2*a]");
  body.reference({go}, {more}, "graph { input g: bool[]; y = identity(g); output y }");
  body.reference({v}, {w}, "graph { input v: i64[a]; y = concat(v, v) {axis=0}; output y }");
  body.output("more", more);
  body.output("w", w);
  plan::Step& loop = m.step("loop", {trips, -1, x}, {last}, "carried=1");
  loop.binds = {"k"};
  loop.bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("last", last);
  return m;
}

TEST(Loop, WhatItCarriesMayGrowAsFarAsTheMemoryAllows) {
  static const std::vector<const Executor*> table = exec::table();
  EngineOptions options{table, {{"avx2"}, {}}, 1};
  options.memory_bytes = 1 << 20;
  auto engine = Engine::create(doubling().p, {}, options);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine);
  ASSERT_TRUE(session.ok());
  auto out = (*session)->run(std::vector<Tensor>{i64({}, {INT64_MAX}), i64({2}, {1, 2})});
  ASSERT_FALSE(out.ok());
  const std::string said = out.error().text();
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << said;
  EXPECT_NE(said.find("the carried values of a loop grow"), std::string::npos) << said;
  EXPECT_NE(said.find("--max-iterations"), std::string::npos) << said;
  EXPECT_FALSE(out.error().node.empty()) << said;
  out = (*session)->run(std::vector<Tensor>{i64({}, {3}), i64({2}, {1, 2})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ((*out)[0].dims(), (std::vector<int64_t>{16}));
}

// trips, x[2] -> x doubled, then its double, ... : the weights of the body are those of the whole program.
TEST(Loop, ABodyReadsWeightsOfTheWhole) {
  ProgramMaker m;
  const int32_t trips = m.input("trips", DType::kI64, "[]"), x = m.input("x", DType::kF32, "[2]");
  const int32_t y = m.buffer("y", BufferKind::kOutput, DType::kF32, "[2]");
  plan::Weight w;
  w.name = "w";
  w.dtype = DType::kF32;
  w.dims = {2};
  w.bytes = 8;
  m.p.weights.push_back(w);
  ProgramMaker body;
  body.input("i", DType::kI64, "[]");
  const int32_t go = body.input("go", DType::kBool, "[]"), v = body.input("v", DType::kF32, "[2]");
  const int32_t weight = body.buffer("w", BufferKind::kWeight, DType::kF32, "[2]");
  body.p.buffers.back().weight = 0;
  const int32_t next = body.scratch("next", DType::kF32, "[2]");
  body.reference({v, weight}, {next}, "graph { input v: f32[2]; input w: f32[2]; y = mul(v, w); output y }");
  body.output("go", go);
  body.output("v", next);
  m.step("loop", {trips, -1, x}, {y}, "carried=1").bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("y", y);
  WeightSource source;
  source.tensors = {f32({2}, {2, 3})};
  auto engine = engine_of(m.p, source);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine);
  ASSERT_TRUE(session.ok());
  auto out = (*session)->run(std::vector<Tensor>{i64({}, {3}), f32({2}, {1, 10})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ(values((*out)[0]), (std::vector<double>{8, 270}));
  m.p.steps[0].bodies[0]->buffers[static_cast<size_t>(weight)].weight = 1;  // there is none
  EXPECT_FALSE(engine_of(m.p, source).ok());
}

TEST(Loop, TripCountAndConditionMayBeLeftOut) {
  ProgramMaker m = counting();
  m.p.steps[0].reads[0] = -1;
  m.p.steps[0].reads[1] = -1;
  auto out = run(m.p, {i64({}, {0}), boolean(false), f32({1}, {0}), f32({1}, {5})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ(values((*out)[1]), (std::vector<double>{5, 10}));
}

TEST(Loop, RefusesBodiesThatDoNotFit) {
  auto broken = [](const std::function<void(plan::Step&)>& change) {
    ProgramMaker m = counting();
    change(m.p.steps[0]);
    auto out = run(m.p, {i64({}, {3}), boolean(true), f32({1}, {0}), f32({1}, {1})});
    EXPECT_FALSE(out.ok());
    return out.ok() ? std::string() : out.error().text();
  };
  EXPECT_NE(broken([](plan::Step& s) { s.bodies.clear(); }).find("one body"), std::string::npos);
  EXPECT_NE(broken([](plan::Step& s) { s.variants[0].payload = "carried=9"; }).find("fewer arguments"),
            std::string::npos);
  EXPECT_NE(broken([](plan::Step& s) { s.variants[0].payload = "carried=-1"; }), "");
  EXPECT_NE(broken([](plan::Step& s) { s.variants[0].payload = "carried=2"; }), "");
  EXPECT_NE(broken([](plan::Step& s) { s.reads.pop_back(); }).find("inputs"), std::string::npos);
  EXPECT_NE(broken([](plan::Step& s) { s.reads[3] = -1; }).find("left out"), std::string::npos);
  EXPECT_NE(broken([](plan::Step& s) { s.reads[0] = 2; }).find("one element"), std::string::npos);
}

TEST(Loop, ACarriedValueHasTheShapeThatItsStepStates) {
  ProgramMaker m;
  m.p.dims = {"k"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), x = m.input("x", DType::kF32, "[k]"),
                y = m.scratch("y", DType::kF32, "[k]");
  ProgramMaker body;
  body.p.dims = {"d"};
  body.input("i", DType::kI64, "[]");
  const int32_t c = body.input("c", DType::kBool, "[]"), v = body.input("v", DType::kF32, "[d]"),
                w = body.scratch("w", DType::kF32, "[2*d]");
  body.reference({v}, {w}, "graph { input v: f32[d]; y = concat(v, v) {axis=0}; output y }");
  body.output("c", c);
  body.output("v", w);
  m.step("loop", {trips, -1, x}, {y}, "carried=1").bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("y", y);
  auto bad = run(m.p, {i64({}, {2}), f32({2}, {1, 2})});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().text().find("another shape"), std::string::npos) << bad.error().text();
}

TEST(Loop, StandsInsideABranch) {
  ProgramMaker m;
  const int32_t cond = m.input("cond", DType::kBool, "[]");
  std::vector<int32_t> reads = {cond, m.input("trips", DType::kI64, "[]"), m.input("go", DType::kBool, "[]"),
                                m.input("total", DType::kF32, "[1]"), m.input("step", DType::kF32, "[1]")};
  m.p.dims = {"rows"};
  const int32_t last = m.scratch("last", DType::kF32, "[1]"), all = m.scratch("all", DType::kF32, "[rows,1]");
  plan::Step& s = m.step("if", reads, {last, all});
  s.binds = {"rows"};
  ProgramMaker other;
  other.input("trips", DType::kI64, "[]");
  other.input("go", DType::kBool, "[]");
  const int32_t total = other.input("total", DType::kF32, "[1]"), step = other.input("step", DType::kF32, "[1]"),
                one = other.scratch("one", DType::kF32, "[1,1]");
  other.reference({step}, {one}, "graph { input x: f32[1]; const s: i64[2] = [1, 1]; y = reshape(x, s); output y }");
  other.output("last", total);
  other.output("all", one);
  s.bodies = {std::make_shared<plan::Program>(counting().p), std::make_shared<plan::Program>(other.p)};
  m.output("last", last);
  m.output("all", all);
  auto yes = run(m.p, {boolean(true), i64({}, {2}), boolean(true), f32({1}, {1}), f32({1}, {3})});
  auto no = run(m.p, {boolean(false), i64({}, {2}), boolean(true), f32({1}, {1}), f32({1}, {3})});
  ASSERT_TRUE(yes.ok()) << yes.error().text();
  ASSERT_TRUE(no.ok()) << no.error().text();
  EXPECT_EQ(values((*yes)[1]), (std::vector<double>{4, 7}));
  EXPECT_EQ(values((*no)[1]), (std::vector<double>{3}));
  EXPECT_EQ(values((*no)[0]), (std::vector<double>{1}));
}

}  // namespace
}  // namespace peri::runtime
