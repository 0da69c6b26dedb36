// Writes tiny engines, one for each kernel and configuration and for the other executors: the seeds of the engine
// fuzzer.
//   engine_seeds FOLDER
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "lower/place.hpp"
#include "tests/fuzz/engine_draft.hpp"
#include "tests/plan/programs.hpp"

namespace peri {
namespace {
using plan::BufferKind;
using tests::ProgramMaker;

// Regions; an input whose name begins with w is a weight, with wn one that is stored in float16.
constexpr std::string_view kRegions[] = {
    "graph { input x: f32[batch,4]; input w: f32[4]; const c: f32[] = [0.5]; a = mul(x, w); b = add(a, c); y = "
    "gelu(b); z = relu(a); output y; output z }",
    "graph { input x: i64[batch,3]; input b: bool[batch,3]; const c: i64[3] = [1,2,3]; a = add(x, c); y = where(b, a, "
    "x); output y }",
    "graph { input x: f16[batch,2,3,2]; a = cast(x) {to=1}; y = exp(a); output y }",
    "graph { input x: f32[batch,5]; input w: f32[5,3]; input wb: f32[3]; y = gemm(x, w, wb); z = relu(y); output z }",
    "graph { input x: f32[batch,2,5]; input w: f32[5,3]; a = matmul(x, w); input r: f32[batch,2,3]; b = add(a, r); y = "
    "tanh(b); output y }",
    "graph { input x: f32[batch,2,5]; input k: f32[batch,5,3]; y = matmul(x, k); output y }",
    "graph { input x: f32[batch,3,6,6]; input w: f32[4,3,3,3]; input wb: f32[4]; a = conv(x, w, wb) {pads=[1,1,1,1]}; "
    "input r: f32[batch,4,6,6]; b = add(a, r); y = relu(b); output y }",
    "graph { input x: f32[batch,3,7,7]; input w: f32[4,3,3,3]; y = conv(x, w) "
    "{strides=[2,2],pads=[0,1,1,0],dilations=[1,2]}; output y }",
    "graph { input x: f32[batch,8,5,5]; input w: f32[8,1,3,3]; a = conv(x, w) {pads=[1,1,1,1],group=8}; const l: f32[] "
    "= [0.0]; const h: f32[] = [6.0]; y = clip(a, l, h); output y }",
    "graph { input x: f32[batch,2,3,3]; input w: f32[2,2,2,2]; input wb: f32[2]; y = conv_transpose(x, w, wb) "
    "{strides=[2,2]}; output y }",
    "graph { input q: f32[batch,3,2,4]; input k: f32[batch,3,2,4]; input v: f32[batch,3,2,4]; input m: "
    "f32[batch,1,1,3]; y = attention(q, k, v, m) "
    "{q_layout=\"bshd\",k_layout=\"bshd\",v_layout=\"bshd\",y_layout=\"bshd\"}; output y }",
    "graph { input x: f32[batch,6]; input w: f32[6]; input wb: f32[6]; y = layer_normalization(x, w, wb); output y }",
    "graph { input x: f32[batch,3,4]; y = softmax(x) {axis=1}; output y }",
    "graph { input x: f32[batch,4,3,3]; y = global_average_pool(x); output y }",
    "graph { input x: f32[batch,4,3]; const a: i64[1] = [1]; y = reduce_max(x, a) {keepdims=0}; output y }",
    "graph { input x: f32[batch,4,6,6]; y = max_pool(x) {kernel_shape=[3,3],strides=[2,2],pads=[1,1,0,0]}; output y }",
    "graph { input x: f32[batch,2,3,3]; const s: f32[4] = [1.0,1.0,2.0,2.0]; y = resize(x, _, s) {mode=\"linear\"}; "
    "output y }",
    "graph { input x: f32[batch,2,3,3]; const s: f32[4] = [1.0,1.0,2.0,2.0]; y = resize(x, _, s) "
    "{mode=\"nearest\",coordinate_transformation_mode=\"asymmetric\",nearest_mode=\"floor\"}; output y }",
    "graph { input w: f32[7,4]; input i: i64[batch,3]; y = gather(w, i); output y }",
    "graph { input x: f32[batch,3,4]; y = transpose(x) {perm=[0,2,1]}; output y }",
    "graph { input x: f32[batch,5]; const s: i64[1] = [-1]; const e: i64[1] = [-9]; const a: i64[1] = [1]; const d: "
    "i64[1] = [-2]; y = slice(x, s, e, a, d); output y }",
    "graph { input x: f32[batch,1,4]; s = dims_constant() {value=dims[batch,3,4]}; y = expand(x, s); output y }",
    "graph { input x: f32[batch,2]; input k: f32[batch,3]; y = concat(x, k) {axis=1}; output y }",
    "graph { input x: f32[batch,5]; const s: i64[2] = [2,3]; y, z = split(x, s) {axis=1}; output y; output z }",
    "graph { input x: f32[batch,9]; const k: i64[1] = [2]; y, i = top_k(x, k); output y; output i }",
    "graph { input x: i32[batch,2,2,3]; y = relayout(x); output y }",
    "graph { input x: f32[batch,5]; input wn: f32[5,3]; y = matmul(x, wn); output y }",
    "graph { input x: f32[batch,20]; input wn: f32[20]; a = add(x, wn); y = floor(a); output y }",
};
const DimBinding kSizes = {{"batch", 2}};

int32_t buffer_of(ProgramMaker* m, const ir::Value& v, BufferKind kind, const ir::Layout& layout) {
  const int32_t b = m->buffer(v.name, kind, v.type.dtype, shape_text(*v.type.shape));
  m->p.buffers.back().layout = exec::layout_code(layout);
  m->p.buffers.back().bytes = fuzz::natural_bytes(m->p.buffers.back());
  return b;
}

// A step that moves `from` into a buffer of another layout.
int32_t relayout(ProgramMaker* m, const ir::Value& v, int32_t from, const ir::Layout& have, const ir::Layout& want,
                 BufferKind kind) {
  ir::Graph g;
  ir::Value* x = g.add_input("x", v.type);
  x->type.layout = have;
  ir::Value* y = g.add("relayout", {x})->out();
  y->type = v.type;
  y->type.layout = want;
  g.mark_output(y, "y");
  const int32_t to = buffer_of(m, v, kind, want);
  m->step("cpu", {from}, {to}, exec::write_payload("relayout", 1, "", g));
  return to;
}

// The program that runs `g` by this kernel as this offer says.
plan::Program program_of(ir::Graph g, std::string_view executor, std::string_view kernel, int version,
                         const kernels::Offer& o) {
  ProgramMaker m;
  m.p.dims = {"batch"};
  m.p.name = kernel;
  std::vector<int32_t> reads, writes;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    ir::Value& v = *g.inputs[k];
    if (v.name[0] == 'w') {
      const DType stored = v.name.starts_with("wn") ? DType::kF16 : v.type.dtype;
      reads.push_back(m.weight(v.name, stored, *eval(*v.type.shape, {})));
      continue;
    }
    reads.push_back(m.input(v.name, v.type.dtype, shape_text(*v.type.shape)));
    if (!o.inputs[k].row_major()) reads.back() = relayout(&m, v, reads.back(), {}, o.inputs[k], BufferKind::kScratch);
    v.type.layout = o.inputs[k];
  }
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    ir::Value& v = *g.outputs[k];
    const bool plain = o.outputs[k].row_major();
    writes.push_back(buffer_of(&m, v, plain ? BufferKind::kOutput : BufferKind::kScratch, o.outputs[k]));
    v.type.layout = o.outputs[k];
  }
  m.step(std::string(executor), reads, writes, exec::write_payload(kernel, version, o.config, g));
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    ir::Value& v = *g.outputs[k];
    const ir::Layout have = v.type.layout;
    m.output(v.name, have.row_major() ? writes[k] : relayout(&m, v, writes[k], have, {}, BufferKind::kOutput));
  }
  return std::move(m.p);
}

// x[k] -> the values that are not zero, by a step that binds their number.
plan::Program picking() {
  ProgramMaker m;
  m.p.dims = {"k", "n"};
  const int32_t x = m.input("x", DType::kF32, "[k]");
  const int32_t at = m.scratch("at", DType::kI64, "[1,n]"), y = m.scratch("y", DType::kF32, "[1,n]");
  const int32_t flat = m.scratch("flat", DType::kF32, "[n]");
  m.p.buffers.back().alias_of = y;
  m.reference({x}, {at}, "graph { input x: f32[k]; y = non_zero(x); output y }").binds = {"n"};
  m.step("cpu", {x, at}, {y},
         "kernel gather@1 {}\ngraph { input x: f32[k]; input at: i64[1,n]; y: f32[1,n] = gather(x, at); output y }");
  m.output("picked", flat);
  return std::move(m.p);
}

// x[k], end[1] -> x up to `end`, and where it is not zero: by steps whose results are as large as values and the data
// say.
plan::Program sized() {
  ProgramMaker m;
  m.p.dims = {"k", "n", "m"};
  const int32_t x = m.input("x", DType::kF32, "[k]"), end = m.input("end", DType::kI64, "[1]");
  const int32_t part = m.buffer("part", BufferKind::kOutput, DType::kF32, "[m]");
  const int32_t at = m.buffer("at", BufferKind::kOutput, DType::kI64, "[1,n]");
  plan::Step& slice = m.reference({x, end}, {part},
                                  "graph { input x: f32[k]; input e: i64[1]; const s: i64[1] = [0]; y = slice(x, s, "
                                  "e); output y }");
  slice.executor = "sized";
  slice.binds = {"m"};
  plan::Step& found = m.reference({part}, {at}, "graph { input x: f32[m]; y = non_zero(x); output y }");
  found.executor = "sized";
  found.binds = {"n"};
  m.output("part", part);
  m.output("at", at);
  return std::move(m.p);
}

ProgramMaker body_of(const char* op) {
  ProgramMaker body;
  body.p.dims = {"d"};
  const int32_t in = body.input("x", DType::kF32, "[d]");
  const int32_t out = body.buffer("y", BufferKind::kOutput, DType::kF32, "[d]");
  body.reference({in}, {out}, std::string("graph { input x: f32[d]; ") + op + "; output y }");
  body.output("y", out);
  return body;
}

plan::Program branching() {
  ProgramMaker m;
  m.p.dims = {"k"};
  const int32_t cond = m.input("cond", DType::kBool, "[]"), x = m.input("x", DType::kF32, "[k]");
  const int32_t y = m.buffer("y", BufferKind::kOutput, DType::kF32, "[k]");
  plan::Step& s = m.step("if", {cond, x}, {y});
  for (const char* op : {"y = add(x, x)", "y = neg(x)"})
    s.bodies.push_back(std::make_shared<plan::Program>(body_of(op).p));
  m.output("y", y);
  return std::move(m.p);
}

// trips, go, total -> total after, all totals [t,1].
plan::Program counting() {
  ProgramMaker m, body;
  m.p.dims = {"t"};
  const int32_t trips = m.input("trips", DType::kI64, "[]"), go = m.input("go", DType::kBool, "[]");
  const int32_t total = m.input("total", DType::kF32, "[1]");
  const int32_t last = m.scratch("last", DType::kF32, "[1]"), all = m.scratch("all", DType::kF32, "[t,1]");
  body.input("i", DType::kI64, "[]");
  const int32_t c = body.input("c", DType::kBool, "[]"), v = body.input("v", DType::kF32, "[1]");
  const int32_t sum = body.scratch("sum", DType::kF32, "[1]");
  body.reference({v}, {sum}, "graph { input v: f32[1]; y = add(v, v); output y }");
  body.output("more", c);
  body.output("v", sum);
  body.output("scan", sum);
  plan::Step& loop = m.step("loop", {trips, go, total}, {last, all}, "carried=1");
  loop.binds = {"t"};
  loop.bodies.push_back(std::make_shared<plan::Program>(body.p));
  m.output("last", last);
  m.output("all", all);
  return std::move(m.p);
}

// A chain that forks and joins, on a device in two lanes, with a weight, a result that takes an argument's memory and a
// blob; its last step stays on the host.
plan::Program devices() {
  ProgramMaker m;
  m.p.dims = {"batch"};
  const int32_t x = m.input("x", DType::kF32, "[batch,4]"), w = m.weight("w", DType::kF32, {4});
  const auto apply = [&](const char* op, std::vector<int32_t> reads, const char* name) {
    const int32_t y = m.scratch(name, DType::kF32, "[batch,4]");
    std::string region = "graph { ";
    for (size_t k = 0; k < reads.size(); ++k)
      region += format("input a%zu: f32%s; ", k, reads[k] == w ? "[4]" : "[batch,4]");
    region += format("s = dims_constant() {value=dims[batch]}; y = %s(a0", op);
    m.reference(reads, {y}, region + (reads.size() > 1 ? ", a1); output y }" : "); output y }")).depends_on = {"batch"};
    return y;
  };
  const int32_t a = apply("add", {x, w}, "a"), b = apply("relu", {a}, "b"), c = apply("tanh", {a}, "c");
  const int32_t d = apply("add", {b, c}, "d"), e = apply("neg", {d}, "e");
  m.p.buffers[static_cast<size_t>(e)].alias_of = d;
  m.p.steps.back().shares = {0};
  m.p.steps.back().variants[0].blobs = {m.p.add_blob("seed")};
  m.output("y", e);
  lower::place_steps({"null", "null", 2}, &m.p);
  m.output("x plus w", apply("add", {x, w}, "f"));
  return std::move(m.p);
}

Status save(const std::string& path, plan::Program p) {
  fuzz::Draft d{std::move(p), {}};
  fuzz::mend(&d);
  PERI_TRY(plan::check_program(d.program, d.weights.size()));
  return write_file_atomic(path, fuzz::write_draft(d));
}

// Every kernel that takes the region, at most two of its offers; the reference where none does.
Status save_region(const std::string& folder, size_t number, std::string_view text) {
  PERI_ASSIGN(ir::Graph g, ir::parse_graph(text));
  PERI_TRY(g.sort());
  PERI_TRY(ops::infer_graph(g));
  if (g.nodes[0]->op == "relayout") g.nodes[0]->out()->type.layout = ir::nhwc();
  PERI_ASSIGN(const ir::Graph concrete, exec::bind_region(g, kSizes));
  std::vector<bool> constant;
  for (const ir::Value* v : g.inputs) constant.push_back(v->name[0] == 'w');
  int taken = 0;
  for (const kernels::Entry* e : kernels::entries()) {
    auto offers = e->kernel.offer({&concrete, constant}, device::cpu_target(1));
    if (!offers.ok()) continue;
    for (size_t k = 0; k < std::min<size_t>(offers->size(), 2); ++k, ++taken)
      PERI_TRY(save(format("%s/%02zu_%s_%zu", folder.c_str(), number, std::string(e->kernel.name).c_str(), k),
                    program_of(g.clone(), e->kernel.executor, e->kernel.name, e->kernel.version, (*offers)[k])));
  }
  if (taken) return Ok{};
  kernels::Offer plain;
  plain.inputs.resize(g.inputs.size());
  plain.outputs.resize(g.outputs.size());
  return save(format("%s/%02zu_reference", folder.c_str(), number),
              program_of(g.clone(), "reference", "reference", 1, plain));
}

Status write_all(const std::string& folder) {
  for (size_t k = 0; k < std::size(kRegions); ++k) {
    Status done = save_region(folder, k, kRegions[k]);
    if (!done.ok()) return std::move(done).error().at_node(std::string(kRegions[k]));
  }
  PERI_TRY(save(folder + "/bind_shape", picking()));
  PERI_TRY(save(folder + "/sized", sized()));
  PERI_TRY(save(folder + "/if", branching()));
  PERI_TRY(save(folder + "/devices", devices()));
  return save(folder + "/loop", counting());
}
}  // namespace
}  // namespace peri

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: engine_seeds FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  const peri::Status done = peri::write_all(argv[1]);
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return 1;
  }
  return 0;
}
