// Kernel cuda_norm: LayerNorm, RMSNorm, softmax and log-softmax with the element-wise chain behind them, on a GPU: a
// block of threads a row, sums in float32.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/rows.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

Result<size_t> axis_of(const ir::Node& n, size_t rank) {
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return refused("a bad axis");
  return static_cast<size_t>(axis);
}

// Loops over the row of `PERI_COUNT` elements x(k); PERI_AT(k) is the place of element k.
constexpr std::string_view kSoftmax = R"(
    float high = -peri_inf();
    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) high = peri_max(high, peri_x(PERI_AT(k), PERI_PASS));
    high = peri_block_max(high, s);
    float sum = 0.0f;
    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) sum += expf(peri_x(PERI_AT(k), PERI_PASS) - high);
    sum = peri_block_sum(sum, s);
)";
constexpr std::string_view kMeanAndSpread = R"(
    float mean = 0.0f;
    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) mean += peri_x(PERI_AT(k), PERI_PASS);
    mean = peri_block_sum(mean, s) / (float)PERI_COUNT;
)";
constexpr std::string_view kFactor = R"(
    float factor = 0.0f;
    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) {
      const float x = peri_x(PERI_AT(k), PERI_PASS) - mean;
      factor = fmaf(x, x, factor);
    }
    factor = 1.0f / sqrtf(peri_block_sum(factor, s) / (float)PERI_COUNT + PERI_EPSILON);
)";

// The row's loops and the element that they give, as texts.
struct Row {
  cuda::Around shape;
  std::string loops, element;
};

Result<Row> softmax(const ir::Node& n, const std::vector<int64_t>& d) {
  PERI_ASSIGN(const size_t axis, axis_of(n, d.size()));
  const bool log = n.op == "log_softmax";
  return Row{cuda::around(d, axis, axis + 1),
             std::string(kSoftmax) + (log ? "    const float shift = logf(sum);\n" : ""),
             log ? "(x - high) - shift" : "expf(x - high) / sum"};
}

Result<Row> norm(const Problem& p, const ir::Node& n, const std::vector<int64_t>& d, Signature* s) {
  PERI_ASSIGN(const size_t axis, axis_of(n, d.size()));
  Row row;
  row.shape = cuda::around(d, axis, d.size());
  const bool centred = n.op == "layer_normalization";
  row.loops = (centred ? std::string(kMeanAndSpread) : "    const float mean = 0.0f;\n") + std::string(kFactor);
  row.element = "(x - mean) * factor";
  for (size_t k = 1; k < n.inputs.size(); ++k) {
    if (!n.inputs[k]) continue;
    int64_t numel = 1;
    for (const int64_t v : dims_of(*n.inputs[k])) numel *= v;
    if (numel != row.shape.axis) return refused("scale or bias is not one value an element");
    PERI_ASSIGN(const std::string name, s->value(p, *n.inputs[k]));
    row.element += (k == 1 ? " * " : " + ") + cuda::loaded(n.inputs[k]->type.dtype, name + "[k]");
  }
  return row;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  const bool soft = n.op == "softmax" || n.op == "log_softmax";
  if (!soft && n.op != "layer_normalization" && n.op != "rms_normalization")
    return refused("not a softmax and no row normalisation");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  Signature s;
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const Row row, soft ? softmax(n, d) : norm(p, n, d, &s));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  const auto& [outer, axis, inner] = row.shape;
  if (outer * axis * inner == 0) return std::vector<KernelLaunch>{};
  const int threads = cuda::row_threads(axis);
  std::string body = "#define PERI_COUNT " + s.size(axis) + "\n#define PERI_ROWS " + s.size(outer * inner) +
                     "\n#define PERI_INNER " + (inner == 1 ? "1" : s.size(inner)) +
                     "\n#define PERI_AT(K) (base + (K) * PERI_INNER)\n" +
                     format("#define PERI_EPSILON ((float)%.9g)\n", n.f("epsilon", 1e-5)) + cuda::block_text(threads) +
                     "PERI_DEVICE float peri_x(const PERI_INDEX at, PERI_PARAMETERS) { return " +
                     cuda::loaded(n.in(0)->type.dtype, x + "[at]") + "; }\n" + finish;
  body += R"(PERI_KERNEL __launch_bounds__(PERI_T) peri_row(PERI_PARAMETERS) {
  PERI_SHARED float s[PERI_T];
  const int t = threadIdx.x;
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    const PERI_INDEX base = row / PERI_INNER * PERI_INNER * PERI_COUNT + row % PERI_INNER;
)" + row.loops +
          R"(    for (PERI_INDEX k = t; k < PERI_COUNT; k += PERI_T) {
      const float x = peri_x(PERI_AT(k), PERI_PASS);
      peri_finish(PERI_AT(k), )" +
          row.element + R"(, PERI_PASS);
    }
  }
}
)";
  return std::vector<KernelLaunch>{
      s.launch("peri_row", s.text(cuda::most_elements(p), body), cuda::blocks_for(outer * inner, 1), threads)};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  return cuda::plain_offer(p);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_norm_entry;
const Entry cuda_norm_entry{{
    .name = "cuda_norm",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "LayerNorm, RMSNorm, softmax and log-softmax on a GPU with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
