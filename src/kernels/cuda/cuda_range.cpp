// Kernel cuda_range: numbers from a start by a step, as many as the result has elements; the limit, from which that
// number was computed, is not read. Positions of a text model, whose number is a size, thus need no host step.
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// A scalar in a register of the type's kind: an argument, a constant of the text, or a size that the launch is given.
Result<std::string> scalar(const Problem& p, const ir::Value& v, Signature* s) {
  if (v.producer && ops::states_sizes(*v.producer)) {
    const std::vector<Dim> dims = v.content ? *v.content : std::vector<Dim>{};
    if (dims.size() != 1 || !dims[0].is_const() || dims[0].value() < INT32_MIN || dims[0].value() > INT32_MAX)
      return refused("a size that is not known, or does not fit 32 bits");
    return "(peri_i64)" + s->size(dims[0].value());
  }
  PERI_ASSIGN(const std::string name, s->value(p, v));
  const DType t = v.type.dtype;
  if (t == DType::kF64) return name + "[0]";
  return is_float(t) ? "(double)" + cuda::loaded(t, name + "[0]") : "(peri_i64)" + name + "[0]";
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "range") return refused("not a range");
  for (const ir::Node* other : p.graph->nodes)
    if (other != &n && !ops::states_sizes(*other)) return refused("takes a range alone");
  const DType t = n.out()->type.dtype;
  if (!is_float(t) && !is_integer(t)) return refused("takes numbers only").but_found(std::string(dtype_name(t)));
  Signature s;
  PERI_ASSIGN(const std::string start, scalar(p, *n.in(0), &s));
  PERI_ASSIGN(const std::string step, scalar(p, *n.in(2), &s));
  PERI_ASSIGN(const std::string type, cuda::stored_type(t));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  // Integers wrap, as the reference's do.
  const std::string value = is_float(t)
                                ? start + " + (double)i * " + step
                                : "(peri_i64)((peri_u64)(" + start + ") + (peri_u64)i * (peri_u64)(" + step + "))";
  const std::string element = t == DType::kF16 || t == DType::kBF16 ? cuda::stored(t, "(float)(" + value + ")")
                                                                    : "(" + type + ")(" + value + ")";
  const int64_t count = cuda::numel_of(*n.out());
  const std::string text = cuda::each_text("peri_range", s.size(count), "    " + to + "[i] = " + element + ";\n");
  return cuda::each_launch(p, s, "peri_range", count, text);
}

Entry entry() {
  Entry out = cuda::entry_of<plan>("cuda_range", "numbers from a start by a step on a GPU, as many as are known");
  out.kernel.samples = {
      "graph { const z: i64[] = [2]; const o: i64[] = [3]; n = dims_constant() {scalar=1, value=dims[23]}; y = "
      "range(z, "
      "n, o); output y }",
      "graph { const o: i64[] = [1]; s = dims_constant() {scalar=1, value=dims[5]}; n = dims_constant() {scalar=1, "
      "value=dims[300]}; y = range(s, n, o); output y }"};
  return out;
}
}  // namespace

extern const Entry cuda_range_entry;
const Entry cuda_range_entry = entry();

}  // namespace peri::kernels
