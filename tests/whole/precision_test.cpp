// A model in float16 or bfloat16 runs through the float32 kernels: its weights stand in 16 bits in the engine, its
// answer is that of the same engine with the weights in float32, bit for bit, and nothing is left to the reference.
// label: cpu
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "build/build.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "plan/lock_file.hpp"
#include "runtime/engine.hpp"
#include "tune/expected.hpp"

namespace peri {
namespace {

constexpr std::string_view kNet =
    "graph { input x: T[batch,3,16,16]; input i: i64[batch,7]; const table: T[50,48] = seeded(0.5, 7); "
    "const w: T[48,3,3,3] = seeded(0.2, 1); const b: T[48] = seeded(0.1, 2); const m: T[48,48,1,1] = seeded(0.15, 3); "
    "const u: T[48,96] = seeded(0.15, 4); const v: T[96] = seeded(0.1, 5); const s: T[48] = seeded(0.3, 6); "
    "const z: T[48] = splat(0.25); c = conv(x, w, b) {pads=[1,1,1,1], strides=[2,2]}; r = relu(c); d = conv(r, m); "
    "e = add(d, r); p = global_average_pool(e); const f: i64[3] = [0, 1, -1]; q = reshape(p, f); "
    "const t: i64[3] = [0, -1, 48]; k = reshape(q, t); g = gather(table, i); h = add(g, k); "
    "n = layer_normalization(h, s, z) {axis=-1}; a = matmul(n, u); l = add(a, v); o = gelu(l); y = softmax(o); "
    "output y; output g }";

std::string typed(std::string_view text, std::string_view type) {
  std::string out(text);
  for (size_t at = out.find("T["); at != std::string::npos; at = out.find("T[", at + 1)) out.replace(at, 1, type);
  return out;
}

compile::Imported model(const std::string& text) {
  compile::Imported m;
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << (g.ok() ? "" : g.error().text());
  m.graph = std::move(*g);
  return m;
}

build::Options options() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  build::Options o;
  o.executors = kTable;
  o.compile.model = "net";
  o.compile.builder = "peri test";
  o.compile.tune.measure = false;
  return o;
}

build::Built built(const build::Options& o, compile::Imported m) {
  auto b = build::build_engine(o, std::move(m));
  EXPECT_TRUE(b.ok()) << b.error().text();
  return b.ok() ? *std::move(b) : build::Built{};
}

std::unique_ptr<runtime::Session> session_of(const build::Built& b, const std::vector<Tensor>& weights) {
  plan::Program p = b.compiled.program;
  runtime::WeightSource source;
  source.tensors = weights;
  auto engine = runtime::Engine::create(std::move(p), std::move(source), build::engine_options(options().executors, 2));
  EXPECT_TRUE(engine.ok()) << engine.error().text();
  return *runtime::Session::create(*engine);
}

std::vector<Tensor> inputs_of(const plan::Program& p, int64_t batch) {
  Rng rng(3);
  std::vector<Tensor> out;
  for (const plan::Port& port : p.inputs) {
    Tensor t = *Tensor::zeros(port.dtype, *eval(port.shape, {{"batch", batch}}));
    for (int64_t k = 0; k < t.numel(); ++k)
      is_float(port.dtype) ? t.set_f64(k, rng.normal()) : t.set_i64(k, rng.below(50));
    out.push_back(std::move(t));
  }
  return out;
}

class NarrowModel : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Types, NarrowModel, testing::Values("f16", "bf16"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(NarrowModel, RunsThroughFloat32KernelsWithItsWeightsIn16Bits) {
  const DType type = *parse_dtype(GetParam());
  const build::Built narrow = built(options(), model(typed(kNet, GetParam())));
  EXPECT_TRUE(narrow.verdict.right());
  EXPECT_EQ(narrow.compiled.program.precision, type);
  for (const lower::StepReport& s : narrow.compiled.steps)
    EXPECT_NE(s.chosen, "reference") << s.name << "\n" << s.problem;
  size_t wide = 0, bytes = 0;
  for (const Tensor& w : narrow.compiled.weights) {
    bytes += w.bytes().size();
    wide += w.dtype() == type ? 0 : w.bytes().size();
  }
  EXPECT_LT(wide * 20, bytes) << "only small ones are in float32";
  // The same choices with the same values in float32.
  build::Options o = options();
  o.compile.dtype = DType::kF32;
  const build::Built full = built(o, model(typed(kNet, GetParam())));
  EXPECT_EQ(full.compiled.program.precision, DType::kF32);
  for (const Tensor& w : full.compiled.weights) EXPECT_NE(w.dtype(), type);
  const auto a = session_of(narrow, narrow.compiled.weights), b = session_of(full, full.compiled.weights);
  for (const int64_t batch : {1, 3, 1, 5}) {  // new shapes find the weights packed
    const std::vector<Tensor> in = inputs_of(narrow.compiled.program, batch);
    const auto x = a->run(in), y = b->run(in);
    ASSERT_TRUE(x.ok()) << x.error().text();
    ASSERT_TRUE(y.ok()) << y.error().text();
    for (size_t k = 0; k < x->size(); ++k) EXPECT_TRUE((*x)[k].same_content((*y)[k])) << "output " << k;
  }
}

TEST_P(NarrowModel, AnswersAsTheModelDoesInFloat64) {
  const build::Built narrow = built(options(), model(typed(kNet, GetParam())));
  const auto session = session_of(narrow, narrow.compiled.weights);
  const std::vector<Tensor> in = inputs_of(narrow.compiled.program, 2);
  const auto got = session->run(in);
  ASSERT_TRUE(got.ok()) << got.error().text();
  const compile::Imported m = model(typed(kNet, GetParam()));
  const auto graph = exec::bind_region(m.graph, {{"batch", 2}});
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  const auto want = tune::expected_at(*graph, in, 1, {});
  ASSERT_TRUE(want.ok()) << want.error().text();
  const auto error = tune::compare(*want, *got);
  EXPECT_TRUE(error.ok()) << error.error().text();  // the radii of float32 sums and one rounding at the end
}

TEST(Dtype, RoundsWeightsAndStandsInTheLock) {
  const build::Built own = built(options(), model(typed(kNet, "f32")));
  EXPECT_EQ(own.compiled.program.precision, DType::kF32);
  EXPECT_EQ(own.compiled.lock.dtype, "");
  build::Options o = options();
  o.compile.dtype = DType::kF16;
  const build::Built rounded = built(o, model(typed(kNet, "f32")));
  EXPECT_TRUE(rounded.verdict.right()) << rounded.verdict.wrong;
  EXPECT_EQ(rounded.compiled.program.precision, DType::kF16);
  EXPECT_EQ(rounded.compiled.lock.dtype, "f16");
  size_t before = 0, after = 0;
  for (const Tensor& w : own.compiled.weights) before += w.bytes().size();
  for (const Tensor& w : rounded.compiled.weights) after += w.bytes().size();
  EXPECT_LT(static_cast<double>(after), 0.53 * static_cast<double>(before));
  EXPECT_EQ(rounded.compiled.program.inputs[0].dtype, DType::kF32) << "the interface stays";
  // The lock makes the same engine, without the flag; another flag contradicts it.
  build::Options locked = options();
  locked.compile.lock = *plan::parse_lock(plan::lock_text(rounded.compiled.lock));
  const build::Built again = built(locked, model(typed(kNet, "f32")));
  ASSERT_EQ(again.compiled.weights.size(), rounded.compiled.weights.size());
  for (size_t k = 0; k < again.compiled.weights.size(); ++k)
    EXPECT_TRUE(again.compiled.weights[k].same_content(rounded.compiled.weights[k])) << k;
  locked.compile.dtype = DType::kBF16;
  const auto other = build::build_engine(locked, model(typed(kNet, "f32")));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kRefused);
}

// On a device whose kernels take them, values are kept in 16 bits too; the interface stays unless it is asked for.
TEST(Dtype, KeepsValuesIn16BitsOnADevice) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    build::Options o = options();
    o.compile.backend = "null";
    o.compile.dtype = type;
    const build::Built b = built(o, model(typed(kNet, "f32")));
    EXPECT_TRUE(b.verdict.right()) << b.verdict.wrong;
    const plan::Program& p = b.compiled.program;
    EXPECT_EQ(plan::values_type(p), type);
    EXPECT_EQ(p.inputs[0].dtype, DType::kF32);
    EXPECT_EQ(p.outputs[0].dtype, DType::kF32);
    int narrow = 0, wide = 0;
    for (const plan::Step& s : p.steps)
      for (const int32_t w : s.writes)
        if (s.executor != plan::kCopyExecutor && w >= 0 && is_float(p.buffers[static_cast<size_t>(w)].dtype))
          ++(p.buffers[static_cast<size_t>(w)].dtype == type ? narrow : wide);
    EXPECT_GE(narrow, 7) << "convolutions, pooling, the row of the table, norm, product";
    EXPECT_LE(wide, 4) << "outputs and what softmax reads";
    o.compile.io_dtype = type;
    const build::Built ports = built(o, model(typed(kNet, "f32")));
    EXPECT_TRUE(ports.verdict.right()) << ports.verdict.wrong;
    EXPECT_EQ(ports.compiled.program.inputs[0].dtype, type);
    EXPECT_EQ(ports.compiled.program.inputs[1].dtype, DType::kI64);
    EXPECT_EQ(ports.compiled.program.outputs[0].dtype, type);
    EXPECT_EQ(ports.compiled.lock.io_dtype, dtype_name(type));
  }
}

}  // namespace
}  // namespace peri
