// Kernel conv_open_f32: float32 convolution over two or three axes whose weights or bias are inputs of the run, or
// whose image is a weight, with its epilogue, row-major: the product of the weights, as they lie, and the patches of
// the image, of which each task packs its panels.
#include "kernels/cpu/conv/patches.hpp"
#include "kernels/cpu/gemm/bound_epilogue.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
extern const Entry conv_open_f32_entry;

namespace {

constexpr size_t kWeights = 1, kBias = 2;  // inputs of the node
constexpr int64_t kThinChannels = 8;       // of a group over three axes, which conv_thin_f32 takes

struct Match {
  int64_t batch = 1, groups = 1, channels = 1, outs = 1;  // channels of the image and of the result in a group
  cpu::conv::Patches patches;                             // without an image
  MatchedEpilogue epilogue;  // the bias is its first step; rows are channels, columns positions
  int64_t depth() const { return channels * patches.taps(); }
};

bool constant(const Problem& p, const ir::Value* v) {
  const int at = input_index(*p.graph, v);
  return at < 0 || p.constant[static_cast<size_t>(at)];
}

// Steps that take one value a channel: columns of the matched chain, rows here.
PostKind by_row(PostKind kind) {
  if (kind == PostKind::kColAdd) return PostKind::kRowAdd;
  return kind == PostKind::kColMul ? PostKind::kRowMul : kind;
}

Result<MatchedEpilogue> read_epilogue(const Problem& p, const ir::Node& n) {
  PERI_ASSIGN(MatchedEpilogue e, match_epilogue(p, n, 1));
  if (const ir::Value* v = n.in(kBias)) {
    MatchedOp bias;
    bias.op.kind = PostKind::kColAdd;
    bias.needs_data = true;
    bias.input = input_index(*p.graph, v);
    if (bias.input < 0 && !v->constant) return refused("its bias is made inside the region");
    for (int64_t k = 0; bias.input < 0 && k < v->constant->numel(); ++k)
      bias.values.push_back(static_cast<float>(v->constant->f64(k)));
    e.ops.insert(e.ops.begin(), std::move(bias));
  }
  for (MatchedOp& m : e.ops) m.op.kind = by_row(m.op.kind);
  return e;
}

// One pixel by one: the image is one row.
bool pointwise(const cpu::conv::Patches& s) {
  bool same = s.taps() == 1;
  for (int k = 0; k < 3; ++k) same = same && s.stride[k] == 1 && s.pad[k] == 0 && s.in[k] == s.out[k];
  return same;
}

Result<Match> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const bool bias = !n.in(kBias) || constant(p, n.in(kBias));
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(kWeights)), y = dims_of(*n.out());
  if (x.size() != 4 && x.size() != 5) return refused("takes two or three axes");
  const bool others = x.size() == 4 || w[1] <= kThinChannels;
  if (others && constant(p, n.in(kWeights)) && bias && !constant(p, n.in(0)))
    return refused("its weights are constant: other kernels take it");
  Match m;
  m.batch = x[0];
  m.groups = n.i("group", 1);
  m.channels = w[1];
  m.outs = w[0] / m.groups;
  const ops::Window window = ops::window_of(n);
  cpu::conv::Patches& s = m.patches;
  for (size_t k = 2; k < x.size(); ++k) {
    const size_t to = k + 3 - x.size(), from = k - 2;
    s.in[to] = x[k];
    s.out[to] = y[k];
    s.kernel[to] = window.kernel[from];
    s.stride[to] = window.stride[from];
    s.dilation[to] = window.dilation[from];
    s.pad[to] = window.pad_begin[from];
  }
  if (m.batch * m.outs * m.depth() * s.channel() * s.positions() == 0) return refused("an empty tensor");
  PERI_ASSIGN(m.epilogue, read_epilogue(p, n));
  if (pointwise(s)) {
    s.in[2] = s.out[2] = s.positions();
    s.in[0] = s.in[1] = s.out[0] = s.out[1] = 1;
  }
  return m;
}

cpu::GemmPlan plan_product(const Match& m, cpu::Isa isa, cpu::Cut cut, int threads) {
  return cpu::plan_gemm({.m = m.outs,
                         .n = m.patches.positions(),
                         .k = m.depth(),
                         .batch = m.batch * m.groups,
                         .batch_inner = m.groups,
                         .b_form = cpu::BForm::kMade},
                        isa, cut, threads);
}

class OpenInstance final : public Instance {
 public:
  OpenInstance(Match match, const cpu::GemmPlan& plan, const Problem& p, const Constants& constants)
      : Instance(needs_of_tasks(plan.tasks, static_cast<size_t>(plan.scratch_floats) * sizeof(float))),
        match_(std::move(match)),
        plan_(plan),
        image_(Source::of(p, p.anchor().in(0), constants)),
        weights_(Source::of(p, p.anchor().in(kWeights), constants)),
        constants_(constants.all_but({})) {}
  void run_task(int, int64_t task, const Args& args) const override {
    const auto pack = plan_.isa == cpu::Isa::kAvx512 ? cpu::conv::avx512::pack_patches : cpu::conv::avx2::pack_patches;
    const float* const image = image_.f32(args);
    const auto pack_panel = [&](const cpu::MadePanel& b, float* out) {
      cpu::conv::Patches patches = match_.patches;
      patches.x = image + (b.outer * match_.groups + b.inner) * match_.channels * patches.channel();
      pack(patches, b.k0, b.depth, b.column, b.columns, b.width, out);
    };
    const cpu::MakePanel make = pack_panel;
    cpu::GemmArgs g;
    g.a = weights_.f32(args);
    g.lda = match_.depth();
    g.a_inner = match_.outs * g.lda;
    g.make = &make;
    g.c = static_cast<float*>(args.out[0]);
    g.ldc = match_.patches.positions();
    g.c_inner = match_.outs * g.ldc;
    g.c_outer = match_.groups * g.c_inner;
    g.epilogue = bind_epilogue(match_.epilogue, constants_, args, g.ldc);
    for (int k = 0; k < g.epilogue.count; ++k) {
      cpu::PostOp& op = g.epilogue.ops[k];
      const bool full = op.kind == PostKind::kAdd || op.kind == PostKind::kMul;
      op.outer_stride = full ? g.c_outer : 0;
      op.inner_stride = full ? g.c_inner : match_.outs;
    }
    cpu::run_task(plan_, g, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  Match match_;
  cpu::GemmPlan plan_;
  Source image_, weights_;
  std::vector<Tensor> constants_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  cpu::Cut cut;
  PERI_ASSIGN(cut.rows, setting(conv_open_f32_entry.kernel, config, "rows"));
  PERI_ASSIGN(cut.panels, setting(conv_open_f32_entry.kernel, config, "panels"));
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Match m, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  for (const size_t k : {size_t{0}, kWeights})
    if (!Source::of(p, p.anchor().in(k), c.constants).known()) return refused("reads a value made inside the region");
  const cpu::GemmPlan plan = plan_product(m, isa, cut, c.target->threads);
  return std::unique_ptr<Instance>(std::make_unique<OpenInstance>(std::move(m), plan, p, c.constants));
}
}  // namespace

const Entry conv_open_f32_entry{{
    .name = "conv_open_f32",
    .version = 3,
    .provider = "peri",
    .takes =
        "float32 convolution over two or three axes whose weights or bias are not constants, row-major, with bias, "
        "residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,4,9,37]; input w: f32[6,4,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }",
         "graph { input x: f32[1,6,11,19]; input w: f32[9,2,3,2]; input b: f32[9]; y = conv(x, w, b) {group=3, "
         "strides=[2,3], dilations=[1,2], pads=[0,1,2,3]}; output y }",
         "graph { input x: f32[2,16,7,7]; input w: f32[5,16,1,1]; input b: f32[5]; y = conv(x, w, b); output y }",
         "graph { input x: f32[1,3,9,8]; input w: f32[2,3,4,4]; y = conv(x, w) {auto_pad=\"SAME_LOWER\", "
         "strides=[2,1]}; output y }",
         "graph { input x: f32[1,8,5,40]; input w: f32[8,1,5,7]; y = conv(x, w) {group=8, pads=[2,3,2,3]}; output y }",
         "graph { input x: f32[1,190,7,9]; input w: f32[143,190,3,3]; input b: f32[143]; input r: f32[1,143,7,9]; c = "
         "conv(x, w, b) {pads=[1,1,1,1]}; a = add(c, r); y = relu(a); output y }",
         "graph { input x: f32[2,24,21,23]; input w: f32[28,12,3,3]; input b: f32[28]; input r: f32[2,28,21,23]; "
         "input s: f32[28,1,1]; c = conv(x, w, b) {group=2, pads=[2,2,2,2], dilations=[2,2]}; m = mul(c, s); a = "
         "add(m, r); y = sigmoid(a); output y }",
         "graph { const x: f32[1,5,13,50] = seeded(1.0, 1); input w: f32[40,5,5,3]; y = conv(x, w) {pads=[2,0,2,3], "
         "strides=[1,2]}; output y }",
         "graph { input x: f32[2,20,6,70]; const w: f32[9,20,1,3] = seeded(0.2, 1); input b: f32[9]; c = conv(x, w, b) "
         "{pads=[0,1,0,1]}; y = hard_swish(c); output y }",
         "graph { input x: f32[2,22,5,9,11]; input w: f32[18,11,3,2,3]; input b: f32[18]; input r: f32[2,18,3,5,11]; c "
         "= conv(x, w, b) {group=2, pads=[1,0,1,1,1,1], strides=[2,2,1], dilations=[1,1,1]}; a = add(c, r); y = "
         "relu(a); output y }",
         "graph { input x: f32[3,33,1,1]; input w: f32[50,33,1,1]; input b: f32[50]; y = conv(x, w, b); output y }"},
    .tunables = {{"rows", "channels of the result that a task computes", {64, 32, 16}},
                 {"panels", "panels of positions that a task computes", {1, 2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
