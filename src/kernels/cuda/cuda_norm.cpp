// Kernel cuda_norm: layer, RMS, group, instance, mean-variance and lp normalisation, softmax and log-softmax, over any
// axes, with the element-wise chain after them, on a GPU: one block of threads per row, or one warp per row for several
// short rows, sums as in sums.hpp.
#include <algorithm>
#include <bit>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry cuda_norm_entry;

namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// What is summed over a row: PERI_EACH goes over this thread's elements x.
constexpr std::string_view kSoftmax = R"(
    float high = -peri_inf();
    PERI_EACH high = peri_max(high, x);
    high = peri_block_max(high, (float*)s);
    peri_sum_type sum = 0;
    PERI_EACH sum += peri_exp_less(x, high);
    sum = peri_block_sum(sum, s);
)";
constexpr std::string_view kMeanAndSpread = R"(
    peri_sum_type mean = 0;
    PERI_EACH mean += x;
    mean = peri_block_sum(mean, s) / (peri_sum_type)PERI_COUNT;
)";
constexpr std::string_view kSpread = R"(
    peri_sum_type factor = 0;
    PERI_EACH factor = peri_fma(x - mean, x - mean, factor);
    factor = peri_block_sum(factor, s) / (peri_sum_type)PERI_COUNT;
)";
constexpr std::string_view kInverse = "    factor = 1 / peri_root(factor + PERI_EPSILON);\n";
constexpr std::string_view kInverseDeviation = "    factor = 1 / (peri_root(factor) + 1e-9f);\n";
constexpr std::string_view kLength = R"(
    peri_sum_type size = 0;
    PERI_EACH size += PERI_P == 1 ? (peri_sum_type)fabsf(x) : (peri_sum_type)x * x;
    size = peri_block_sum(size, s);
    if (PERI_P == 2) size = peri_root(size);
)";

// The three ways to process a row: element by element, reading it again for each sum; or eight adjacent elements per
// thread, read once, for rows that are contiguous and short enough; or in the same way by the lanes of a warp, in
// several turns, without shared memory.
constexpr std::string_view kAnew = R"(
#define PERI_EACH for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) \
  if (const float x = peri_x(PERI_AT(k), PERI_PASS); true)
)";
constexpr std::string_view kOnce = R"(
#define PERI_EACH _Pragma("unroll") for (int j = 0; j < 8; ++j) if (const float x = own[j]; mine)
)";
constexpr std::string_view kTurns = R"(
#define PERI_EACH _Pragma("unroll") for (int c = 0; c < PERI_TURNS; ++c) _Pragma("unroll") for (int j = 0; j < 8; ++j) \
  if (const float x = own[8 * c + j]; (c * 32 + t) * 8 < PERI_COUNT)
)";
// The part of a row that a thread keeps in registers: 8 elements for a row per block (1,024 threads), 32 for a row per
// warp in turns of 8. Which of kWarps, or a block per row, is faster is measured where it is chosen: each is a
// candidate.
constexpr int64_t kMaxOnce = 8 * 1024, kMaxTurns = 1024, kTurn = 32 * 8;
constexpr int kWarps[] = {4, 1, 8};
constexpr std::string_view kWarpsKey = "warps";  // of a block, a row each; 0: a block a row

// A scale or a bias: its element of place `k` of the row, as text.
struct Operand {
  std::string element;
  // A parameter of that type with an element for each of the row, which eight lanes' neighbours are read of at once.
  std::string whole;
  DType dtype = DType::kF32;
};

// The rows of an op, their loops and the element that they give, as texts: of x and of operand0, operand1, ...
struct Row {
  std::vector<int64_t> dims;  // of x, regrouped
  std::vector<bool> along;    // which of them a row goes over
  std::string loops, element;
  std::vector<Operand> operands = {};
};

std::string operand_name(size_t k) { return "operand" + std::to_string(k); }

// Elements of all operands at place `k` of a row, `at` of the result.
std::string operands_text(const Row& row) {
  std::string out;
  for (size_t k = 0; k < row.operands.size(); ++k)
    out += "const float " + operand_name(k) + " = " + row.operands[k].element + "; ";
  return out;
}

std::vector<bool> from_axis(size_t rank, size_t first, size_t last) {
  std::vector<bool> out(rank, false);
  std::fill(out.begin() + static_cast<ptrdiff_t>(first), out.begin() + static_cast<ptrdiff_t>(last), true);
  return out;
}

Result<Row> softmax(const ir::Node& n, const std::vector<int64_t>& d) {
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -1), d.size()));
  const bool log = n.op == "log_softmax";
  return Row{d, from_axis(d.size(), axis, axis + 1),
             std::string(kSoftmax) + (log ? "    const peri_sum_type shift = peri_log(sum);\n" : ""),
             log ? "((peri_sum_type)x - high) - shift" : "peri_exp_less(x, high) / sum"};
}

Result<Row> layer(const Problem& p, const ir::Node& n, const std::vector<int64_t>& d, Signature* s) {
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -1), d.size()));
  Row row{d, from_axis(d.size(), axis, d.size()), {}, "(x - mean) * factor"};
  const bool centred = n.op == "layer_normalization";
  row.loops = (centred ? std::string(kMeanAndSpread) : "    const peri_sum_type mean = 0;\n") + std::string(kSpread) +
              std::string(kInverse);
  const std::vector<int64_t> inner(d.begin() + static_cast<ptrdiff_t>(axis), d.end());
  int64_t length = 1;
  for (const int64_t v : inner) length *= v;
  for (size_t k = 1; k < n.inputs.size(); ++k) {
    if (!n.inputs[k]) continue;
    const int64_t numel = cuda::numel_of(*n.inputs[k]);
    if (numel != length && numel != 1) return refused("scale or bias is neither one value an element nor one");
    PERI_ASSIGN(const std::string name, s->value(p, *n.inputs[k]));
    const DType dtype = n.inputs[k]->type.dtype;
    row.element += (k == 1 ? " * " : " + ") + operand_name(row.operands.size());
    const bool one = numel == 1 && length != 1, given = input_index(*p.graph, n.inputs[k]) >= 0;
    row.operands.push_back({cuda::loaded(dtype, name + (one ? "[0]" : "[k]")), one || !given ? "" : name, dtype});
  }
  return row;
}

// Rows of channels in groups; scale and bias by channel.
Result<Row> group(const Problem& p, const ir::Node& n, const std::vector<int64_t>& d, Signature* s) {
  if (d.size() < 2) return refused("no channels");
  const int64_t groups = n.op == "group_normalization" ? n.i("num_groups", 1) : d[1];
  const int64_t image = cuda::elements_of(std::span(d).subspan(2));
  if (groups < 1 || d[1] % groups != 0) return refused("uneven groups");
  Row row{{d[0] * groups, d[1] / groups * image}, {false, true}, {}, "(x - mean) * factor"};
  row.loops = std::string(kMeanAndSpread) + std::string(kSpread) + std::string(kInverse);
  const std::string channel = "at / " + s->size(image) + " % " + s->size(d[1]);
  for (size_t k = 1; k < 3; ++k) {
    PERI_ASSIGN(const std::string name, s->value(p, *n.in(k)));
    row.element += (k == 1 ? " * " : " + ") + operand_name(row.operands.size());
    row.operands.push_back({cuda::loaded(n.in(k)->type.dtype, name + "[" + channel + "]"), "", n.in(k)->type.dtype});
  }
  return row;
}

Result<Row> mean_variance(const ir::Node& n, const std::vector<int64_t>& d) {
  Row row{d, std::vector<bool>(d.size(), false), {}, "(x - mean) * factor"};
  for (const int64_t axis : n.ints("axes", {0, 2, 3})) {
    PERI_ASSIGN(const size_t at, cuda::axis_within(axis, d.size()));
    row.along[at] = true;
  }
  row.loops = std::string(kMeanAndSpread) + std::string(kSpread) + std::string(kInverseDeviation);
  return row;
}

Result<Row> length(const ir::Node& n, const std::vector<int64_t>& d) {
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -1), d.size()));
  return Row{d, from_axis(d.size(), axis, axis + 1), std::string(kLength), "size == 0 ? (peri_sum_type)0 : x / size"};
}

Result<Row> row_of(const Problem& p, const ir::Node& n, const std::vector<int64_t>& d, Signature* s) {
  if (n.op == "softmax" || n.op == "log_softmax") return softmax(n, d);
  if (n.op == "layer_normalization" || n.op == "rms_normalization") return layer(p, n, d, s);
  if (n.op == "group_normalization" || n.op == "instance_normalization") return group(p, n, d, s);
  if (n.op == "mean_variance_normalization") return mean_variance(n, d);
  if (n.op == "lp_normalization") return length(n, d);
  return refused("not a softmax and no normalisation of rows");
}

// Rows of eight neighbours a thread.
bool reads_once(const Row& row, const cuda::Lines& lines) {
  size_t d = row.along.size();
  while (d > 0 && row.along[d - 1]) --d;
  return std::none_of(row.along.begin(), row.along.begin() + static_cast<ptrdiff_t>(d), [](bool a) { return a; }) &&
         lines.length % 8 == 0 && lines.length <= kMaxOnce;
}

std::string kernel_text(const Row& row, bool once, const std::string& load) {
  std::string out = std::string(once ? kOnce : kAnew) + R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_row(PERI_PARAMETERS) {
  PERI_SHARED peri_sum_type s[32];
  const int t = threadIdx.x;
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    const PERI_INDEX base = peri_line(row, PERI_PASS);
)";
  if (once)
    out +=
        "    float own[8];\n    const bool mine = t * 8 < PERI_COUNT, together = PERI_ALIGNED;\n    if (mine && "
        "together) " +
        load +
        ";\n    if (mine && !together)\n      for (int j = 0; j < 8; ++j) own[j] = peri_x(base + t * 8 + j, "
        "PERI_PASS);\n" +
        row.loops +
        "    if (mine) {\n#pragma unroll\n      for (int j = 0; j < 8; ++j) {\n        const PERI_INDEX k = t * 8 + j, "
        "at "
        "= base + k;\n        const float x = own[j];\n        " +
        operands_text(row) + "own[j] = " + row.element +
        ";\n      }\n      if (together) {\n        peri_finish_8(base + t * 8, own, PERI_PASS);\n      } else {\n"
        "#pragma unroll\n        for (int j = 0; j < 8; ++j) peri_finish(base + t * 8 + j, own[j], PERI_PASS);\n      "
        "}\n    "
        "}\n";
  else
    out += row.loops + R"(    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) {
      const PERI_INDEX at = PERI_AT(k);
      const float x = peri_x(at, PERI_PASS);
      )" + operands_text(row) +
           "peri_finish(at, " + row.element + ", PERI_PASS);\n    }\n";
  return out + "  }\n}\n";
}

// A warp a row: lane t has eight neighbours of each turn.
std::string warp_rows_text(const Row& row, int warps, int64_t turns, DType type, const std::string& x) {
  std::string out = format("#define PERI_WARPS %d\n#define PERI_TURNS %d\n", warps, static_cast<int>(turns)) +
                    std::string(kTurns) + R"(
PERI_KERNEL __launch_bounds__(32 * PERI_WARPS) peri_row(PERI_PARAMETERS) {
  peri_sum_type* const s = 0;
  const int t = threadIdx.x % 32;
  const bool together = PERI_ALIGNED;
  for (PERI_INDEX row = (PERI_INDEX)blockIdx.x * PERI_WARPS + threadIdx.x / 32; row < PERI_ROWS;
       row += (PERI_INDEX)gridDim.x * PERI_WARPS) {
    const PERI_INDEX base = peri_line(row, PERI_PASS);
    float own[8 * PERI_TURNS];
#pragma unroll
    for (int c = 0; c < PERI_TURNS; ++c) {
      const int first = (c * 32 + t) * 8;
      if (first < PERI_COUNT && together) )" +
                    cuda::load_wide(8, type, x + " + base + first", "own + 8 * c") + R"(;
      if (first < PERI_COUNT && !together)
        for (int j = 0; j < 8; ++j) own[8 * c + j] = peri_x(base + first + j, PERI_PASS);
    }
)" + row.loops + R"(
#pragma unroll
    for (int c = 0; c < PERI_TURNS; ++c) {
      const int first = (c * 32 + t) * 8;
      if (first >= PERI_COUNT) continue;
)";
  std::string elements;  // of place j
  for (size_t k = 0; k < row.operands.size(); ++k) {
    const Operand& o = row.operands[k];
    const std::string eight = "eight" + std::to_string(k);
    if (o.whole.empty()) {
      elements += "const float " + operand_name(k) + " = " + o.element + "; ";
      continue;
    }
    out += "      float " + eight + "[8];\n      if (together) " +
           cuda::load_wide(8, o.dtype, o.whole + " + first", eight) +
           ";\n      if (!together)\n        for (int j = 0; j < 8; ++j) {\n          const PERI_INDEX k = first + j;\n"
           "          " +
           eight + "[j] = " + o.element + ";\n        }\n";
    elements += "const float " + operand_name(k) + " = " + eight + "[j]; ";
  }
  return out + R"(#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const PERI_INDEX k = first + j, at = base + k;
        const float x = own[8 * c + j];
        )" +
         elements + "own[8 * c + j] = " + row.element + R"(;
      }
      if (together) {
        peri_finish_8(base + first, own + 8 * c, PERI_PASS);
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) peri_finish(base + first + j, own[8 * c + j], PERI_PASS);
      }
    }
  }
}
)";
}

// Of results that are rounded to bytes the last bits of float32 are none.
bool makes_floats(const ir::Graph& g) {
  return std::any_of(g.outputs.begin(), g.outputs.end(), [](const ir::Value* v) { return is_float(v->type.dtype); });
}

// By a block a row, or by so many warps of a block.
Result<std::vector<KernelLaunch>> plan(const Problem& p, int warps, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  if (n.op != "softmax" && n.op != "log_softmax" && !n.op.ends_with("normalization"))
    return refused("not a softmax and no normalisation of rows");
  Signature s;
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const Row row, row_of(p, n, d, &s));
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  PERI_TRY(cuda::check_row_major(*p.graph));
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  const cuda::Lines lines = cuda::lines_of(row.dims, row.along, &s);
  const bool once = reads_once(row, lines) && input_index(*p.graph, n.in(0)) >= 0;
  PERI_ASSIGN(const std::string finish, once ? cuda::finish_wide_text(p, 8, &s) : cuda::finish_text(p, true, &s));
  const bool by_warps = warps > 0 && once && lines.length <= kMaxTurns;
  if (warps > 0 && !by_warps) return refused("no short rows that lie together").but_found(std::to_string(lines.length));
  if (lines.lines * lines.length == 0) return std::vector<KernelLaunch>{};
  const int threads =
      by_warps ? 32
      : once   ? static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(lines.length / 8, 32))))
               : cuda::row_threads(lines.length);
  const DType type = n.in(0)->type.dtype;
  const std::string body =
      cuda::sums_text(makes_floats(*p.graph) ? type : DType::kF16, gpu) + "#define PERI_ALIGNED (" + s.aligned() +
      ")\n#define PERI_COUNT " + s.size(lines.length) + "\n#define PERI_ROWS " + s.size(lines.lines) +
      "\n#define PERI_AT(K) (base + peri_step(K, PERI_PASS))\n" +
      format("#define PERI_P %d\n", static_cast<int>(n.i("p", 2))) +
      format("#define PERI_EPSILON ((float)%.9g)\n", n.f("epsilon", 1e-5)) + cuda::block_text(threads) +
      "PERI_DEVICE float peri_x(const PERI_INDEX at, PERI_PARAMETERS) { return " + cuda::loaded(type, x + "[at]") +
      "; }\n" + lines.text + finish +
      (by_warps ? warp_rows_text(row, warps, (lines.length + kTurn - 1) / kTurn, type, x)
                : kernel_text(row, once, cuda::load_wide(8, type, x + " + base + t * 8", "own")));
  return std::vector<KernelLaunch>{s.launch("peri_row", s.text(cuda::most_elements(p), body),
                                            cuda::blocks_for(lines.lines, by_warps ? warps : 1),
                                            by_warps ? 32 * warps : threads)};
}

std::string config_of(int warps) { return std::string(kWarpsKey) + "=" + std::to_string(warps); }

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  PERI_TRY(plan(p, 0, gpu));
  std::vector<Offer> out;
  for (const int warps : kWarps) {
    if (!plan(p, warps, gpu).ok()) break;
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().config = config_of(warps);
  }
  out.push_back(cuda::plain_offer(p)[0]);
  return out;
}

// At a size whose rows are longer than a warp takes, as a block takes them.
Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  const cuda::GpuLimits gpu = cuda::limits_of(*context.target);
  PERI_ASSIGN(const int64_t warps, config_int(config, kWarpsKey, 0, 32, 0));
  PERI_ASSIGN(const int64_t turns, setting(cuda_norm_entry.kernel, config, "turns"));
  auto made = plan(p, static_cast<int>(warps), gpu);
  if (warps > 0 && !made.ok()) made = plan(p, 0, gpu);
  PERI_ASSIGN(std::vector<KernelLaunch> launches, std::move(made));
  for (KernelLaunch& l : launches) l.blocks = cuda::blocks_in_turns(l.blocks, turns);
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_norm_entry{{
    .name = "cuda_norm",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "layer, RMS, group, instance and other normalisation, softmax, log-softmax on a GPU, with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f16[9,1024]; const w: f16[1024] = seeded(0.5, 1); const b: f16[1024] = seeded(0.5, 2); "
         "y = layer_normalization(x, w, b); output y }",
         "graph { input x: f16[5,264]; const w: f16[264] = seeded(0.5, 1); y = rms_normalization(x, w); z = relu(y); "
         "output z }",
         "graph { input x: f32[3,6,1016]; y = softmax(x); output y }",
         "graph { input x: bf16[7,8]; y = log_softmax(x); output y }",
         // From bytes to bytes, as quantised models have it: what is summed are floats.
         "graph { input x: f32[6,72]; const w: f32[72] = seeded(0.5, 1); const b: f32[72] = seeded(0.5, 2); const s: "
         "f32[] = [0.02]; const z: u8[] = [119]; y = layer_normalization(x, w, b); u = to_bytes(y, s, z); output u }"},
    .tunables = {cuda::turns_tunable("rows that a block, or a warp, computes one after the other")},
}};

}  // namespace peri::kernels
