// Kernel cuda_reduce: reductions over neighbouring axes and global pooling with the element-wise chain behind them, on
// a GPU: a block of threads a result, or one thread where results are many and sums short.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/rows.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// What an element gives, what is joined ("sum", "max" or "min") from where, and what is made of it.
struct Way {
  std::string_view op, element, join, start, end;
};
constexpr Way kWays[] = {
    {"reduce_sum", "x", "sum", "0.0f", "v"},
    {"reduce_mean", "x", "sum", "0.0f", "v / (float)PERI_COUNT"},
    {"global_average_pool", "x", "sum", "0.0f", "v / (float)PERI_COUNT"},
    {"reduce_max", "x", "max", "-peri_inf()", "v"},
    {"global_max_pool", "x", "max", "-peri_inf()", "v"},
    {"reduce_min", "x", "min", "peri_inf()", "v"},
    {"reduce_l1", "fabsf(x)", "sum", "0.0f", "v"},
    {"reduce_l2", "x * x", "sum", "0.0f", "sqrtf(v)"},
    {"reduce_sum_square", "x * x", "sum", "0.0f", "v"},
    {"reduce_log_sum", "x", "sum", "0.0f", "logf(v)"},
};

// The reduced axes as a range; an error where they are no neighbours.
Result<std::pair<size_t, size_t>> range_of(const ir::Node& n, size_t rank) {
  if (n.op.starts_with("global")) return std::pair(std::min<size_t>(2, rank), rank);
  std::vector<bool> joined(rank, !n.in(1));
  if (!n.in(1) && n.i("noop_with_empty_axes")) return refused("reduces nothing");
  if (n.in(1)) {
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_ASSIGN(const std::vector<int64_t> axes, context.constants(1, "axes"));
    if (axes.empty()) return refused("empty axes");
    for (const int64_t a : axes) {
      const int64_t at = a < 0 ? a + static_cast<int64_t>(rank) : a;
      if (at < 0 || at >= static_cast<int64_t>(rank)) return refused("a bad axis");
      joined[static_cast<size_t>(at)] = true;
    }
  }
  size_t first = 0;
  while (first < rank && !joined[first]) ++first;
  size_t last = first;
  while (last < rank && joined[last]) ++last;
  for (size_t k = last; k < rank; ++k)
    if (joined[k]) return refused("axes that are no neighbours");
  return std::pair(first, last);
}

// One thread a result.
constexpr std::string_view kThreads = R"(
PERI_KERNEL __launch_bounds__(256) peri_reduce(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < PERI_RESULTS; i += step) {
    const PERI_INDEX base = i / PERI_INNER * PERI_INNER * PERI_COUNT + i % PERI_INNER;
    float v = PERI_START;
    for (PERI_INDEX k = 0; k < PERI_COUNT; ++k) v = peri_join(v, peri_element(base + k * PERI_INNER, PERI_PASS));
    peri_finish(i, peri_end(v, PERI_PASS), PERI_PASS);
  }
}
)";
constexpr std::string_view kBlocks = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_reduce(PERI_PARAMETERS) {
  PERI_SHARED float s[PERI_T];
  for (PERI_INDEX i = blockIdx.x; i < PERI_RESULTS; i += gridDim.x) {
    const PERI_INDEX base = i / PERI_INNER * PERI_INNER * PERI_COUNT + i % PERI_INNER;
    float v = PERI_START;
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T)
      v = peri_join(v, peri_element(base + k * PERI_INNER, PERI_PASS));
    v = PERI_JOIN_BLOCK(v, s);
    if (threadIdx.x == 0) peri_finish(i, peri_end(v, PERI_PASS), PERI_PASS);
  }
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p, std::string_view config) {
  const ir::Node& n = p.anchor();
  const Way* way = nullptr;
  for (const Way& w : kWays)
    if (w.op == n.op) way = &w;
  if (!way) return refused("not a reduction it knows");
  const DType dtype = n.in(0)->type.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(dtype)));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const auto range, range_of(n, d.size()));
  const auto [outer, axis, inner] = cuda::around(d, range.first, range.second);
  if (axis == 0) return refused("reduces no elements");
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  if (outer * inner == 0) return std::vector<KernelLaunch>{};
  const bool blocks = config == "way=blocks";
  const int threads = blocks ? cuda::row_threads(axis) : 256;
  const std::string join(way->join), join_two = join == "sum" ? "a + b" : "peri_" + join + "(a, b)";
  std::string body = "#define PERI_COUNT " + s.size(axis) + "\n#define PERI_RESULTS " + s.size(outer * inner) +
                     "\n#define PERI_INNER " + (inner == 1 ? "1" : s.size(inner)) + "\n#define PERI_START " +
                     std::string(way->start) + "\n#define PERI_JOIN_BLOCK peri_block_" + join + "\n" +
                     cuda::block_text(threads) + "PERI_DEVICE float peri_join(const float a, const float b) { return " +
                     join_two + "; }\nPERI_DEVICE float peri_element(const PERI_INDEX at, PERI_PARAMETERS) {\n" +
                     "  const float x = " + cuda::loaded(dtype, x + "[at]") + ";\n  return " +
                     std::string(way->element) +
                     ";\n}\nPERI_DEVICE float peri_end(const float v, PERI_PARAMETERS) { return " +
                     std::string(way->end) + "; }\n" + finish + std::string(blocks ? kBlocks : kThreads);
  const int64_t grid = cuda::blocks_for(outer * inner, blocks ? 1 : 256);
  return std::vector<KernelLaunch>{s.launch("peri_reduce", s.text(cuda::most_elements(p), body), grid, threads)};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  std::vector<std::string> configs = {"way=blocks", "way=threads"};
  for (const std::string& config : configs) PERI_TRY(plan(p, config));
  const ir::Node& n = p.anchor();
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const auto range, range_of(n, d.size()));
  const auto [outer, axis, inner] = cuda::around(d, range.first, range.second);
  if (axis <= 32 || (inner >= 32 && outer * inner >= 16384)) std::swap(configs[0], configs[1]);
  std::vector<Offer> out;
  for (std::string& config : configs) {
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = std::move(config);
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, config));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_reduce_entry;
const Entry cuda_reduce_entry{{
    .name = "cuda_reduce",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "reductions over neighbouring axes and global pooling on a GPU, with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
