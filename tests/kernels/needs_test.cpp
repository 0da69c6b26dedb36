// What a run needs is planned as values: from the problem, the configuration and the target alone, and in words.
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"

namespace peri::kernels {
namespace {

Target avx2() {
  Target t;
  t.isas = {"avx2"};
  t.threads = 4;
  return t;
}

// Of the first offer for a problem whose inputs w, r and b are weights, of which there are no bytes.
Needs planned(const char* kernel, const char* text, const Target& target = avx2(), std::string_view setting = "") {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  std::vector<bool> constant;
  for (const ir::Value* v : g->inputs) constant.push_back(v->name == "w" || v->name == "r" || v->name == "b");
  const Kernel* k = find(kernel);
  auto offers = k->offer({&*g, constant}, target);
  EXPECT_TRUE(offers.ok()) << offers.error().text();
  Offer offer = (*offers)[0];
  offer.config += setting;
  auto needs = needs_of(*k, {&*g, constant}, offer, target);
  EXPECT_TRUE(needs.ok()) << needs.error().text();
  return needs.ok() ? *needs : Needs();
}

TEST(Needs, OfTasksFollowFromTheProblem) {
  EXPECT_EQ(planned("det_f32", "graph { input x: f32[300,5,5]; y = det(x); output y }"),
            needs_of_tasks(1, 25 * sizeof(double)));
  const Needs gather =
      planned("gather", "graph { input x: f32[40,300]; input i: i64[90]; y = gather(x, i); output y }");
  EXPECT_EQ(gather.workspace, sizeof(int64_t)) << "a flag";
  EXPECT_EQ(gather.tasks.size(), 2u);
  const Needs taps =
      planned("dynamic_quantize_f32",
              "graph { input x: f32[9,1000]; y, s, z = dynamic_quantize_linear(x); output y; output s; output z }");
  ASSERT_EQ(taps.tasks.size(), 2u);
  EXPECT_EQ(taps.workspace, static_cast<size_t>(taps.tasks[0]) * 2 * sizeof(float)) << "the range of each task";
}

TEST(Needs, OfWeightsThatARunBringsIncludeTheirPackedForm) {
  const char* cell =
      "graph { input x: f32[6,2,8]; input w: f32[1,800,8]; input r: f32[1,800,200]; y, h, c = lstm(x, w, r); output y "
      "}";
  const char* run =
      "graph { input x: f32[6,2,8]; input k: f32[1,800,8]; input q: f32[1,800,200]; y, h, c = lstm(x, k, q); output y "
      "}";
  const Needs known = planned("recurrent_f32", cell), brought = planned("recurrent_f32", run);
  EXPECT_EQ(known.tasks.size(), 7u) << "the products of the inputs, and six steps";
  EXPECT_EQ(brought.tasks.size(), 8u) << "first a phase that packs";
  EXPECT_GE(brought.workspace, known.workspace + size_t{800} * 208 * sizeof(float));
  EXPECT_EQ(std::vector(brought.tasks.begin() + 1, brought.tasks.end()), known.tasks);
}

TEST(Needs, ASettingCutsWorkInAnotherWay) {
  const char* product = "graph { input x: f32[150,96]; input w: f32[96,200]; y = matmul(x, w); output y }";
  const Needs derived = planned("gemm_f32", product), set = planned("gemm_f32", product, avx2(), "rows=16");
  EXPECT_GT(set.tasks[0], derived.tasks[0]);
}

TEST(Needs, OfLaunchesAreTheirGrid) {
  Target gpu = device::cpu_target(4);
  gpu.isas.push_back("sm_90");
  const Needs n =
      planned("cuda_range",
              "graph { const o: i64[] = [1]; s = dims_constant() {scalar=1, value=dims[3]}; n = dims_constant() "
              "{scalar=1, value=dims[703]}; y = range(s, n, o); output y }",
              gpu);
  ASSERT_EQ(n.launches.size(), 1u);
  EXPECT_TRUE(n.launches[0].entry.starts_with("peri_"));
  EXPECT_GE(n.launches[0].blocks[0] * n.launches[0].threads, 700);
  EXPECT_TRUE(n.tasks.empty());
}

TEST(Needs, OnlyALibraryKeepsThemToItself) {
  for (const Entry* e : entries())
    EXPECT_EQ(e->kernel.needs != nullptr, e->kernel.provider == "peri") << e->kernel.name;
  EXPECT_EQ(needs_of(*find("onednn_conv"), {}, {}, avx2()).error().message, "only its library knows what a run needs");
}

TEST(Needs, AreAValueInWordsAndInJson) {
  EXPECT_EQ(needs_text({}), "nothing");
  EXPECT_EQ(needs_text(needs_of_tasks(64, 12 << 10)), "64 tasks; 12.0 KiB for each thread");
  EXPECT_EQ(needs_text({size_t{3} << 19, 0, {1, 196, 1}, {}}), "3 phases of 198 tasks in all; 1.5 MiB of workspace");
  const Needs two{0, 0, {}, {{"peri_a", {264, 1, 1}, 128, 48 << 10, 1}, {"peri_b", {8, 2, 1}, 256, 0, 4}}};
  EXPECT_EQ(needs_text(two),
            "2 launches of 264 blocks by 128 threads, each with 48.0 KiB of shared memory and 16 blocks by 256 threads "
            "in clusters of 4");
  JsonWriter w;
  write_needs(w, {8, 16, std::vector<int64_t>(20, 2), {{"peri_a", {264, 1, 1}, 128, 64, 1}}});
  const std::string text = w.take();
  const auto json = parse_json(text);
  ASSERT_TRUE(json.ok()) << text;
  EXPECT_EQ(*json->get_int("workspace_bytes"), 8);
  EXPECT_EQ(*json->get_int("scratch_bytes"), 16);
  EXPECT_EQ(*json->get_int("phases"), 20);
  EXPECT_EQ((*json->get_array("tasks"))->size(), 16u) << "the first ones";
  EXPECT_NE(text.find(R"({"entry":"peri_a","blocks":[264,1,1],"threads":128,"shared_bytes":64,"cluster":1})"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace peri::kernels
