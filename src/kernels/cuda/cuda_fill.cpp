// Kernel cuda_fill: results that follow from places or bits alone, on a GPU: eye_like, the mask of a dropout that drops
// nothing, bit_cast between types of one width.
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// 0 or 1 by `condition`, as an element.
Result<std::string> truth(DType t, const std::string& condition) {
  if (t == DType::kF16 || t == DType::kBF16) return cuda::stored(t, "(" + condition + " ? 1.0f : 0.0f)");
  PERI_ASSIGN(const std::string type, cuda::stored_type(t));
  return "(" + type + ")(" + condition + " ? 1 : 0)";
}

// Statements for element `i` of the node's result.
Result<std::string> body_of(const Problem& p, const ir::Node& n, Signature* s) {
  const ir::Value* const out = p.graph->outputs[0];
  if (n.op == "bit_cast") {
    PERI_TRY(cuda::stored_type(n.in(0)->type.dtype));
    const int bytes = dtype_size(out->type.dtype);
    if (bytes != dtype_size(n.in(0)->type.dtype)) return refused("types of two widths");
    const std::string word = bytes == 1   ? "unsigned char"
                             : bytes == 2 ? "unsigned short"
                             : bytes == 4 ? "unsigned"
                                          : "peri_u64";
    PERI_ASSIGN(const std::string from, s->value(p, *n.in(0)));
    PERI_ASSIGN(const std::string to, s->output(p, 0));
    return "    ((" + word + "*)" + to + ")[i] = ((const " + word + "*)" + from + ")[i];\n";
  }
  std::string condition = "true";
  if (n.op == "eye_like") {
    const std::string columns = s->size(dims_of(*out)[1]);
    condition = "(i % " + columns + " - i / " + columns + " == " + s->size(n.i("k")) + ")";
  }
  PERI_ASSIGN(const std::string element, truth(out->type.dtype, condition));
  PERI_ASSIGN(const std::string to, s->output(p, 0));
  return "    " + to + "[i] = " + element + ";\n";
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  const ir::Graph& g = *p.graph;
  const bool drops = n.op == "dropout";
  if (n.op != "eye_like" && n.op != "bit_cast" && !drops) return refused("a result that does not follow from places");
  if (g.nodes.size() != 1 || g.outputs.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(g));
  if (drops && (n.in(2) || n.outputs.size() < 2 || g.outputs[0] != n.outputs[1]))
    return refused("a dropout that may drop, or whose mask is not the result");
  Signature s;
  PERI_ASSIGN(const std::string body, body_of(p, n, &s));
  const int64_t count = cuda::numel_of(*g.outputs[0]);
  return cuda::each_launch(p, s, "peri_fill", count, cuda::each_text("peri_fill", s.size(count), body));
}
}  // namespace

extern const Entry cuda_fill_entry;
const Entry cuda_fill_entry = [] {
  Entry out =
      cuda::entry_of<plan>("cuda_fill", "eye_like, bit_cast, the mask of a dropout that drops nothing on a GPU");
  out.kernel.samples = {"graph { input x: f32[3,4]; y, m = dropout(x); output m }"};
  return out;
}();

}  // namespace peri::kernels
