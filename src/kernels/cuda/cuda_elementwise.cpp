// Kernel cuda_elementwise: a fused region of element-wise ops on a GPU, 16 bytes or one element per thread, any size.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(256) peri_elementwise(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, first = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x;
#if PERI_EIGHT
  if (PERI_ALIGNED) {
    for (PERI_INDEX i = first; i < PERI_COUNT / 8; i += step) peri_finish_8(i * 8, PERI_PASS);
    return;
  }
#endif
  for (PERI_INDEX i = first; i < PERI_COUNT; i += step) peri_finish(i, PERI_PASS);
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  cuda::Signature s;
  PERI_ASSIGN(const cuda::RegionText region, cuda::region_text(p, &s));
  const int64_t count = cuda::numel_of(*p.graph->outputs[0]);
  if (count == 0) return std::vector<KernelLaunch>{};
  const std::string body = region.text + format("#define PERI_EIGHT %d\n", region.eight) + "#define PERI_ALIGNED (" +
                           s.aligned() + ")\n#define PERI_COUNT " + s.size(count) + "\n" + std::string(kKernel);
  const int64_t blocks = cuda::blocks_for(region.eight ? count / 8 : count, 256);
  return std::vector<KernelLaunch>{s.launch("peri_elementwise", s.text(cuda::most_elements(p), body), blocks, 256)};
}

// A guess (see launch.hpp): memory's time.
double guess_ms(const Problem& p) {
  constexpr double kLaunchNs = 1500, kBytesPerNs = 3600;
  double bytes = 0;
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list)
      bytes += static_cast<double>(cuda::numel_of(*v)) * static_cast<double>(dtype_bits(v->type.dtype)) / 8;
  return (kLaunchNs + bytes / kBytesPerNs) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  out[0].guess_ms = guess_ms(p);
  if (const size_t rank = p.graph->outputs[0]->type.rank(); rank >= 3) {
    Offer last = out[0];
    const ir::Layout layout = cuda::channels_last(rank);
    const ir::Graph g = cuda::with_layouts(p, layout, layout, &last);
    if (plan({&g, p.constant}).ok()) out.push_back(std::move(last));
  }
  return out;
}
}  // namespace

extern const Entry cuda_elementwise_entry;
const Entry cuda_elementwise_entry = [] {
  Entry e = cuda::entry_of("cuda_elementwise", "regions of element-wise ops on a GPU, any broadcasting", offer,
                           cuda::instance_of<plan>);
  // Tables of the text along the axis that threads read eight at a time.
  e.kernel.samples = {
      "graph { input n: i64[5,1]; const t: i64[8] = [0, 1, 2, 3, 4, 5, 6, 7]; const a: f32[] = [-1.5]; "
      "const b: f32[] = [0.25]; m = less(t, n); y = where(m, a, b); output y }",
      "graph { input x: f32[3,8]; const t: f32[8] = [0.5, -1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0]; y = "
      "mul(x, t); output y }",
      "graph { input x: f16[3,2,8]; const t: f16[2,1] = [0.5, -1.0]; y = mul(x, t); output y }"};
  return e;
}();

}  // namespace peri::kernels
