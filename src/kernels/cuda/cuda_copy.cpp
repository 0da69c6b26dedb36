// Kernel cuda_copy: transpose, slice, expand, split, concat on a GPU, one thread an element.
#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/copies.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

Result<KernelLaunch> launch_of(const Problem& p, const Copy& c) {
  const cpu::move::CopyShape& shape = c.shape;
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *c.from));
  PERI_ASSIGN(const std::string to, s.output(p, c.output));
  int64_t count = 1;
  for (const int64_t d : shape.dims) count *= d;
  std::string walk;
  for (size_t d = shape.dims.size(); d-- > 0;) {
    if (shape.dims[d] == 1) continue;
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
  return cuda::plain_offer(p);
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
