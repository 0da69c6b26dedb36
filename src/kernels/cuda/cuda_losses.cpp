// Kernel cuda_losses: the negative log likelihood of targets on a GPU, each by a thread, or their sum or mean by one
// block in a fixed order; a target that is no class is the run's error.
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

constexpr int kThreads = 256;  // of the one block of a sum, as other kernels have. Not varied
constexpr std::string_view kSums = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_losses(PERI_PARAMETERS) {
  PERI_SHARED float s[32];
  float sum = 0.0f, weights = 0.0f;
  for (PERI_INDEX i = threadIdx.x; i < PERI_TARGETS; i += PERI_T) sum += peri_loss(i, &weights, PERI_PASS);
  sum = peri_block_sum(sum, s);
  weights = peri_block_sum(weights, s);
  if (threadIdx.x == 0) PERI_Y[0] = PERI_END;
}
)";

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "negative_log_likelihood_loss") return refused("not a negative log likelihood");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list) {
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
      if (v->type.dtype == DType::kF64) return refused("takes f32, f16 and bf16 only").but_found("f64");
    }
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const int64_t count = cuda::numel_of(*n.in(1));
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string target, s.value(p, *n.in(1)));
  std::string weight = "1.0f";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string weights, s.value(p, *n.in(2)));
    weight = cuda::loaded(n.in(2)->type.dtype, weights + "[t]");
  }
  PERI_ASSIGN(const std::string y, s.output(p, 0));
  const DType type = n.out()->type.dtype;
  const std::string how = n.s("reduction", "mean");
  const std::string classes = s.size(d[1]), inner = s.size(cuda::elements_of(std::span(d).subspan(2)));
  const std::string ignored =
      n.has("ignore_index") ? format("  if (t == %lldll) return 0.0f;\n", static_cast<long long>(n.i("ignore_index")))
                            : "";
  std::string text =
      "PERI_DEVICE float peri_loss(const PERI_INDEX i, float* weights, PERI_PARAMETERS) {\n  const peri_i64 t = "
      "(peri_i64)" +
      target + "[i];\n" + ignored + "  if (t < 0 || t >= " + classes + ") {\n    *" + s.fault() +
      " = 1;\n    return 0.0f;\n  }\n  const float weight = " + weight +
      ";\n  *weights += weight;\n  return -weight * " +
      cuda::loaded(n.in(0)->type.dtype,
                   x + "[(i / " + inner + " * " + classes + " + (PERI_INDEX)t) * " + inner + " + i % " + inner + "]") +
      ";\n}\n";
  cuda::Planned out;
  out.faults = {invalid("a target is not a class")
                    .expecting(format("[0, %lld)", static_cast<long long>(d[1])))
                    .advise("check the input that holds the targets")};
  if (how == "none") {
    text += cuda::each_text("peri_losses", s.size(count),
                            "    float weights = 0.0f;\n    const float v = peri_loss(i, &weights, PERI_PASS);\n    " +
                                y + "[i] = " + cuda::stored(type, "v") + ";\n");
    out.launches = cuda::each_launch(p, s, "peri_losses", count, text);
    return out;
  }
  if (how != "sum" && how != "mean") return refused("reduction %s", how.c_str());
  text = cuda::block_text(kThreads) + text + "#define PERI_TARGETS " + s.size(count) + "\n#define PERI_Y " + y +
         "\n#define PERI_END " + cuda::stored(type, how == "sum" ? "sum" : "(sum / weights)") + "\n" +
         std::string(kSums);
  out.launches = {s.launch("peri_losses", s.text(cuda::most_elements(p), text), 1, kThreads)};
  return out;
}
}  // namespace

extern const Entry cuda_losses_entry;
const Entry cuda_losses_entry =
    cuda::entry_of<plan>("cuda_losses", "negative_log_likelihood_loss on a GPU, each, their sum or mean");

}  // namespace peri::kernels
