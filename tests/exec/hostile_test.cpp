// Programs that pass the checks of a file and still lie: regions that kernels could not run safely, results of another
// shape than stated, more memory or steps than allowed. Each is an error before anything is written out of place.
#include <gtest/gtest.h>

#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/plan/programs.hpp"

namespace peri::runtime {
namespace {

using plan::BufferKind;
using tests::ProgramMaker;

EngineOptions options() {
  static const std::vector<const Executor*> table = exec::table();
  EngineOptions o;
  o.executors = table;
  o.machine = {device::this_cpu().isas, exec::libraries()};
  return o;
}
Result<std::vector<Tensor>> run(const plan::Program& p, const std::vector<Tensor>& inputs,
                                EngineOptions o = options()) {
  PERI_ASSIGN(auto engine, Engine::create(p, {}, std::move(o)));
  PERI_ASSIGN(auto session, Session::create(engine));
  return session->run(inputs);
}
Tensor zeros(DType dtype, std::vector<int64_t> dims) { return Tensor::zeros(dtype, std::move(dims)).value(); }

// x f32[4] and what `kernel` makes of it in one step with these results.
std::string refusal(const std::string& kernel, const std::string& region, const std::vector<std::string>& results,
                    std::vector<std::string> arguments = {"f32[4]"}) {
  ProgramMaker m;
  std::vector<int32_t> reads, writes;
  std::vector<Tensor> inputs;
  for (const std::string& a : arguments) {
    auto type = ir::parse_type(a);
    reads.push_back(m.input("x" + std::to_string(reads.size()), type->dtype, shape_text(*type->shape)));
    inputs.push_back(zeros(type->dtype, *eval(*type->shape, {})));
  }
  for (const std::string& r : results) {
    auto type = ir::parse_type(r);
    writes.push_back(m.scratch("y" + std::to_string(writes.size()), type->dtype, shape_text(*type->shape)));
  }
  const kernels::Kernel* const known = kernels::find(kernel);
  m.step("cpu", reads, writes, format("kernel %s@%d {}\n", kernel.c_str(), known ? known->version : 1) + region);
  m.output("y", writes[0]);
  auto out = run(m.p, inputs);
  return out.ok() ? "" : out.error().text();
}

TEST(Region, WithoutANodeThatComputesIsRefused) {
  const std::string bare = "graph { input x: f32[4]; const c: f32[4] = [1.0,1.0,1.0,1.0]; output c }";
  const std::string sizes = "graph { input x: f32[4]; y = dims_constant() {value=dims[3,4]}; output y }";
  for (const kernels::Entry* e : kernels::entries()) {
    const std::string kernel(e->kernel.name);
    if (e->kernel.executor != "cpu") continue;
    EXPECT_NE(refusal(kernel, bare, {"f32[4]"}).find("without a node that computes"), std::string::npos) << kernel;
    EXPECT_NE(refusal(kernel, sizes, {"i64[2]"}).find("without a node that computes"), std::string::npos) << kernel;
    EXPECT_NE(refusal(kernel, "graph { y: f32[2] = dims_constant() {value=dims[3,4]}; output y }", {"i64[2]"}, {}), "");
  }
}

// Its number is not cut to one that fits.
TEST(Region, AVersionThatIsNoNumberIsRefused) {
  for (const char* version : {"4294967297", "99999999999999999999", "1x", "", "-", "0x1"}) {
    ProgramMaker m;
    const int32_t x = m.input("x", DType::kF32, "[4]"), y = m.scratch("y", DType::kF32, "[4]");
    m.step("cpu", {x}, {y},
           "kernel map_f32@" + std::string(version) + " {}\ngraph { input x: f32[4]; y = relu(x); output y }");
    m.output("y", y);
    const auto out = run(m.p, {zeros(DType::kF32, {4})});
    ASSERT_FALSE(out.ok()) << version;
    EXPECT_NE(out.error().text().find("has no version"), std::string::npos) << out.error().text();
  }
}

// A kernel writes its own result to its first place: a smaller one there would be overrun.
TEST(Region, ResultsItDoesNotComputeAreRefused) {
  const std::string reduce =
      "graph { input x: f32[4,64]; s: i64[1] = dims_constant() {value=dims[1]}; "
      "y: f32[4] = reduce_sum(x, s) {keepdims=0}; output s; output y }";
  EXPECT_NE(refusal("join_f32", reduce, {"i64[1]", "f32[4]"}, {"f32[4,64]"}).find("not computed by it"),
            std::string::npos);
  EXPECT_NE(
      refusal("elementwise", "graph { input x: f32[4]; y: f32[4] = relu(x); output x; output y }", {"f32[4]", "f32[4]"})
          .find("not computed by it"),
      std::string::npos);
  EXPECT_NE(refusal("elementwise", "graph { input x: f32[4]; y: f32[4] = relu(x); output y; output y as \"z\" }",
                    {"f32[4]", "f32[4]"})
                .find("stands twice"),
            std::string::npos);
}

TEST(Region, AChangeOfLayoutTakesItsOwnArgumentOnly) {
  const std::string region =
      "graph { input small: i32[1,1,1,1]; input x: i32[1,8,8,8]; y: i32[1,8,8,8]@0231 = relayout(x); "
      "output y }";
  ProgramMaker m;
  const int32_t small = m.input("small", DType::kI32, "[1,1,1,1]"), x = m.input("x", DType::kI32, "[1,8,8,8]");
  const int32_t y = m.scratch("y", DType::kI32, "[1,8,8,8]"), z = m.scratch("z", DType::kI32, "[1,8,8,8]");
  m.p.buffers[static_cast<size_t>(y)].layout = "0231";
  m.step("cpu", {small, x}, {y}, "kernel relayout@1 {}\n" + region);
  m.step("cpu", {y}, {z},
         "kernel relayout@1 {}\ngraph { input x: i32[1,8,8,8]@0231; y: i32[1,8,8,8] = relayout(x); output y }");
  m.output("z", z);
  auto out = run(m.p, {zeros(DType::kI32, {1, 1, 1, 1}), zeros(DType::kI32, {1, 8, 8, 8})});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().text().find("takes one argument"), std::string::npos) << out.error().text();
}

// A gather of sizes that stand inside the region, and by them, reads them.
TEST(Region, GatherOfSizesMadeInside) {
  ProgramMaker m;
  const int32_t i = m.input("i", DType::kI64, "[2]"), x = m.input("x", DType::kF32, "[4]");
  const int32_t y = m.scratch("y", DType::kI64, "[2]"), z = m.scratch("z", DType::kF32, "[2]");
  m.step("cpu", {i}, {y},
         "kernel gather@1 {}\ngraph { input i: i64[2]; s: i64[3] = dims_constant() {value=dims[5,6,7]}; y: i64[2] = "
         "gather(s, i); output y }");
  m.step("cpu", {x}, {z},
         "kernel gather@1 {}\ngraph { input x: f32[4]; s: i64[2] = dims_constant() {value=dims[3,1]}; y: f32[2] = "
         "gather(x, s); output y }");
  m.output("y", y);
  m.output("z", z);
  const auto out = run(
      m.p, {Tensor::of_i64({2}, std::vector<int64_t>{2, 0}), Tensor::of_f32({4}, std::vector<float>{0, 10, 20, 30})});
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_EQ((*out)[0].i64(0), 7);
  EXPECT_EQ((*out)[0].i64(1), 5);
  EXPECT_EQ((*out)[1].f64(0), 30);
  EXPECT_EQ((*out)[1].f64(1), 10);
}

// An argument that no operator may do without is missing from the payload: an error when it runs, on every way.
TEST(Region, LeftOutArgumentsAreRefused) {
  for (const char* call : {"max(x, _, x)", "min(x, _, x)", "sum(x, _, x)", "mean(x, _, x)", "concat(x, _) {axis=0}",
                           "add(x, _)", "where(_, x, x)"}) {
    const std::string region = "graph { input x: f32[4]; y: f32[4] = " + std::string(call) + "; output y }";
    for (const char* kernel : {"elementwise", "copy"}) EXPECT_NE(refusal(kernel, region, {"f32[4]"}), "") << call;
    ProgramMaker m;
    const int32_t x = m.input("x", DType::kF32, "[4]"), y = m.scratch("y", DType::kF32, "[4]");
    m.step("reference", {x}, {y}, "kernel reference@1 {}\n" + region);
    m.output("y", y);
    EXPECT_FALSE(run(m.p, {zeros(DType::kF32, {4})}).ok()) << call;
  }
}

// The product of two vectors has no axis of columns.
TEST(Region, AVectorProductHasNoColumns) {
  const std::string region =
      "graph { input a: f32[4]; input b: f32[4]; input c: f32[1]; p: f32[] = matmul(a, b); "
      "y: f32[1] = add(p, c); output y }";
  for (const char* kernel : {"gemm_f32", "onednn_matmul"})
    EXPECT_NE(refusal(kernel, region, {"f32[1]"}, {"f32[4]", "f32[4]", "f32[1]"}), "") << kernel;
}

TEST(Budget, OneBlockOfMemory) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t x = m.input("x", DType::kF32, "[n]"), t = m.scratch("t", DType::kF32, "[1000*n]");
  m.reference({x}, {t}, "graph { input x: f32[n]; const r: i64[1] = [1000]; y = tile(x, r); output y }");
  m.output("t", t);
  EngineOptions o = options();
  o.memory_bytes = 100000;
  auto out = run(m.p, {zeros(DType::kF32, {4000})}, o);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << out.error().text();
}

// 2^40 elements between an argument and a result of one: the reference does not try.
TEST(Budget, ValuesInsideARegion) {
  ProgramMaker m;
  const int32_t x = m.input("x", DType::kF32, "[1]"), y = m.scratch("y", DType::kF32, "[]");
  m.reference({x}, {y},
              "graph { input x: f32[1]; const s: i64[1] = [1099511627776]; w = expand(x, s); y = reduce_max(w) "
              "{keepdims=0}; output y }");
  m.output("y", y);
  auto out = run(m.p, {zeros(DType::kF32, {1})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << out.error().text();
}

// The length of a range is data: at 2^36 elements it is refused as any size is.
TEST(Budget, ValuesWhoseSizeIsData) {
  ProgramMaker m;
  m.p.dims = {"n"};
  const int32_t limit = m.input("limit", DType::kI64, "[]"), y = m.scratch("y", DType::kI64, "[n]");
  m.reference({limit}, {y},
              "graph { input l: i64[]; const a: i64[] = [0]; const d: i64[] = [1]; y = range(a, l, d); output y }")
      .binds = {"n"};
  m.output("y", y);
  Tensor t = zeros(DType::kI64, {});
  t.set_i64(0, int64_t{1} << 36);
  EngineOptions o = options();
  o.memory_bytes = 1 << 20;
  auto out = run(m.p, {t}, o);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kMemory) << out.error().text();
}

// A loop for ever, its body one step.
ProgramMaker endless() {
  ProgramMaker m, body;
  const int32_t x = m.input("x", DType::kF32, "[64]"), y = m.scratch("y", DType::kF32, "[64]");
  body.input("i", DType::kI64, "[]");
  const int32_t c = body.input("c", DType::kBool, "[]"), v = body.input("v", DType::kF32, "[64]");
  const int32_t w = body.scratch("w", DType::kF32, "[64]");
  body.step("cpu", {v}, {w}, "kernel softmax_f32@1 {}\ngraph { input v: f32[64]; w: f32[64] = softmax(v); output w }");
  body.output("c", c);
  body.output("w", w);
  m.step("loop", {-1, -1, x}, {y}, "carried=1").bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("y", y);
  return m;
}

TEST(Budget, StepsOfAllBodies) {
  EngineOptions o = options();
  o.steps_left = std::make_shared<std::atomic<int64_t>>(1000);
  auto out = run(endless().p, {zeros(DType::kF32, {64})}, o);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::kRefused);
  EXPECT_NE(out.error().text().find("budget of steps"), std::string::npos) << out.error().text();
}

// Sessions of one engine may have pools of different sizes; a body's session that is used again lays its scratch anew.
TEST(Body, SessionsOfOtherPoolsFitTheirScratch) {
  ProgramMaker m;
  const int32_t cond = m.input("cond", DType::kBool, "[]"), x = m.input("x", DType::kF32, "[1,64,8,8]");
  const int32_t y = m.scratch("y", DType::kF32, "[1,64,16,16]");
  plan::Step& s = m.step("if", {cond, x}, {y});
  for (int k = 0; k < 2; ++k) {
    ProgramMaker body;
    const int32_t in = body.input("x", DType::kF32, "[1,64,8,8]"), out = body.scratch("y", DType::kF32, "[1,64,16,16]");
    body.step("cpu", {in}, {out},
              "kernel resize_f32@3 {}\ngraph { input x: f32[1,64,8,8]; const s: f32[4] = [1.0,1.0,2.0,2.0]; y: "
              "f32[1,64,16,16] = resize(x, _, s) {mode=\"linear\"}; output y }");
    body.output("y", out);
    s.bodies.push_back(std::make_shared<plan::Program>(body.p));
  }
  m.output("y", y);
  auto engine = Engine::create(m.p, {}, options());
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  for (const int threads : {1, 8, 1, 3}) {
    auto session = Session::create(*engine, threads);
    ASSERT_TRUE(session.ok());
    auto out = (*session)->run(std::vector<Tensor>{zeros(DType::kBool, {}), zeros(DType::kF32, {1, 64, 8, 8})});
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ((*out)[0].f64(0), 0);
  }
}

}  // namespace
}  // namespace peri::runtime
