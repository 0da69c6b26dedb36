// Kernel cuda_copy: transpose, slice, expand, split, concat on a GPU, one thread an element, or 16 bytes of them.
#include <algorithm>

#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/copies.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// Dims in the order in which the result lies in memory; elements of 16 bytes where those of the last dim lie together
// on both sides.
cpu::move::CopyShape arranged(const cpu::move::CopyShape& shape, bool aligned) {
  std::vector<size_t> order;
  for (size_t d = 0; d < shape.dims.size(); ++d)
    if (shape.dims[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return shape.to_strides[a] > shape.to_strides[b]; });
  cpu::move::CopyShape out = shape;
  out.dims.clear(), out.from_strides.clear(), out.to_strides.clear();
  for (const size_t d : order) {
    out.dims.push_back(shape.dims[d]);
    out.from_strides.push_back(shape.from_strides[d]), out.to_strides.push_back(shape.to_strides[d]);
  }
  const int64_t each = 16 / shape.element_bytes;
  if (!aligned || order.empty() || out.from_strides.back() != 1 || out.to_strides.back() != 1) return out;
  bool wide = out.dims.back() % each == 0 && out.from_offset % each == 0 && out.to_offset % each == 0;
  for (size_t d = 0; d + 1 < order.size(); ++d)
    wide = wide && out.from_strides[d] % each == 0 && out.to_strides[d] % each == 0;
  if (!wide) return out;
  out.element_bytes = 16;
  out.dims.back() /= each, out.from_offset /= each, out.to_offset /= each;
  for (size_t d = 0; d + 1 < order.size(); ++d) out.from_strides[d] /= each, out.to_strides[d] /= each;
  return out;
}

Result<KernelLaunch> launch_of(const Problem& p, const Copy& c) {
  const bool parameter = input_index(*p.graph, c.from) >= 0;  // else a table of the text, at any address
  const cpu::move::CopyShape shape = arranged(c.shape, parameter);
  Signature s;
  PERI_ASSIGN(std::string from, s.value(p, *c.from));
  PERI_ASSIGN(std::string to, s.output(p, c.output));
  if (shape.element_bytes == 16 && c.shape.element_bytes != 16)
    from = "((const peri_16*)" + from + ")", to = "((peri_16*)" + to + ")";
  int64_t count = 1;
  for (const int64_t d : shape.dims) count *= d;
  std::string walk;
  for (size_t d = shape.dims.size(); d-- > 0;) {
    const std::string size = s.size(shape.dims[d]);
    walk += "    at = rest % " + size + "; rest /= " + size + ";\n    from += at * " + s.size(shape.from_strides[d]) +
            "; to += at * " + s.size(shape.to_strides[d]) + ";\n";
  }
  const std::string body =
      R"(PERI_KERNEL __launch_bounds__(256) peri_copy(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < )" +
      s.size(count) + "; i += step) {\n    PERI_INDEX rest = i, at = 0, from = " + s.size(shape.from_offset) +
      ", to = " + s.size(shape.to_offset) + ";\n" + walk + "    " + to + "[to] = " + from + "[from];\n  }\n}\n";
  return s.launch("peri_copy", s.text(cuda::most_elements(p), body), cuda::blocks_for(count, 256), 256);
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  PERI_ASSIGN(const std::vector<Copy> copies, read_copies(p));
  std::vector<KernelLaunch> out;
  for (const Copy& c : copies) {
    PERI_ASSIGN(const auto checked, cpu::move::make_plan(c.shape));  // every place within the sizes
    if (checked.tasks == 0) continue;
    PERI_ASSIGN(out.emplace_back(), launch_of(p, c));
  }
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  if (p.anchor().op == "relayout") return refused("changes of layout stay with the kernels that ask for them");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  if (const size_t rank = p.graph->outputs[0]->type.rank(); p.anchor().op == "concat" && rank >= 3) {
    Offer last = out[0];
    const ir::Layout layout = cuda::channels_last(rank);
    const ir::Graph g = cuda::with_layouts(p, layout, layout, &last);
    if (plan({&g, p.constant}).ok()) out.push_back(std::move(last));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_copy_entry;
const Entry cuda_copy_entry{{
    .name = "cuda_copy",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "transpose, slice, expand, split and concat on a GPU",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
