// Kernel cuda_relayout: images between row-major and channels last on a GPU: every image is a matrix that is turned
// over, tile by tile through shared memory.
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(256) peri_relayout(PERI_PARAMETERS) {
  PERI_SHARED PERI_ELEMENT tile[32][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const PERI_INDEX tiles_r = (PERI_ROWS + 31) / 32, tiles_c = (PERI_COLUMNS + 31) / 32, tiles = PERI_IMAGES * tiles_r * tiles_c;
  for (PERI_INDEX at = blockIdx.x; at < tiles; at += gridDim.x) {
    const PERI_INDEX c0 = at % tiles_c * 32, r0 = at / tiles_c % tiles_r * 32;
    const PERI_INDEX image = at / tiles_c / tiles_r * PERI_ROWS * PERI_COLUMNS;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
      if (r0 + y + k < PERI_ROWS && c0 + x < PERI_COLUMNS)
        tile[y + k][x] = PERI_FROM[image + (r0 + y + k) * PERI_COLUMNS + c0 + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 8)
      if (c0 + y + k < PERI_COLUMNS && r0 + x < PERI_ROWS)
        PERI_TO[image + (c0 + y + k) * PERI_ROWS + r0 + x] = tile[x][y + k];
    __syncthreads();
  }
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "relayout" || p.graph->nodes.size() != 1) return refused("not a change of layout");
  const ir::Type &from = n.in(0)->type, &to = n.out()->type;
  if (from.rank() < 3) return refused("takes three dimensions or more");
  const ir::Layout last = cuda::channels_last(from.rank());
  const bool forward = from.layout.row_major() && to.layout == last,
             back = from.layout == last && to.layout.row_major();
  if (!forward && !back) return refused("takes row-major and channels last only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t pixels = 1;
  for (size_t k = 2; k < d.size(); ++k) pixels *= d[k];
  const int64_t rows = forward ? d[1] : pixels, columns = forward ? pixels : d[1];
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string y, s.output(p, 0));
  PERI_ASSIGN(const std::string type, cuda::stored_type(from.dtype));
  const std::string body = "#define PERI_FROM " + x + "\n#define PERI_TO " + y + "\n#define PERI_ELEMENT " + type +
                           "\n#define PERI_IMAGES " + s.size(d[0]) + "\n#define PERI_ROWS " + s.size(rows) +
                           "\n#define PERI_COLUMNS " + s.size(columns) + "\n" + std::string(kKernel);
  const int64_t tiles = d[0] * ((rows + 31) / 32) * ((columns + 31) / 32);
  std::vector<KernelLaunch> out;
  if (tiles > 0)
    out.push_back(s.launch("peri_relayout", s.text(cuda::most_elements(p), body), cuda::blocks_for(tiles, 1), 256));
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  Offer o;
  o.inputs = {p.graph->inputs[0]->type.layout};
  o.outputs = {p.graph->outputs[0]->type.layout};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_relayout_entry;
const Entry cuda_relayout_entry{{
    .name = "cuda_relayout",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "row-major to channels last and back on a GPU",
    .offer = offer,
    .instantiate = instantiate,
    .samples = {"graph { input x: f16[2,3,5,7]; y: f16[2,3,5,7]@0231 = relayout(x); output y }",
                "graph { input x: f32[2,3,5,7]@0231; y: f32[2,3,5,7] = relayout(x); output y }",
                "graph { input x: i64[1,33,9,19]; y: i64[1,33,9,19]@0231 = relayout(x); output y }",
                "graph { input x: bf16[3,80,41,7]@0231; y: bf16[3,80,41,7] = relayout(x); output y }",
                "graph { input x: f16[3,40,33]; y: f16[3,40,33]@021 = relayout(x); output y }"},
}};

}  // namespace peri::kernels
