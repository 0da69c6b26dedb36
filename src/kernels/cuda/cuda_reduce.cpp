// Kernel cuda_reduce: reductions over any axes, of floats and integers, and global pooling with the element-wise chain
// after them, on a GPU: one block of threads per result, or one thread where results are many and sums short; sums as
// in sums.hpp.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
extern const Entry cuda_reduce_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// What an element `x` gives, what is joined ("sum", "max", "min" or "product") from where, and what is made of it.
struct Way {
  std::string_view op, element, join, start, end;
};
constexpr Way kWays[] = {
    {"reduce_sum", "x", "sum", "0.0f", "v"},
    {"reduce_mean", "x", "sum", "0.0f", "v / (R)PERI_COUNT"},
    {"global_average_pool", "x", "sum", "0.0f", "v / (R)PERI_COUNT"},
    {"reduce_max", "x", "max", "-peri_inf()", "v"},
    {"global_max_pool", "x", "max", "-peri_inf()", "v"},
    {"global_lp_pool", "powf(fabsf(x), PERI_P)", "sum", "0.0f", "powf(v, 1.0f / PERI_P)"},
    {"reduce_min", "x", "min", "peri_inf()", "v"},
    {"reduce_prod", "x", "product", "1.0f", "v"},
    {"reduce_l1", "fabsf(x)", "sum", "0.0f", "v"},
    {"reduce_l2", "x * x", "sum", "0.0f", "peri_root(v)"},
    {"reduce_sum_square", "x * x", "sum", "0.0f", "v"},
    {"reduce_log_sum", "x", "sum", "0.0f", "peri_log(v)"},
    {"reduce_log_sum_exp", "peri_exp_less(x, high)", "sum", "0.0f", "high + peri_log(v)"},
};
// The same of integers, which wrap.
constexpr Way kWhole[] = {
    {"reduce_sum", "x", "sum", "0", "v"},
    {"reduce_mean", "x", "sum", "0", "PERI_COUNT == 0 ? (R)0 : v / (R)PERI_COUNT"},
    {"reduce_max", "x", "max", "PERI_LOWEST", "v"},
    {"reduce_min", "x", "min", "PERI_HIGHEST", "v"},
    {"reduce_prod", "x", "product", "1", "v"},
    {"reduce_l1", "x < 0 ? (R)(0 - (peri_u64)x) : x", "sum", "0", "v"},
    {"reduce_sum_square", "(R)((peri_u64)x * (peri_u64)x)", "sum", "0", "v"},
};
template <size_t N>
const Way* look_up(const Way (&ways)[N], std::string_view op) {
  for (const Way& w : ways)
    if (w.op == op) return &w;
  return nullptr;
}
Result<const Way*> way_of(const ir::Node& n) {
  if (!look_up(kWays, n.op)) return refused("not a reduction it knows");
  const DType t = n.in(0)->type.dtype;
  if (t == DType::kF64) return refused("elements of f64");
  const Way* way = is_float(t) ? look_up(kWays, n.op) : look_up(kWhole, n.op);
  if (!way) return refused("not a reduction it knows");
  PERI_TRY(cuda::stored_type(t));
  return way;
}

// Which axes are reduced.
Result<std::vector<bool>> axes_of(const ir::Node& n, size_t rank) {
  std::vector<bool> out(rank, false);
  if (n.op.starts_with("global")) {
    std::fill(out.begin() + static_cast<ptrdiff_t>(std::min<size_t>(2, rank)), out.end(), true);
    return out;
  }
  std::vector<int64_t> axes;
  if (n.in(1) && cuda::numel_of(*n.in(1)) > 0) {  // none, given by a run too, are none
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_ASSIGN(axes, context.constants(1, "axes"));
  }
  for (const int64_t a : axes) {
    const int64_t at = a < 0 ? a + static_cast<int64_t>(rank) : a;
    if (at < 0 || at >= static_cast<int64_t>(rank)) return refused("a bad axis");
    out[static_cast<size_t>(at)] = true;
  }
  if (axes.empty() && n.i("noop_with_empty_axes") == 0) out.assign(rank, true);
  return out;
}

// One thread a result.
constexpr std::string_view kThreads = R"(
PERI_KERNEL __launch_bounds__(256) peri_reduce(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < PERI_RESULTS; i += step) {
    const PERI_INDEX base = peri_line(i, PERI_PASS);
    R high = 0, v = PERI_START;
#if PERI_SHIFTED
    float most = -peri_inf();
    for (PERI_INDEX k = 0; k < PERI_COUNT; ++k)
      most = peri_max(most, (float)peri_x(base + peri_step(k, PERI_PASS), PERI_PASS));
    high = fabsf(most) == peri_inf() ? 0.0f : most;
#endif
    for (PERI_INDEX k = 0; k < PERI_COUNT; ++k)
      v = peri_join(v, peri_element(peri_x(base + peri_step(k, PERI_PASS), PERI_PASS), high));
    peri_finish(i, (PERI_RESULT)peri_end(v, high, PERI_PASS), PERI_PASS);
  }
}
)";
constexpr std::string_view kBlocks = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_reduce(PERI_PARAMETERS) {
  PERI_SHARED R s[32];
  for (PERI_INDEX i = blockIdx.x; i < PERI_RESULTS; i += gridDim.x) {
    const PERI_INDEX base = peri_line(i, PERI_PASS);
    R high = 0, v = PERI_START;
#if PERI_SHIFTED
    float most = -peri_inf();
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T)
      most = peri_max(most, (float)peri_x(base + peri_step(k, PERI_PASS), PERI_PASS));
    most = peri_block_max(most, (float*)s);
    high = fabsf(most) == peri_inf() ? 0.0f : most;
#endif
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T)
      v = peri_join(v, peri_element(peri_x(base + peri_step(k, PERI_PASS), PERI_PASS), high));
    v = PERI_JOIN_BLOCK(v, s);
    if (threadIdx.x == 0) peri_finish(i, (PERI_RESULT)peri_end(v, high, PERI_PASS), PERI_PASS);
  }
}
)";

// How two are joined, and what integers begin with.
std::string join_text(std::string_view join, DType t) {
  const bool real = is_float(t);
  if (join == "sum") return real ? "a + b" : "(R)((peri_u64)a + (peri_u64)b)";
  if (join == "product") return real ? "a * b" : "(R)((peri_u64)a * (peri_u64)b)";
  if (real) return "peri_" + std::string(join) + "(a, b)";
  return join == "max" ? "a > b ? a : b" : "a < b ? a : b";
}
std::string limits_text(DType t) {
  const int bits = static_cast<int>(dtype_bits(t));
  const bool has_sign = t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
  if (t == DType::kBool) return "#define PERI_LOWEST 0\n#define PERI_HIGHEST 1\n";
  if (has_sign)
    return format("#define PERI_HIGHEST ((R)(~0ull >> %d))\n#define PERI_LOWEST (-PERI_HIGHEST - 1)\n", 65 - bits);
  return format("#define PERI_LOWEST 0\n#define PERI_HIGHEST ((R)(~0ull >> %d))\n", 64 - bits);
}

bool by_blocks(const Way& way, DType t) { return is_float(t) && way.join != "product"; }

// Whether elements are added, or multiplied, in peri_sum_type.
bool adds(const Way& way) { return way.join == "sum" || way.join == "product"; }

Result<std::vector<KernelLaunch>> plan(const Problem& p, std::string_view config, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const Way* const way, way_of(n));
  const DType t = n.in(0)->type.dtype;
  const bool real = is_float(t), blocks = config == "way=blocks";
  if (blocks && !by_blocks(*way, t)) return refused("what only one thread joins");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const std::vector<bool> axes, axes_of(n, d.size()));
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  const cuda::Lines lines = cuda::lines_of(d, axes, &s);
  if (lines.lines == 0) return std::vector<KernelLaunch>{};
  const int threads = blocks ? cuda::row_threads(lines.length) : 256;
  const std::string type = real && adds(*way) ? "peri_sum_type"
                           : real             ? "float"
                           : t == DType::kU64 ? "peri_u64"
                                              : "peri_i64";
  std::string body = cuda::sums_text(t, gpu) + "typedef " + type + " R;\n#define PERI_RESULT " +
                     cuda::register_type(t) + "\n#define PERI_COUNT " + s.size(lines.length) +
                     "\n#define PERI_RESULTS " + s.size(lines.lines) + "\n";
  if (!real) body += limits_text(t);
  if (way->op == "global_lp_pool") body += format("#define PERI_P %d.0f\n", static_cast<int>(n.i("p", 2)));
  if (blocks) body += "#define PERI_JOIN_BLOCK peri_block_" + std::string(way->join) + "\n" + cuda::block_text(threads);
  body += "#define PERI_START " + std::string(way->start) +
          format("\n#define PERI_SHIFTED %d\n", way->op == "reduce_log_sum_exp") + lines.text +
          "PERI_DEVICE R peri_join(const R a, const R b) { return " + join_text(way->join, t) +
          "; }\nPERI_DEVICE R peri_x(const PERI_INDEX at, PERI_PARAMETERS) { return (R)" + cuda::loaded(t, x + "[at]") +
          "; }\nPERI_DEVICE R peri_element(const R x, const R high) { return " + std::string(way->element) +
          "; }\nPERI_DEVICE R peri_end(const R v, const R high, PERI_PARAMETERS) { return " + std::string(way->end) +
          "; }\n" + finish + std::string(blocks ? kBlocks : kThreads);
  const int64_t grid = cuda::blocks_for(lines.lines, blocks ? 1 : 256);
  return std::vector<KernelLaunch>{s.launch("peri_reduce", s.text(cuda::most_elements(p), body), grid, threads)};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const Way* const way, way_of(n));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const std::vector<bool> axes, axes_of(n, d.size()));
  Signature s;
  const cuda::Lines lines = cuda::lines_of(d, axes, &s);
  std::vector<std::string> configs = {"way=threads"};
  if (by_blocks(*way, n.in(0)->type.dtype)) {
    const bool neighbours = !axes.empty() && !axes.back() && d.back() >= 32;  // of results, which threads read together
    const bool short_lines = lines.length <= 32 || (neighbours && lines.lines >= 16384);
    configs.insert(short_lines ? configs.end() : configs.begin(), "way=blocks");
  }
  std::vector<Offer> out;
  for (std::string& config : configs) {
    PERI_TRY(plan(p, config, cuda::limits_of(target)));
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = std::move(config);
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t turns, setting(cuda_reduce_entry.kernel, config, "turns"));
  PERI_ASSIGN(std::vector<KernelLaunch> launches,
              plan(p, derived_config(cuda_reduce_entry.kernel, config), cuda::limits_of(*context.target)));
  for (KernelLaunch& l : launches) l.blocks = cuda::blocks_in_turns(l.blocks, turns);
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_reduce_entry = [] {
  Entry out = cuda::entry_of<offer, instantiate>(
      "cuda_reduce", "reductions over any axes and global pooling on a GPU, with their epilogue");
  out.kernel.samples = {  // axes of a run, of which there are none
      "graph { input x: f32[3,5]; input none: i64[0]; y = reduce_log_sum_exp(x, none); output y }",
      "graph { input x: i32[3,5]; input none: i64[0]; y = reduce_sum(x, none) {keepdims=0}; output y }"};
  out.kernel.tunables = {cuda::turns_tunable("results that a thread, or a block, computes one after the other")};
  return out;
}();

}  // namespace peri::kernels
