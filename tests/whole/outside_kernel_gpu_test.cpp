// Kernels from outside on a GPU: the Triton example, as PTX that the driver compiles, and a cubin; each is verified,
// chosen and right in the engine.
// label: gpu
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "build/build.hpp"
#include "device/cuda/compiler.hpp"
#include "device/cuda/cuda.hpp"
#include "exec/entry.hpp"
#include "kernels/outside/outside.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {

// Of the sources, or of an archive of tests that was unpacked elsewhere (tools/gpu/run.sh).
std::string example(const std::string& name) {
  const char* const models = std::getenv("MODELS");
  return (models ? std::string(models) + "/.." : std::string(tests::kSourceDir)) + "/examples/triton/" + name;
}

// Built with kernels from outside alone; right, and this one chosen.
void expect_chosen(const std::string& text, const std::string& kernel) {
  compile::Imported model;
  auto g = ir::parse_graph(text);
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
  model.graph = std::move(*g);
  Options o;
  o.compile.model = kernel;
  o.compile.backend = "cuda";
  o.compile.tune.provider = std::string(kernels::outside::kProvider);
  o.compile.tune.budget_ms = 1;
  o.judge = true;
  const auto table = exec::table();
  o.executors = table;
  const auto b = build_engine(o, std::move(model));
  ASSERT_TRUE(b.ok()) << b.error().text();
  const auto& steps = b->compiled.steps;
  const auto at = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return !s.conversion; });
  ASSERT_NE(at, steps.end());
  std::string why;
  for (const auto& [name, reason] : at->refusals)
    if (name.starts_with(kernel)) why += reason;
  for (const auto& [id, evidence] : at->others)
    if (id.starts_with(kernel)) why += evidence.rejected + evidence.untimed;
  EXPECT_TRUE(at->chosen.starts_with(kernel)) << at->chosen << " " << why;
  EXPECT_TRUE(at->evidence.timed()) << at->evidence.untimed;
  EXPECT_GE(at->evidence.samples, 3);
  EXPECT_TRUE(b->verdict.right());
}

TEST(OutsideKernelGpu, TritonsSoftmaxIsRightAndChosen) {
  const auto added = kernels::outside::add(example("softmax_f16.json"));
  ASSERT_TRUE(added.ok()) << added.error().text();
  expect_chosen("graph { input x: f16[300,1000]; y = softmax(x); output y }", "triton_softmax_f16");
}

TEST(OutsideKernelGpu, ACubinIsRightAndChosen) {
  const auto device = device::cuda::make_cuda_device();
  ASSERT_TRUE(device.ok()) << device.error().text();
  const std::string chip = (*device)->facts().chip();
  const auto compiler = device::cuda::Compiler::open("");
  ASSERT_TRUE(compiler.ok()) << compiler.error().text();
  const auto code = (*compiler)->compile(
      {"squares",
       "extern \"C\" __global__ void peri_squares(const float* x, int n, float* y, const float* w, float scale) {\n"
       "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
       "  if (i < n) y[i] = (x[i] - w[i]) * (x[i] - w[i]) * scale;\n"
       "}\n",
       chip});
  ASSERT_TRUE(code.ok()) << code.error().text();
  const device::tests::Folder folder;
  std::ofstream(folder.path / "squares.cubin", std::ios::binary) << (*code).cubin;
  const std::string number = chip.substr(0, chip.find_first_not_of("0123456789", 3));
  std::ofstream(folder.path / "squares.json")
      << "{\"name\": \"outside_squares\", \"version\": 1, \"source\": {\"cubin\": \"squares.cubin\"}, \"chips\": [\""
      << number << "\"], \"entry\": \"peri_squares\", \"grid\": [\"floordiv(n*c + 63, 64)\"], \"threads\": 64, "
      << "\"pattern\": \"graph { input x: f32[n,c]; input w: f32[n,c]; d = sub(x, w); y = mul(d, d); output y }\", "
      << "\"arguments\": [\"x\", \"i32 n*c\", \"y\", \"w\", \"f32 1\"]}";
  const auto added = kernels::outside::add((folder.path / "squares.json").string());
  ASSERT_TRUE(added.ok()) << added.error().text();
  expect_chosen("graph { input x: f32[33,70]; input w: f32[33,70]; d = sub(x, w); y = mul(d, d); output y }",
                "outside_squares");
}

}  // namespace
}  // namespace peri::build
