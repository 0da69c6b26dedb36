// Kernel cuda_elementwise: a fused region of element-wise ops on a GPU, one thread an element, any size.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  cuda::Signature signature;
  PERI_ASSIGN(const std::string finish, cuda::finish_any_text(p, false, &signature));
  int64_t count = 1;
  for (const int64_t d : dims_of(*p.graph->outputs[0])) count *= d;
  const std::string n = signature.size(count);
  const std::string body = finish + R"(PERI_KERNEL __launch_bounds__(256) peri_elementwise(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < )" +
                           n + R"(; i += step) peri_finish(i, PERI_PASS);
}
)";
  std::vector<KernelLaunch> out;
  if (count > 0)
    out.push_back(signature.launch("peri_elementwise", signature.text(cuda::most_elements(p), body),
                                   cuda::blocks_for(count, 256), 256));
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  if (const size_t rank = p.graph->outputs[0]->type.rank(); rank >= 3) {
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

extern const Entry cuda_elementwise_entry;
const Entry cuda_elementwise_entry{{
    .name = "cuda_elementwise",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "regions of element-wise ops on a GPU, any broadcasting",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
