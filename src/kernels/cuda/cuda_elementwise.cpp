// Kernel cuda_elementwise: a fused region of element-wise ops on a GPU, 16 bytes or one element per thread, any size.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels {
extern const Entry cuda_elementwise_entry;

namespace {
using cuda::KernelLaunch;

constexpr int64_t kThreads = 256;  // of a block

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(PERI_T) peri_elementwise(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * PERI_T, first = (PERI_INDEX)blockIdx.x * PERI_T + threadIdx.x;
#if PERI_EIGHT
  if (PERI_ALIGNED) {
    for (PERI_INDEX i = first; i < PERI_COUNT / 8; i += step) peri_finish_8(i * 8, PERI_PASS);
    return;
  }
#endif
  for (PERI_INDEX i = first; i < PERI_COUNT; i += step) peri_finish(i, PERI_PASS);
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p, int64_t threads = kThreads) {
  cuda::Signature s;
  PERI_ASSIGN(const cuda::RegionText region, cuda::region_text(p, &s));
  const int64_t count = cuda::numel_of(*p.graph->outputs[0]);
  if (count == 0) return std::vector<KernelLaunch>{};
  const std::string body = region.text + "#define PERI_T " + std::to_string(threads) +
                           format("\n#define PERI_EIGHT %d\n", region.eight) + "#define PERI_ALIGNED (" + s.aligned() +
                           ")\n#define PERI_COUNT " + s.size(count) + "\n" + std::string(kKernel);
  const int block = static_cast<int>(threads);
  const int64_t blocks = cuda::blocks_for(region.eight ? count / 8 : count, block);
  return std::vector<KernelLaunch>{s.launch("peri_elementwise", s.text(cuda::most_elements(p), body), blocks, block)};
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

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext&) {
  PERI_ASSIGN(const int64_t threads, setting(cuda_elementwise_entry.kernel, config, "threads"));
  PERI_ASSIGN(const int64_t turns, setting(cuda_elementwise_entry.kernel, config, "turns"));
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, threads == 0 ? kThreads : threads));
  for (KernelLaunch& l : launches) l.blocks = cuda::blocks_in_turns(l.blocks, turns);
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_elementwise_entry = [] {
  Entry e =
      cuda::entry_of<offer, instantiate>("cuda_elementwise", "regions of element-wise ops on a GPU, any broadcasting");
  // Tables of the text along the axis that threads read eight at a time.
  e.kernel.samples = {
      "graph { input n: i64[5,1]; const t: i64[8] = [0, 1, 2, 3, 4, 5, 6, 7]; const a: f32[] = [-1.5]; "
      "const b: f32[] = [0.25]; m = less(t, n); y = where(m, a, b); output y }",
      "graph { input x: f32[3,8]; const t: f32[8] = [0.5, -1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0]; y = "
      "mul(x, t); output y }",
      "graph { input x: f16[3,2,8]; const t: f16[2,1] = [0.5, -1.0]; y = mul(x, t); output y }"};
  e.kernel.tunables = {{"threads", "threads of a block", {128, 512}},
                       cuda::turns_tunable("elements, or eights of them, that a thread computes one after the other")};
  return e;
}();

}  // namespace peri::kernels
