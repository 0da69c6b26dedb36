// Plans for another machine: kernels offer and make instances for the target they are handed, not for this machine.
#include "device/target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/entry.hpp"
#include "tests/kernels/runs_here.hpp"

namespace peri::kernels {
namespace {

Target target_with(const std::string& isas) {
  auto t = device::parse_target(R"({"kind":"cpu","chip":"recorded","isas":[)" + isas +
                                R"(],"threads":4,"caches":{"L1 data":32768,"L2 unified":262144},"libraries":[]})");
  EXPECT_TRUE(t.ok()) << t.error().text();
  return std::move(t).value();
}
const std::string kOld = R"("avx2")", kNew = R"("avx2","avx512")";

ir::Graph graph_of(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << text;
  EXPECT_TRUE(ops::infer_graph(*g).ok()) << text;
  return std::move(g).value();
}
const std::string kProduct = "graph { input x: f32[37,96]; input w: f32[96,330]; y = matmul(x, w); output y }";
const std::string kConv =
    "graph { input x: f32[1,24,19,17]; input w: f32[40,24,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; "
    "output y }";
const std::vector<std::string> kGraphs = {
    kProduct,
    kConv,
    "graph { input x: f32[2,8,9,9]; input w: f32[8,12,3,3]; y = conv_transpose(x, w); output y }",
    "graph { input x: f32[2,8,9,9]; y = max_pool(x) {kernel_shape=[3,3]}; output y }",
    "graph { input x: f32[4,33]; y = softmax(x); output y }",
    "graph { input x: f32[4,33]; y = relu(x); output y }",
    "graph { input x: f32[4,33]; y = reduce_sum(x); output y }",
    "graph { input x: f32[4,33]; y = arg_max(x); output y }",
};
// Inputs behind the first are weights.
Problem problem_of(const ir::Graph& g) {
  std::vector<bool> constant(g.inputs.size(), true);
  constant[0] = false;
  return {&g, constant};
}

TEST(OtherTarget, OffersFollowIt) {
  for (const auto& [isas, want] : {std::pair{kOld, "avx2"}, std::pair{kNew, "avx512"}}) {
    const Target target = target_with(isas);
    for (const std::string& text : kGraphs) {
      const ir::Graph g = graph_of(text);
      int offers = 0;
      for (const Kernel* k : kernels()) {
        if (k->provider != "peri") continue;
        const auto list = k->offer(problem_of(g), target);
        for (size_t i = 0; list.ok() && i < list->size(); ++i, ++offers)
          EXPECT_EQ((*list)[i].requires_isa, want) << k->name << " " << text;
      }
      EXPECT_GT(offers, 0) << text;
    }
  }
}

TEST(OtherTarget, WithoutAvx2NothingOfOursIsOffered) {
  const Target target = target_with("");
  for (const std::string& text : {kProduct, kConv}) {
    const ir::Graph g = graph_of(text);
    for (const char* name : {"gemm_f32", "conv_f32", "conv_winograd_f32"}) {
      const auto list = find(name)->offer(problem_of(g), target);
      EXPECT_FALSE(list.ok()) << name;
    }
  }
  const ir::Graph g = graph_of(kProduct);
  EXPECT_NE(find("gemm_f32")->offer(problem_of(g), target).error().text().find("AVX2"), std::string::npos);
}

// An instance of the first offer of `name` for `target`.
std::unique_ptr<Instance> made_for(const std::string& name, const Problem& problem, const Target& target,
                                   Packed* keep = nullptr) {
  const auto offers = find(name)->offer(problem, target);
  EXPECT_TRUE(offers.ok() && !offers->empty()) << name;
  if (!offers.ok() || offers->empty()) return nullptr;
  const std::vector<Tensor> constants(problem.constant.size());
  Packed packed;
  InstantiateContext context;
  context.constants = constants;
  context.packed = keep ? keep : &packed;
  context.target = &target;
  auto made = find(name)->instantiate(problem, offers->front().config, context);
  EXPECT_TRUE(made.ok()) << made.error().text();
  return made.ok() ? std::move(made).value() : nullptr;
}

TEST(OtherTarget, InstancesAreThoseOfItsInstructionSet) {
  Tensor w = Tensor::zeros(DType::kF32, {96, 330}).value();
  for (int64_t k = 0; k < w.numel(); ++k) w.set_f64(k, static_cast<double>(k % 7) - 3);
  Tensor x = Tensor::zeros(DType::kF32, {37, 96}).value();
  for (int64_t k = 0; k < x.numel(); ++k) x.set_f64(k, static_cast<double>(k % 5) - 2);
  const cpu::GemmShape shape = {37, 330, 96, 1, 1, cpu::BForm::kRowMajor};
  int run = 0;
  for (const auto& [isas, isa] : {std::pair{kOld, cpu::Isa::kAvx2}, std::pair{kNew, cpu::Isa::kAvx512}}) {
    const Target target = target_with(isas);
    ir::Graph g = graph_of(kProduct);
    const auto made = made_for("gemm_f32", {&g, {false, false}}, target);
    ASSERT_NE(made, nullptr);
    const cpu::GemmPlan plan = cpu::plan_gemm(shape, isa);
    EXPECT_EQ(made->tasks(0), plan.tasks) << isas;
    EXPECT_EQ(made->scratch_bytes(), static_cast<size_t>(plan.scratch_floats) * sizeof(float)) << isas;
    if (!cpu::runs_here(isa)) continue;
    ++run;
    Tensor y = Tensor::zeros(DType::kF32, {37, 330}).value();
    std::vector<std::byte> scratch(made->scratch_bytes() + 64);
    const void* in[] = {x.data(), w.data()};
    void* out[] = {y.mutable_data()};
    auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    for (int64_t t = 0; t < made->tasks(0); ++t) made->run_task(0, t, {in, out, nullptr, aligned});
    for (int64_t r = 0; r < 37; ++r)
      for (int64_t c = 0; c < 330; ++c) {
        double want = 0;
        for (int64_t k = 0; k < 96; ++k) want += x.f64(r * 96 + k) * w.f64(k * 330 + c);
        ASSERT_EQ(y.f64(r * 330 + c), want) << isas << " at " << r << "," << c;  // small integers: exact
      }
  }
  if (run < 2) std::printf("not run here: avx512\n");
  EXPECT_NE(cpu::plan_gemm(shape, cpu::Isa::kAvx2).scratch_floats,
            cpu::plan_gemm(shape, cpu::Isa::kAvx512).scratch_floats)
      << "a shape that tells the two apart";
}

// The last block of a cell's units is no wider than its units: 224 are 80, 80 and 64.
TEST(OtherTarget, CellsMultiplyNoUnitsThatAreNone) {
  ir::Graph g = graph_of(
      "graph { input x: f32[3,2,8]; const w: f32[1,896,8] = seeded(0.3, 1); const r: f32[1,896,224] = seeded(0.1, 2); "
      "y = lstm(x, w, r); output y }");
  for (const std::string& isas : {kOld, kNew}) {
    Packed packed;
    ASSERT_NE(made_for("recurrent_f32", {&g, {false}}, target_with(isas), &packed), nullptr);
    EXPECT_EQ(static_cast<const Tensor*>(packed.get())->numel(), 896 * (8 + 224 + 1) * 4) << "W, R and a bias";
  }
}

// All phases of an instance with one input and one output.
Tensor answer_of(const Instance& made, const Tensor& x, const std::vector<int64_t>& dims) {
  Tensor y = Tensor::zeros(DType::kF32, dims).value();
  std::vector<std::byte> scratch(made.scratch_bytes() + 64), workspace(made.workspace_bytes() + 64);
  const auto aligned = [](std::vector<std::byte>& v) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
  };
  const void* in[] = {x.data()};
  void* out[] = {y.mutable_data()};
  for (int phase = 0; phase < made.phases(); ++phase)
    for (int64_t t = 0; t < made.tasks(phase); ++t)
      made.run_task(phase, t, {in, out, aligned(workspace), aligned(scratch)});
  return y;
}

// A cell whose weights are bytes multiplies other numbers with AVX2 than with more: the answers are near each other.
TEST(OtherTarget, CellsOfBytesAnswerAlike) {
  if (!cpu::runs_here(cpu::Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  ir::Graph g = graph_of(
      "graph { input x: f32[3,5,70]; const w: i8[1,70,212] = seeded(40, 1); const r: i8[1,53,212] = seeded(40, 2); "
      "const b: f32[1,424] = seeded(0.2, 3); const s: f32[1] = [0.002]; y = dynamic_quantize_lstm(x, w, r, b, _, _, _, "
      "_, s, _, s); output y }");
  Tensor x = Tensor::zeros(DType::kF32, {3, 5, 70}).value();
  for (int64_t k = 0; k < x.numel(); ++k) x.set_f64(k, static_cast<double>((k * k) % 1009) / 400 - 1);
  const Target old = target_with(kOld);
  const auto before = made_for("recurrent_bytes", {&g, {false}}, old),
             here = made_for("recurrent_bytes", {&g, {false}}, device::this_cpu());
  ASSERT_TRUE(before && here);
  const Tensor one = answer_of(*before, x, {3, 1, 5, 53}), two = answer_of(*here, x, {3, 1, 5, 53});
  double largest = 0;
  for (int64_t k = 0; k < one.numel(); ++k) {
    largest = std::max(largest, std::fabs(one.f64(k)));
    ASSERT_NEAR(one.f64(k), two.f64(k), 1e-5) << k;
  }
  EXPECT_GT(largest, 0.1);
}

}  // namespace
}  // namespace peri::kernels
