// Sizes that a model computes, as exporters write them: whatever folding, contents or data make of them, the engine
// that is built for one size runs at others and gives what the graph says.
#include <gtest/gtest.h>

#include "backends/cpu/backend.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "lower/lower.hpp"
#include "passes/pipeline.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"
#include "tests/passes/meaning.hpp"

namespace peri::lower {
namespace {

struct Case {
  const char* name;
  const char* text;
};

// Seeded inputs at `dims`: floats of few values, integers 0 and 1.
std::vector<ops::RefTensor> inputs_of(const ir::Graph& g, const DimBinding& dims) {
  Rng rng(5);
  std::vector<ops::RefTensor> out;
  for (const ir::Value* v : g.inputs) {
    auto shape = eval(*v->type.shape, dims);
    EXPECT_TRUE(shape.ok());
    ops::RefTensor t = ops::make_ref(v->type.dtype, *shape);
    for (double& x : t.f) x = static_cast<double>(rng.below(9)) - 4;
    for (int64_t& x : t.i) x = 1;
    out.push_back(std::move(t));
  }
  return out;
}

Result<std::shared_ptr<const runtime::Engine>> build(const ir::Graph& original, const DimBinding& dims) {
  ir::Graph g = original.clone();
  PERI_TRY(passes::run_pipeline(g, {}));
  tune::Options o;
  o.measure = o.verify = false;
  tune::Tuner tuner(o);
  PERI_ASSIGN(const Lowered made, lower_graph(g, backends::cpu::backend(), tuner, {dims, {}, nullptr, {}}));
  PERI_ASSIGN(plan::AssembledEngine assembled, plan::assemble_engine(made.program, made.weights));
  runtime::EngineOptions options;
  static const auto kTable = exec::table();
  options.executors = kTable;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  return runtime::Engine::create(std::move(assembled.program), {assembled.weight_bytes, assembled.keep, {}}, options);
}

void expect_equal(const Tensor& got, const ops::RefTensor& want) {
  ASSERT_EQ(got.dims(), want.dims);
  for (int64_t k = 0; k < got.numel(); ++k) {
    const size_t at = static_cast<size_t>(k);
    if (want.floating())
      ASSERT_NEAR(got.f64(k), want.f[at], 1e-4) << "at " << k;
    else
      ASSERT_EQ(got.i64(k), want.i[at]) << "at " << k;
  }
}

// An engine built for the first sizes gives at all of them what the graph says.
void expect_as_the_graph_says(std::string_view text, const std::vector<DimBinding>& sizes) {
  auto g = ir::parse_graph(text);
  ASSERT_TRUE(g.ok()) << g.error().text();
  const Status inferred = ops::infer_graph(*g);
  ASSERT_TRUE(inferred.ok()) << inferred.error().text();
  const auto engine = build(*g, sizes[0]);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok());
  for (const DimBinding& dims : sizes) {
    const std::vector<ops::RefTensor> in = inputs_of(*g, dims);
    std::vector<Tensor> tensors;
    for (const ops::RefTensor& t : in) tensors.push_back(ops::from_ref(t));
    const auto want = ops::run_reference(*g, in);
    ASSERT_TRUE(want.ok()) << want.error().text();
    const auto got = (*session)->run(tensors);
    ASSERT_TRUE(got.ok()) << got.error().text();
    for (size_t k = 0; k < want->size(); ++k) expect_equal((*got)[k], (*want)[k]);
  }
}

class ComputedSizes : public testing::TestWithParam<Case> {};

TEST_P(ComputedSizes, RunAsTheGraphSays) {
  expect_as_the_graph_says(
      GetParam().text,
      {{{"b", 1}, {"h", 9}, {"w", 12}}, {{"b", 2}, {"h", 8}, {"w", 7}}, {{"b", 3}, {"h", 17}, {"w", 5}}});
}

class MixedSizes : public testing::TestWithParam<Case> {};

// Two dimensions meet: either may be 1, and is broadcast then, whatever the engine was built for.
TEST_P(MixedSizes, EitherIsBroadcast) {
  const DimBinding one = {{"n", 1}, {"m", 1}}, first = {{"n", 3}, {"m", 1}}, second = {{"n", 1}, {"m", 3}},
                   both = {{"n", 3}, {"m", 3}};
  expect_as_the_graph_says(GetParam().text, {one, first, second, both});
  expect_as_the_graph_says(GetParam().text, {both, second, first, one});
  expect_as_the_graph_says(GetParam().text, {second, one, first, both});
}

#define TWO "graph { input x: f32[n,4]; input z: f32[m,4]; "
#define ROWS_OF_Z \
  "const i0: i64[1] = [0]; const i4: i64[1] = [4]; s = shape(z); r = gather(s, i0); w = concat(r, i4) {axis=0}; "

INSTANTIATE_TEST_SUITE_P(
    Broadcast, MixedSizes,
    testing::Values(Case{"sum", TWO "y = add(x, z); output y }"},
                    Case{"chain", TWO "a = add(x, z); b = mul(a, x); c = sub(z, b); y = relu(c); output y; output b }"},
                    Case{"products", "graph { input x: f32[n,2,3]; input z: f32[m,3,2]; y = matmul(x, z); output y }"},
                    Case{"expand", TWO ROWS_OF_Z "e = expand(x, w); y = relu(e); output y }"},
                    Case{"neutral_of_other_size",
                         TWO ROWS_OF_Z "const o: f32[1,1] = [1.0]; e = expand(o, w); y = mul(x, e); output y }"},
                    Case{"chosen_of_other_size",
                         TWO ROWS_OF_Z "const t: bool[1,1] = [1]; e = expand(t, w); y = where(e, x, z); output y }"},
                    Case{"expanded_operand", TWO ROWS_OF_Z
                         "const c: f32[1,4] = [1.0, 2.0, 3.0, 4.0]; e = expand(c, w); y = add(x, e); output y }"}),
    [](const auto& info) { return std::string(info.param.name); });

// An input that decides a shape makes any size of an axis that is 1 in a run.
TEST(MixedSizes, AnInputDecidesWhatOneBecomes) {
  auto g = ir::parse_graph("graph { input x: f32[n,1]; input s: i64[2]; e = expand(x, s); y = relu(e); output y }");
  ASSERT_TRUE(g.ok()) << g.error().text();
  ASSERT_TRUE(ops::infer_graph(*g).ok());
  const auto engine = build(*g, {{"n", 1}});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok());
  for (const auto& [rows, wanted, given] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 3, 3}, {3, 3, 3}, {3, 3, 1}, {1, 1, 1}}) {
    ops::RefTensor x = ops::make_ref(DType::kF32, {rows, 1}), s = ops::make_ref(DType::kI64, {2});
    for (double& v : x.f) v = 2;
    s.i = {given, 4};
    const auto got = (*session)->run(std::vector<Tensor>{ops::from_ref(x), ops::from_ref(s)});
    ASSERT_TRUE(got.ok()) << got.error().text();
    EXPECT_EQ((*got)[0].dims(), (std::vector<int64_t>{wanted, 4}));
    EXPECT_EQ((*got)[0].f64((*got)[0].numel() - 1), 2);
  }
}

#define HEAD "graph { input x: f32[b,3,h,w]; "
#define LISTS                                                                                                  \
  "const i0: i64[1] = [0]; const i1: i64[1] = [1]; const i2: i64[1] = [2]; const i3: i64[1] = [3]; const i4: " \
  "i64[1] = [4]; const m1: i64[1] = [-1]; "
#define SIZES LISTS "s = shape(x); sb = gather(s, i0); sh = gather(s, i2); sw = gather(s, i3); "
// A constant list that only folding sees through: by way of float.
#define FOLDED(name, n, list) "const " name "_0: f32[" n "] = [" list "]; " name " = cast(" name "_0) {to=14}; "

INSTANTIATE_TEST_SUITE_P(
    Folded, ComputedSizes,
    testing::Values(
        Case{"reshape",
             "graph { input x: f32[1,6,4]; " LISTS FOLDED("k", "2",
                                                          "4.0, 6.0") "q = reshape(x, k); y = sin(q); t = shape(y); u "
                                                                      "= slice(t, i0, i1); v = concat(u, m1) {axis=0}; "
                                                                      "z = reshape(y, v); output z }"},
        Case{"expand",
             "graph { input x: f32[1,6,4]; " LISTS FOLDED(
                 "k", "3", "2.0, 6.0, 4.0") "q = expand(x, k); y = sin(q); t = shape(y); output t; output y }"},
        Case{"tile", "graph { input x: f32[1,6,4]; " LISTS FOLDED(
                         "k", "3", "2.0, 1.0, 3.0") "q = tile(x, k); y = sin(q); t = shape(y); u = slice(t, i0, i1); v "
                                                    "= concat(u, m1) {axis=0}; z = "
                                                    "reshape(y, v); output z }"},
        Case{"constant_of_shape",
             "graph { input x: f32[1,6,4]; " FOLDED(
                 "k", "3",
                 "1.0, 6.0, 4.0") "q = constant_of_shape(k); y = sum(q, x); t = shape(y); output t; output y }"},
        Case{"resize", "graph { input x: f32[1,2,6,4]; " LISTS FOLDED(
                           "k", "4", "1.0, 2.0, 12.0, 8.0") "q = resize(x, _, _, k); y = sin(q); t = shape(y); u = "
                                                            "slice(t, i0, i1); v = concat(u, m1) "
                                                            "{axis=0}; z = reshape(y, v); output z }"},
        Case{"slice_ends",
             "graph { input x: f32[b,6,4]; " LISTS FOLDED(
                 "k", "1",
                 "3.0") "q = slice(x, i0, k, i1); t = shape(q); e = constant_of_shape(t); y = add(q, e); output y; "
                        "output t }"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    FromShapes, ComputedSizes,
    testing::Values(
        Case{"pads_through_a_matrix",  // as torch writes F.pad: made up to a matrix, reversed, transposed, flattened
             HEAD SIZES "const z: i64[4] = [0, 0, 0, 0]; const m2: i64[2] = [-1, 2]; const far: i64[1] = "
                        "[-9223372036854775807]; p = mod(sw, i4); q = mod(sh, i3); l = concat(p, i1, q, i0, z) "
                        "{axis=0}; r = reshape(l, m2); v = "
                        "slice(r, m1, far, i0, m1); t = transpose(v) {perm=[1,0]}; f = reshape(t, m1); c = cast(f) "
                        "{to=14}; y = pad(x, c); output y }"},
        Case{"rows_of_pads",  // as TensorFlow writes them, in int32
             HEAD SIZES
             "const row: i32[2,2] = [0, 0, 0, 0]; const last: i32[1,2] = [0, 0]; const three: i32[1] = [3]; "
             "const one: i32[1] = [1]; a = cast(sh) {to=13}; m = mod(a, three); j = concat(m, one) {axis=0}; "
             "k = unsqueeze(j, i0); l = concat(row, k, last) {axis=0}; t = transpose(l) {perm=[1,0]}; f = "
             "reshape(t, m1); c = cast(f) {to=14}; y = pad(x, c); output y }"},
        Case{"rounding_up", HEAD SIZES "n = neg(sh); q = div(n, i4); u = neg(q); y = slice(x, i0, u, i2); output y }"},
        Case{"floor_of_a_negative", HEAD SIZES
             "a = neg(sh); q = div(a, i4); p = mul(q, i4); r = sub(a, p); l = less(a, i0); e = equal(r, i0); n = "
             "not(e); c = and(l, n); k = cast(c) {to=14}; f = sub(q, k); u = neg(f); y = slice(x, i0, u, i2); output y "
             "}"},
        Case{"one_of_two", HEAD SIZES "c = greater(sh, sw); n = where(c, sw, sh); y = slice(x, i0, n, i2); output y }"},
        Case{"a_choice_by_size",
             HEAD SIZES "c = greater(sh, sw); a = relu(x); n = neg(x); y = where(c, a, n); output y }"},
        Case{"up_to_a_square",
             HEAD SIZES "m = max(sh, sw); p = sub(m, sh); q = sub(m, sw); const o: i64[6] = [0, 0, 0, "
                        "0, 0, 0]; l = concat(o, p, q) {axis=0}; y = pad(x, l); output y }"},
        Case{"int32_range", HEAD SIZES
             "a = cast(sw) {to=13}; const two: i32[1] = [2]; d = mul(a, two); e = squeeze(d, i0); const z: i32[] = "
             "[0]; const o: i32[] = [1]; r = range(z, e, o); y = cast(r) {to=1}; k = relu(x); output y; output k }"},
        Case{"the_last_row", HEAD SIZES "n = sub(sh, i1); y = gather(x, n) {axis=2}; output y }"},
        Case{"sizes_as_a_matrix", HEAD SIZES
             "const two: i64[2] = [2, 2]; m = reshape(s, two); r = gather(m, i1); t = transpose(r) {perm=[1,0]}; z = "
             "sub(t, t); j = concat(z, t) {axis=1}; k = reduce_sum(j, i1) {keepdims=0}; const u: f32[1,1] = [1.5]; y = "
             "expand(u, k); output y; output x }"},
        Case{"split_sizes", HEAD SIZES "a = div(sw, i2); c = sub(sw, a); d = concat(a, c) {axis=0}; p, q = split(x, d) "
                                       "{axis=3}; output p; output q }"},
        Case{"best_few", HEAD SIZES "const five: i64[1] = [5]; k = min(sw, five); v, i = top_k(x, k); output v; output "
                                    "i }"},
        Case{"a_view_of_sizes",
             HEAD "s = shape(x); const a: i64[2] = [2, 2]; m = reshape(s, a); output m; output x }"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    FromData, ComputedSizes,
    testing::Values(
        Case{"only_the_shape", "graph { input x: f32[b,3,h,w]; n = non_zero(x); y = shape(n); output y }"},
        Case{"the_shape_behind_others",
             HEAD LISTS "n = non_zero(x); f = cast(n) {to=1}; g = sin(f); y = shape(g); output "
                        "y }"},
        Case{"padded_by_data",
             "graph { input x: f32[b,3]; input p: i64[4]; q = pad(x, p); r = sin(q); y = shape(r); "
             "output y }"},
        Case{"best_of_data",
             "graph { input x: f32[b,3]; input k: i64[1]; v, i = top_k(x, k); r = sin(v); y = shape(r); "
             "output y }"},
        Case{"as_a_size_elsewhere", HEAD LISTS
             "n = non_zero(x); t = shape(n); c = gather(t, i1); d = concat(i3, c) {axis=0}; const u: f32[1,1] = [2.5]; "
             "y = expand(u, d); z = constant_of_shape(c); output y; output z }"},
        Case{"in_the_shape_of_another", HEAD SIZES
             "n = non_zero(x); t = shape(n); c = gather(t, i1); e = mul(c, i0); f = add(e, i3); d = concat(sb, f, m1) "
             "{axis=0}; y = reshape(x, d); z = relu(y); output z }"},
        Case{"equal_nodes", HEAD LISTS
             "n = non_zero(x); m = non_zero(x); t = shape(n); u = shape(m); a = gather(t, i1); c = gather(u, i1); d = "
             "concat(a, c, i0) {axis=0}; y = constant_of_shape(d); z = add(n, m); output y; output z }"},
        Case{"compressed_twice", HEAD LISTS
             "r = reshape(x, m1); const o: f32[] = [0.0]; const p: f32[] = [1.0]; c = greater(r, o); d = compress(r, "
             "c); e = greater(d, p); y = compress(d, e); t = shape(y); k = shape(d); j = concat(t, k) {axis=0}; output "
             "y; output j }"},
        Case{"counted",
             HEAD LISTS "n = non_zero(x); t = shape(n); c = gather(t, i1); e = squeeze(c, i0); const z: i64[] "
                        "= [0]; const o: i64[] = [1]; y = range(z, e, o); output y }"},
        Case{"made_up_to_a_multiple", HEAD LISTS
             "n = non_zero(x); f = cast(n) {to=1}; t = shape(n); c = gather(t, i1); m = mod(c, i3); const z: i64[3] = "
             "[0, 0, 0]; p = concat(z, m) {axis=0}; y = pad(f, p); k = shape(y); output y; output k }"}),
    [](const auto& info) { return std::string(info.param.name); });

// A dimension of an input may have the name that one made by data would get.
TEST(ComputedSizes, NamesOfInputsAreNotTaken) {
  auto g =
      ir::parse_graph("graph { input x: f32[data.nonzero_0,3]; n = non_zero(x); t = shape(x); output n; output t }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  EXPECT_EQ(shape_text(*g->outputs[0]->type.shape), "[2,data.nonzero_1]");
  ASSERT_TRUE(ops::infer_graph(*g).ok());  // and it keeps its name
  EXPECT_EQ(shape_text(*g->outputs[0]->type.shape), "[2,data.nonzero_1]");
}

// What nothing binds is an error of the build that names the step.
TEST(ComputedSizes, AnUnboundDimensionIsRefusedWhenBuilt) {
  auto g = ir::parse_graph(
      "graph { input x: f32[3]; y = dims_constant() {value=dims[n,3]}; z = relu(x); output y; "
      "output z }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const auto engine = build(*g, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().text().find("'y': dimension 'n'"), std::string::npos) << engine.error().text();
}

// Regions all of whose inputs are small constants: nothing to share memory with, no layout to choose.
TEST(ComputedSizes, ASizeBeyond64BitsIsAnErrorOfTheBuild) {
  auto g = ir::parse_graph(
      "graph { input x: f32[1,1,6,4]; const k: i64[4] = [229, 38482906972160, 12, 8]; q = resize(x, _, _, k); "
      "y = sin(q); output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  const auto engine = build(*g, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::kUnsupported) << engine.error().text();
  EXPECT_NE(engine.error().text().find("passes 64 bits"), std::string::npos) << engine.error().text();
}

TEST(ComputedSizes, LargeResultsOfSmallConstants) {
  for (const char* op : {"max_pool(w) {kernel_shape=[40,40], pads=[39,39,39,39]}",
                         "average_pool(w) {kernel_shape=[40,40], pads=[39,39,39,39], count_include_pad=1}",
                         "resize(w, _, k)", "global_average_pool(w)", "softmax(w)"}) {
    const std::string text = std::string(
                                 "graph { const w: f32[1,1,2,2] = [1.0, 2.0, 3.0, 4.0]; const k: f32[4] = [1.0, "
                                 "1.0, 40.0, 40.0]; y = ") +
                             op + "; output y }";
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    g->erase_dead();
    const auto want = ops::run_reference(*g, {});
    ASSERT_TRUE(want.ok());
    const auto engine = build(*g, {});
    ASSERT_TRUE(engine.ok()) << text << "\n" << engine.error().text();
    const auto got = (*runtime::Session::create(*engine))->run({});
    ASSERT_TRUE(got.ok()) << text << "\n" << got.error().text();
    expect_equal((*got)[0], (*want)[0]);
  }
}

}  // namespace
}  // namespace peri::lower
