// An iteration of a loop allocates nothing: what a run allocates is the same for 10 iterations and for 1,000, and a
// second run of a loop in a loop needs nothing at all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/exec/engines.hpp"
#include "tests/plan/programs.hpp"

namespace {
std::atomic<int64_t> allocations{0};

void* take(size_t bytes, size_t alignment) noexcept {
  ++allocations;
  void* p = nullptr;
  return posix_memalign(&p, alignment, bytes ? bytes : 1) == 0 ? p : nullptr;
}
}  // namespace

// Of this whole program: counts, and allocates as ever.
void* operator new(size_t bytes) {
  if (void* p = take(bytes, alignof(std::max_align_t))) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return take(bytes, alignment); }

namespace peri::runtime {
namespace {

using peri::tests::ProgramMaker;
using plan::BufferKind;
using tests::Counted;
using tests::engine_of;
using tests::ones;

Tensor count_of(int64_t n) { return Tensor::of_i64({}, std::vector<int64_t>{n}); }

// state[2,size] -> state + step, and the same as a part of a scan output.
plan::Program adding() {
  ProgramMaker body;
  body.p.dims = {"size"};
  body.input("i", DType::kI64, "[]");
  const int32_t go = body.input("go", DType::kBool, "[]");
  const int32_t v = body.input("v", DType::kF32, "[2,size]"), s = body.input("s", DType::kF32, "[2,size]");
  const int32_t sum = body.scratch("sum", DType::kF32, "[2,size]");
  body.step("cpu", {v, s}, {sum},
            "kernel elementwise@1 {}\ngraph { input x0: f32[2,size]; input x1: f32[2,size]; v2: f32[2,size] = add(x0, "
            "x1); output v2 }");
  body.output("go", go);
  body.output("v", sum);
  body.output("scan", sum);
  return body.p;
}

struct Stacked {
  const char* payload;
  const char* shape;  // of the result, with t parts of [2,size]
  bool bound;         // the run binds t
};
void PrintTo(const Stacked& how, std::ostream* to) { *to << how.payload << " " << how.shape << " " << how.bound; }

// trips, state[2,size], step -> state after, all states.
ProgramMaker looping(const Stacked& how) {
  ProgramMaker m;
  m.p.dims = {"size", "t"};
  const int32_t trips = m.input("trips", DType::kI64, "[]");
  const int32_t state = m.input("state", DType::kF32, "[2,size]"), step = m.input("step", DType::kF32, "[2,size]");
  if (!how.bound) m.input("count", DType::kF32, "[t]");
  const int32_t last = m.scratch("last", DType::kF32, "[2,size]"), all = m.scratch("all", DType::kF32, how.shape);
  plan::Step& loop = m.step("loop", {trips, -1, state, step}, {last, all}, how.payload);
  if (how.bound) loop.binds = {"t"};
  loop.bodies.push_back(std::make_shared<plan::Program>(adding()));
  m.output("last", last);
  m.output("all", all);
  return m;
}

class Iterations : public testing::TestWithParam<Stacked> {};

TEST_P(Iterations, AllocateNothing) {
  const Stacked& how = GetParam();
  for (const int64_t size : {3, 16}) {  // parts that lie at no boundary of 64 bytes, and such that do
    Counted counted;
    const auto engine = engine_of(looping(how).p, &counted);
    ASSERT_TRUE(engine.ok()) << engine.error().text();
    auto session = Session::create(*engine, 1).value();
    std::vector<Tensor> last;
    const auto run = [&](int64_t trips) {
      std::vector<Tensor> in = {count_of(trips), ones({2, size}), ones({2, size})};
      if (!how.bound) in.push_back(ones({trips}));
      const int64_t before = allocations + counted.allocations;
      auto out = session->run(in);
      const int64_t taken = allocations + counted.allocations - before;
      EXPECT_TRUE(out.ok()) << out.error().text();
      if (out.ok()) last = std::move(*out);
      return taken;
    };
    const auto again = [&](int64_t trips) {  // whose sizes are those of the run before
      run(trips);
      return run(trips);
    };
    const int64_t few = again(10), many = again(1000);
    EXPECT_EQ(many, few) << "of an iteration: " << static_cast<double>(many - few) / 990;
    ASSERT_EQ(last.size(), 2u);
    for (int64_t k = 0; k < 2 * size; ++k) ASSERT_EQ(last[0].f64(k), 1001);
    const bool outer = std::string_view(how.shape).starts_with("[2");
    const bool reversed = std::string_view(how.payload).find("reversed=1") != std::string_view::npos;
    for (int64_t k = 0; k < last[1].numel(); ++k) {
      const int64_t part = outer ? k / size % 1000 : k / (2 * size);
      ASSERT_EQ(last[1].f64(k), static_cast<double>(reversed ? 1001 - part : 2 + part)) << "element " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stacks, Iterations,
                         testing::Values(Stacked{"carried=1", "[t,2,size]", true},
                                         Stacked{"carried=1", "[t,2,size]", false},
                                         Stacked{"carried=1 axes=1 reversed=0", "[2,t,size]", true},
                                         Stacked{"carried=1 axes=1 reversed=1", "[2,t,size]", false},
                                         Stacked{"carried=1 axes=0 reversed=1", "[t,2,size]", true},
                                         Stacked{"carried=1 axes=0 reversed=1", "[t,2,size]", false}));

// A loop of a fixed number of iterations in a loop, and a branch in that.
TEST(NestedIterations, AllocateNothing) {
  ProgramMaker branch;
  branch.p.dims = {"size"};
  const int32_t x = branch.input("x", DType::kF32, "[2,size]"), by = branch.input("by", DType::kF32, "[2,size]");
  const int32_t sum = branch.buffer("sum", BufferKind::kOutput, DType::kF32, "[2,size]");
  branch.step("cpu", {x, by}, {sum},
              "kernel elementwise@1 {}\ngraph { input x0: f32[2,size]; input x1: f32[2,size]; v2: f32[2,size] = "
              "add(x0, x1); output v2 }");
  branch.output("sum", sum);
  const auto body_of = [](const std::string& executor, const std::string& payload,
                          const std::vector<plan::Program>& inner) {
    ProgramMaker body;
    body.p.dims = {"size"};
    body.input("i", DType::kI64, "[]");
    const int32_t go = body.input("go", DType::kBool, "[]");
    const int32_t v = body.input("v", DType::kF32, "[2,size]"), s = body.input("s", DType::kF32, "[2,size]");
    const int32_t n = body.input("n", DType::kI64, "[]");
    const int32_t next = body.scratch("next", DType::kF32, "[2,size]");
    const std::vector<int32_t> reads =
        executor == "if" ? std::vector<int32_t>{go, v, s} : std::vector<int32_t>{n, -1, v, s, n};
    plan::Step& step = body.step(executor, reads, {next}, payload);
    for (const plan::Program& p : inner) step.bodies.push_back(std::make_shared<plan::Program>(p));
    body.output("go", go);
    body.output("v", next);
    return body.p;
  };
  const plan::Program choosing = body_of("if", "", {branch.p, branch.p});
  const plan::Program within = body_of("loop", "carried=1", {choosing});
  ProgramMaker m;
  m.p.dims = {"size"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), n = m.input("n", DType::kI64, "[]");
  const int32_t state = m.input("state", DType::kF32, "[2,size]"), step = m.input("step", DType::kF32, "[2,size]");
  const int32_t last = m.scratch("last", DType::kF32, "[2,size]");
  m.step("loop", {trips, -1, state, step, n}, {last}, "carried=1")
      .bodies.push_back(std::make_shared<plan::Program>(within));
  m.output("last", last);
  Counted counted;
  const auto engine = engine_of(m.p, &counted);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine, 1).value();
  const auto run = [&](int64_t outer, int64_t inner) {
    const std::vector<Tensor> in = {count_of(outer), count_of(inner), ones({2, 5}), ones({2, 5})};
    const int64_t before = allocations + counted.allocations;
    const auto out = session->run(in);
    const int64_t taken = allocations + counted.allocations - before;
    EXPECT_TRUE(out.ok()) << out.error().text();
    if (out.ok()) EXPECT_EQ((*out)[0].f64(9), static_cast<double>(1 + outer * inner));
    return taken;
  };
  run(10, 10);
  const int64_t few = run(2, 3);
  EXPECT_EQ(run(2, 300), few);
  EXPECT_EQ(run(300, 3), few);
}

// A loop that ends early leaves a result that was stated longer; one that goes on is stopped at its end.
TEST(ScanOutputs, WriteNoPartBeyondAResult) {
  const Stacked how{"carried=1", "[t,2,size]", false};
  const auto engine = engine_of(looping(how).p);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = Session::create(*engine, 1).value();
  for (const int64_t size : {3, 32})
    for (const int64_t trips : {3, 5}) {
      const auto out = session->run(std::vector<Tensor>{count_of(trips), ones({2, size}), ones({2, size}), ones({4})});
      ASSERT_FALSE(out.ok()) << trips;
      EXPECT_NE(out.error().text().find("another shape"), std::string::npos) << out.error().text();
    }
  const auto out = session->run(std::vector<Tensor>{count_of(4), ones({2, 3}), ones({2, 3}), ones({4})});
  EXPECT_TRUE(out.ok()) << out.error().text();
}

}  // namespace
}  // namespace peri::runtime
