// Lowering for a GPU, without one: what has a kernel for it goes there with the chain behind it, all else stays on the
// host with the reason, and without a driver a build is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "backends/cuda/backend.hpp"
#include "compile/compile.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/lower.hpp"
#include "ops/entry.hpp"
#include "plan/sizes.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tune/crossing.hpp"

namespace peri::lower {
namespace {

ir::Graph parsed(const char* text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << g.error().text();
  EXPECT_TRUE(ops::infer_graph(*g).ok());
  return std::move(*g);
}

// For this CPU with an H100 beside it, which need not be here.
Result<Lowered> lowered(const char* text) {
  tune::Options o;
  o.measure = o.verify = false;
  o.executors = backends::cuda::backend().executors;
  o.target = device::cpu_target(2, exec::libraries());
  o.target->isas.push_back("sm_90");
  tune::Tuner tuner(o);
  return lower_graph(parsed(text), backends::cuda::backend(), tuner, {{{"batch", 2}}, {}, nullptr, {}});
}

std::vector<std::string> placed(const Lowered& l) {
  std::vector<std::string> out;
  for (const plan::Step& s : l.program.steps) out.push_back(l.program.devices[s.device] + " " + s.executor);
  return out;
}

TEST(CudaPlace, AChainGoesWithItsAnchor) {
  const auto l = lowered(
      "graph { input x: f32[batch,8,14,14]; const w: f32[8,8,3,3] = seeded(0.3, 1); c = conv(x, w) {pads=[1,1,1,1]}; "
      "d = add(c, x); y = hard_swish(d); output y }");
  ASSERT_TRUE(l.ok()) << l.error().text();
  EXPECT_EQ(placed(*l), (std::vector<std::string>{"cuda cuda"})) << "inputs and outputs lie there";
  EXPECT_EQ(l->steps[0].chosen.substr(0, 9), "cuda_conv");
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

TEST(CudaPlace, WhatHasNoKernelStaysOnTheHostWithTheReason) {
  const auto l = lowered(
      "graph { input x: f32[batch,16]; t = tanh(x); c = einsum(t) {equation=\"ij->ji\"}; y = exp(c); output y }");
  ASSERT_TRUE(l.ok()) << l.error().text();
  EXPECT_EQ(placed(*l),
            (std::vector<std::string>{"cuda cuda", "cuda copy", "host reference", "cuda copy", "cuda cuda"}));
  const auto& refusals = l->steps[2].refusals;
  EXPECT_TRUE(std::any_of(refusals.begin(), refusals.end(), [](const auto& r) {
    return r.first == "cuda_elementwise" && r.second.find("einsum is not element-wise") != std::string::npos;
  }));
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

// The end of a chain that only a CPU's kernel would take with its anchor: it is cut, and the anchor goes.
TEST(CudaPlace, AnAnchorIsCutFromWhatTheGpuDoesNotTake) {
  const auto l = lowered(
      "graph { input x: f32[batch,16]; const w: f32[16,16] = seeded(0.3, 1); m = matmul(x, w); n = cast(m) {to=5}; "
      "y = cast(n) {to=1}; output y }");
  ASSERT_TRUE(l.ok()) << l.error().text();
  const std::vector<std::string> list = placed(*l);
  EXPECT_EQ(std::count(list.begin(), list.end(), "cuda cuda"), 1) << "the product; float8 is the host's";
  EXPECT_TRUE(std::any_of(list.begin(), list.end(), [](const auto& s) { return s.starts_with("host "); }));
}

// Values of 16 bits, integers, indices: nothing of it leaves the GPU between its inputs and its output.
// Queries, keys and values of bytes are one launch, and their attention, of which no op is left, is one: with a mask, a
// table and chains, whose roundings are apart in the graph.
TEST(CudaPlace, AnAttentionOfBytesIsTwoLaunches) {
  const auto l = lowered(
      "graph { input x: u8[batch,24,64]; input m: f32[batch,1,1,24]; const s: f32[] = [0.02]; const z: u8[] = [119]; "
      "const g: f32[] = [0.004]; const n: u8[] = [0]; const o: i8[] = [0]; const l: u8[256] = seeded(90, 2); const "
      "wq: i8[64,64] = seeded(40, 1); const wk: i8[64,64] = seeded(40, 2); const wv: i8[64,64] = seeded(40, 3); "
      "const h: i64[4] = [0, 0, 4, 16]; q = qlinear_matmul(x, s, z, wq, g, o, s, z); k = qlinear_matmul(x, s, z, wk, "
      "g, o, s, z); v = qlinear_matmul(x, s, z, wv, g, o, s, z); qh = reshape(q, h); kh = reshape(k, h); vh = "
      "reshape(v, h); a = transpose(qh) {perm=[0, 2, 1, 3]}; b = transpose(kh) {perm=[0, 2, 3, 1]}; c = "
      "transpose(vh) {perm=[0, 2, 1, 3]}; d = qlinear_matmul(a, s, z, b, s, z, s, z); e = byte_table(d, l); f = "
      "from_bytes(e, s, z); i = add(f, m); j = to_bytes(i, s, z); p = from_bytes(j, s, z); r = softmax(p); t = "
      "to_bytes(r, g, n); u = qlinear_matmul(t, g, n, c, s, z, s, z); y = transpose(u) {perm=[0, 2, 1, 3]}; output y "
      "}");
  ASSERT_TRUE(l.ok()) << l.error().text();
  ASSERT_EQ(placed(*l), (std::vector<std::string>{"cuda cuda", "cuda cuda"}));
  EXPECT_EQ(l->steps[0].chosen.substr(0, 23), "cuda_siblings_bytes_mma");
  EXPECT_EQ(l->steps[1].chosen.substr(0, 20), "cuda_attention_bytes");
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

TEST(CudaPlace, AnAttentionOfBytesReadsItsMaskAsItLies) {
  const auto l = lowered(
      "graph { input q: u8[batch,3,24,16]; input k: u8[batch,3,16,24]; input v: u8[batch,3,24,16]; input m: "
      "f32[24,24]; "
      "const s: f32[] = [0.02]; const z: u8[] = [119]; t = transpose(m) {perm=[1, 0]}; k2 = transpose(k) {perm=[0, 1, "
      "3, "
      "2]}; k3 = transpose(k2) {perm=[0, 1, 3, 2]}; d = qlinear_matmul(q, s, z, k3, s, z, s, z); f = from_bytes(d, s, "
      "z); h = add(f, t); p = softmax(h); r = to_bytes(p, s, z); u = qlinear_matmul(r, s, z, v, s, z, s, z); output u "
      "}");
  ASSERT_TRUE(l.ok()) << l.error().text();
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

TEST(CudaPlace, EveryTypeStaysThere) {
  const auto whole = lowered(
      "graph { input i: i64[batch,6]; const t: bf16[40,16] = seeded(0.5, 1); const w: bf16[16,16] = seeded(0.3, 2); "
      "const "
      "s: bf16[16] = seeded(1.0, 3); const k: i64[] = [1]; const a: i64[] = [1]; j = add(i, k); r = gather(t, j); n = "
      "rms_normalization(r, s); m = matmul(n, w); u = cum_sum(m, a); p = softmax(u); q = arg_max(p) {axis=2}; output q "
      "}");
  ASSERT_TRUE(whole.ok()) << whole.error().text();
  const std::vector<std::string> list = placed(*whole);
  EXPECT_TRUE(std::none_of(list.begin(), list.end(), [](const auto& s) { return s.starts_with("host "); }));
  EXPECT_TRUE(plan::check_program(whole->program, 1 << 20).ok());
}

// In 16 bits: the image is read as it comes, from then on channels lie last, up to the product that reads pooled ones.
TEST(CudaPlace, ImagesKeepTheirChannelsLast) {
  const auto l = lowered(
      "graph { input x: f16[batch,3,64,64]; const w1: f16[64,3,3,3] = seeded(0.2, 1); const w2: f16[64,1,3,3] = "
      "seeded(0.3, 2); const w3: f16[128,64,1,1] = seeded(0.2, 3); const w4: f16[128,128,3,3] = seeded(0.05, 4); const "
      "w5: f16[128,24] = seeded(0.1, 5); const s: i64[2] = [0, 128]; a = conv(x, w1) {pads=[1,1,1,1], strides=[2,2]}; "
      "b "
      "= hard_swish(a); c = conv(b, w2) {pads=[1,1,1,1], group=64}; d = relu(c); e = conv(d, w3); f = max_pool(e) "
      "{kernel_shape=[2,2], strides=[2,2]}; g = conv(f, w4) {pads=[1,1,1,1]}; h = add(g, f); i = relu(h); j = "
      "global_average_pool(i); k = reshape(j, s); y = matmul(k, w5); output y }");
  ASSERT_TRUE(l.ok()) << l.error().text();
  std::vector<std::string> chosen;
  for (const StepReport& s : l->steps) {
    EXPECT_EQ(s.name.find("relayout"), std::string::npos) << s.name;
    if (s.chosen.starts_with("cuda_")) chosen.push_back(s.chosen.substr(0, s.chosen.find('@')));
  }
  EXPECT_EQ(chosen, (std::vector<std::string>{"cuda_conv_mma", "cuda_depthwise", "cuda_conv_mma", "cuda_pool",
                                              "cuda_conv_mma", "cuda_pool_all", "cuda_gemv"}));
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

// Positions of a text model, whose number is a size: no step of the host between ids and their embeddings.
TEST(CudaPlace, PositionsAreCountedThere) {
  const auto l = lowered(
      "graph { input x: f32[batch,16]; const p: f32[40,16] = seeded(0.5, 1); const z: i64[] = [0]; const o: i64[] = "
      "[1]; "
      "n = dims_constant() {scalar=1, value=dims[batch]}; r = range(z, n, o); e = gather(p, r); y = add(x, e); output "
      "y "
      "}");
  ASSERT_TRUE(l.ok()) << l.error().text();
  const std::vector<std::string> list = placed(*l);
  EXPECT_EQ(std::count(list.begin(), list.end(), "cuda cuda"), std::ssize(list)) << list[0];
  EXPECT_TRUE(l->on_host.empty());
  EXPECT_TRUE(plan::check_program(l->program, 1 << 20).ok());
}

// What the host has to run is listed with its reason and the price of its copies, or refused.
TEST(CudaPlace, StepsOfTheHostAreListedOrRefused) {
  const char* const text =
      "graph { input x: f32[batch,16]; t = tanh(x); c = label_encoder(t) {keys_floats=[0.5, 1.0], "
      "values_floats=[1.5, 2.5], default_float=0.5}; y = exp(c); output y }";
  const auto l = lowered(text);
  ASSERT_TRUE(l.ok()) << l.error().text();
  ASSERT_EQ(l->on_host.size(), 1u);
  EXPECT_EQ(l->on_host[0].name, "c");
  EXPECT_NE(l->on_host[0].reason.find("cuda_elementwise: "), std::string::npos) << l->on_host[0].reason;
  EXPECT_EQ(l->on_host[0].reason.find("_f32: "), std::string::npos) << "what kernels of the host say is not a reason";
  EXPECT_NEAR(l->on_host[0].copies_ms, 2 * tune::Crossing().ms(2 * 16 * 4), 1e-9) << "there and back";
  EXPECT_GE(l->conversion_ms, l->on_host[0].copies_ms * 0.99);

  compile::Options o;
  o.model = "strict";
  o.tune.target = device::cpu_target(2, exec::libraries());
  o.tune.target->isas.push_back("sm_90");
  o.tune.measure = o.tune.verify = false;
  o.backend = "cuda";
  for (const bool strict : {false, true}) {
    o.strict_placement = strict;
    compile::Imported model;
    model.graph = parsed(text);
    const auto compilation = compile::Compilation::start(o, std::move(model));
    ASSERT_TRUE(compilation.ok()) << compilation.error().text();
    const auto made = (*compilation)->lower();
    ASSERT_EQ(made.ok(), !strict);
    if (made.ok()) continue;
    EXPECT_EQ(made.error().kind, ErrorKind::kRefused);
    for (const char* part : {"1 step would run on the host", "every step on cuda", "'c' (", "--strict-placement"})
      EXPECT_NE(made.error().text().find(part), std::string::npos) << part << " in " << made.error().text();
  }
}

TEST(CudaPlace, WithADriverAndNoGpuABuildIsRefused) {
  const device::tests::Fakes fakes{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
  const device::tests::Variable none("FAKE_CUDA_DEVICES", "0");
  for (const auto& [device, remedy] : {std::pair("", "for the CPU with --backend cpu"),
                                       std::pair("cuda:1", "or leave --device out to build for the CPU")}) {
    compile::Options o;
    o.model = "none";
    o.backend = "cuda";
    o.device = device;
    compile::Imported model;
    model.graph = parsed("graph { input x: f32[4]; y = relu(x); output y }");
    const auto refused = compile::Compilation::start(o, std::move(model));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
    for (const char* part : {"--backend cuda: the driver gives no GPU", remedy})
      EXPECT_NE(refused.error().text().find(part), std::string::npos) << refused.error().text();
  }
}

TEST(CudaPlace, WithoutADriverABuildIsRefused) {
  const char* const before = std::getenv("PERI_CUDA_PATH");
  const std::optional<std::string> kept = before ? std::optional<std::string>(before) : std::nullopt;
  setenv("PERI_CUDA_PATH", "", 1);  // none at all
  compile::Options o;
  o.model = "none";
  o.backend = "cuda";
  compile::Imported model;
  model.graph = parsed("graph { input x: f32[4]; y = relu(x); output y }");
  const auto refused = compile::Compilation::start(o, std::move(model));
  kept ? setenv("PERI_CUDA_PATH", kept->c_str(), 1) : unsetenv("PERI_CUDA_PATH");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(refused.error().text().find("driver"), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace peri::lower
