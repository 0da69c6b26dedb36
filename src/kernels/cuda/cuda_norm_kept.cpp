// Kernel cuda_norm_kept: normalisations that give their statistics too, on a GPU: layer normalisation with its means
// and inverse deviations, batch normalisation that trains; one block of threads per row or channel, sums as in
// sums.hpp.
#include <algorithm>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_kept(PERI_PARAMETERS) {
  PERI_SHARED peri_sum_type s[32];
  for (PERI_INDEX row = blockIdx.x; row < PERI_ROWS; row += gridDim.x) {
    peri_sum_type mean = 0, variance = 0;
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T) mean += peri_x(peri_at(row, k, PERI_PASS), PERI_PASS);
    mean = peri_block_sum(mean, s) / (peri_sum_type)PERI_COUNT;
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T) {
      const peri_sum_type x = peri_x(peri_at(row, k, PERI_PASS), PERI_PASS) - mean;
      variance = peri_fma(x, x, variance);
    }
    variance = peri_block_sum(variance, s) / (peri_sum_type)PERI_COUNT;
    const peri_sum_type factor = 1 / peri_root(variance + PERI_EPSILON);
    for (PERI_INDEX k = threadIdx.x; k < PERI_COUNT; k += PERI_T) {
      const PERI_INDEX at = peri_at(row, k, PERI_PASS);
      const float v = (peri_x(at, PERI_PASS) - mean) * factor PERI_SCALED;
      PERI_STORE;
    }
    if (threadIdx.x == 0) {
      PERI_KEEP
    }
  }
}
)";

// Rows, and the texts of what differs: the place of element k, scale and bias, what is kept of a row.
struct Rows {
  int64_t rows = 1, count = 1;
  std::string at, scaled, keep;
};

// The statement that stores `value` as element `row` of the node's result `k`; none where nothing reads it.
Result<std::string> kept(const Problem& p, size_t k, const std::string& value, Signature* s) {
  const ir::Node& n = p.anchor();
  for (size_t j = 0; k < n.outputs.size() && n.outputs[k] && j < p.graph->outputs.size(); ++j)
    if (p.graph->outputs[j] == n.outputs[k]) {
      PERI_ASSIGN(const std::string to, s->output(p, j));
      return to + "[row] = " + cuda::stored(n.outputs[k]->type.dtype, value) + "; ";
    }
  return std::string();
}
Result<std::string> operand(const Problem& p, size_t port, const std::string& at, Signature* s) {
  PERI_ASSIGN(const std::string from, s->value(p, *p.anchor().in(port)));
  return cuda::loaded(p.anchor().in(port)->type.dtype, from + "[" + at + "]");
}

Result<Rows> layer(const Problem& p, const std::vector<int64_t>& d, Signature* s) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -1), d.size()));
  Rows out;
  out.rows = cuda::elements_of(std::span(d).first(axis));
  out.count = cuda::elements_of(std::span(d).subspan(axis));
  out.at = "row * PERI_COUNT + k";
  for (size_t port = 1; port < 3; ++port) {
    if (!n.in(port)) continue;
    const int64_t elements = cuda::numel_of(*n.in(port));
    if (elements != out.count && elements != 1) return refused("scale or bias is neither one value an element nor one");
    PERI_ASSIGN(const std::string v, operand(p, port, elements == 1 ? "0" : "k", s));
    out.scaled += (port == 1 ? " * " : " + ") + v;
  }
  PERI_ASSIGN(const std::string mean, kept(p, 1, "mean", s));
  PERI_ASSIGN(const std::string factor, kept(p, 2, "factor", s));
  out.keep = mean + factor;
  return out;
}

Result<Rows> trained(const Problem& p, const std::vector<int64_t>& d, Signature* s) {
  const ir::Node& n = p.anchor();
  if (n.i("training_mode") == 0) return refused("given statistics");
  Rows out;
  out.rows = d.size() > 1 ? d[1] : 1;
  out.count = cuda::elements_of(d) / std::max<int64_t>(out.rows, 1);
  const std::string image = s->size(d.size() > 1 ? cuda::elements_of(std::span(d).subspan(2)) : 1);
  out.at = "(k / " + image + " * PERI_ROWS + row) * " + image + " + k % " + image;
  PERI_ASSIGN(const std::string scale, operand(p, 1, "row", s));
  PERI_ASSIGN(const std::string bias, operand(p, 2, "row", s));
  out.scaled = " * " + scale + " + " + bias;
  const double momentum = n.f("momentum", 0.9F);
  const char* const now[] = {"mean", "variance"};
  for (size_t k = 0; k < 2; ++k) {
    PERI_ASSIGN(const std::string before, operand(p, 3 + k, "row", s));
    PERI_ASSIGN(
        const std::string keep,
        kept(p, 1 + k, before + format(" * (float)%.9g + %s * (float)%.9g", momentum, now[k], 1 - momentum), s));
    out.keep += keep;
  }
  return out;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  const bool by_rows = n.op == "layer_normalization";
  if (!by_rows && n.op != "batch_normalization") return refused("no normalisation with statistics as results");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.outputs.size() < 2) return refused("a normalisation whose statistics are no results");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list) {
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
      if (const DType t = v->type.dtype; t != DType::kF32 && t != DType::kF16 && t != DType::kBF16)
        return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(t)));
    }
  const std::vector<int64_t> d = dims_of(*n.in(0));
  if (cuda::elements_of(d) == 0) return refused("an empty tensor");
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const Rows rows, by_rows ? layer(p, d, &s) : trained(p, d, &s));
  std::string store = "(void)v";
  for (size_t j = 0; j < p.graph->outputs.size(); ++j)
    if (p.graph->outputs[j] == n.outputs[0]) {
      PERI_ASSIGN(const std::string to, s.output(p, j));
      store = to + "[at] = " + cuda::stored(n.outputs[0]->type.dtype, "(v)");
    }
  const int threads = cuda::row_threads(rows.count);
  const std::string body =
      cuda::sums_text(n.in(0)->type.dtype, gpu) + "#define PERI_COUNT " + s.size(rows.count) + "\n#define PERI_ROWS " +
      s.size(rows.rows) + format("\n#define PERI_EPSILON ((float)%.9g)\n", n.f("epsilon", 1e-5)) +
      "#define PERI_SCALED " + rows.scaled + "\n#define PERI_STORE " + store + "\n#define PERI_KEEP " + rows.keep +
      "\n" + cuda::block_text(threads) + "PERI_DEVICE float peri_x(const PERI_INDEX at, PERI_PARAMETERS) { return " +
      cuda::loaded(n.in(0)->type.dtype, x + "[at]") +
      "; }\nPERI_DEVICE PERI_INDEX peri_at(const PERI_INDEX row, const PERI_INDEX k, PERI_PARAMETERS) { return " +
      rows.at + "; }\n" + std::string(kKernel);
  return std::vector<KernelLaunch>{
      s.launch("peri_kept", s.text(cuda::most_elements(p), body), cuda::blocks_for(rows.rows, 1), threads)};
}
}  // namespace

extern const Entry cuda_norm_kept_entry;
const Entry cuda_norm_kept_entry = [] {
  Entry out = cuda::entry_of<plan>(
      "cuda_norm_kept", "layer normalisation and training batch normalisation on a GPU, with their statistics");
  out.kernel.samples = {
      "graph { input x: f32[7,3,40]; const w: f32[3,40] = seeded(0.5, 1); const b: f32[3,40] = seeded(0.5, 2); "
      "y, m, d = layer_normalization(x, w, b) {axis=1}; output y; output m; output d }",
      "graph { input x: f16[5,264]; const w: f16[264] = seeded(0.5, 1); y, m, d = layer_normalization(x, w); output y; "
      "output d }",
      "graph { input x: f32[2,3,4,5]; input w: f32[3]; input b: f32[3]; input m: f32[3]; input v: f32[3]; "
      "y, n, u = batch_normalization(x, w, b, m, v) {training_mode=1, momentum=0.75}; output y; output n; output u }"};
  return out;
}();

}  // namespace peri::kernels
