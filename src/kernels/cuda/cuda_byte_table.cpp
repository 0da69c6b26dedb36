// Kernel cuda_byte_table: bytes mapped through a table of 256, in any layout, on a GPU: the table in shared memory,
// sixteen bytes a thread.
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;

constexpr std::string_view kKernel = R"(
PERI_DEVICE unsigned peri_mapped(const unsigned char* table, const unsigned w) {
  return (unsigned)table[w & 255u] | (unsigned)table[w >> 8 & 255u] << 8 | (unsigned)table[w >> 16 & 255u] << 16 |
         (unsigned)table[w >> 24] << 24;
}
PERI_KERNEL __launch_bounds__(256) peri_byte_table(PERI_PARAMETERS) {
  PERI_SHARED unsigned char table[256];
  const unsigned char *const x = (const unsigned char*)PERI_X, *const from = (const unsigned char*)PERI_TABLE_AT;
  unsigned char* const y = (unsigned char*)PERI_Y;
  table[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  const PERI_INDEX first = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x, step = (PERI_INDEX)gridDim.x * 256;
  PERI_INDEX done = 0;
  if (PERI_ALIGNED) {
    done = PERI_COUNT / 16 * 16;
    for (PERI_INDEX i = first; i < PERI_COUNT / 16; i += step) {
      peri_16 a = ((const peri_16*)x)[i];
#pragma unroll
      for (int k = 0; k < 4; ++k) a.w[k] = peri_mapped(table, a.w[k]);
      ((peri_16*)y)[i] = a;
    }
  }
  for (PERI_INDEX i = done + first; i < PERI_COUNT; i += step) y[i] = table[x[i]];
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "byte_table") return refused("no table of bytes");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (!(n.in(0)->type.layout == n.out()->type.layout)) return refused("another layout of the result");
  cuda::Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string y, s.output(p, 0));
  const std::string aligned = s.aligned();
  PERI_ASSIGN(const std::string table, s.value(p, *n.in(1)));
  const int64_t count = cuda::numel_of(*n.out());
  if (count == 0) return std::vector<KernelLaunch>{};
  const std::string body = "#define PERI_X " + x + "\n#define PERI_Y " + y + "\n#define PERI_TABLE_AT " + table +
                           "\n#define PERI_ALIGNED (" + aligned + ")\n#define PERI_COUNT " + s.size(count) + "\n" +
                           std::string(kKernel);
  return std::vector<KernelLaunch>{
      s.launch("peri_byte_table", s.text(cuda::most_elements(p), body), cuda::blocks_for((count + 15) / 16, 256), 256)};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  if (const size_t rank = p.graph->outputs[0]->type.rank(); rank >= 3) {
    out.push_back(out[0]);
    cuda::with_layouts(p, cuda::channels_last(rank), cuda::channels_last(rank), &out.back());
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_byte_table_entry;
const Entry cuda_byte_table_entry = [] {
  Entry e = cuda::entry_of<offer, instantiate>("cuda_byte_table", "bytes through a table of 256 on a GPU");
  e.kernel.samples = {
      "graph { input x: u8[2,16,5,3]; const t: i8[256] = seeded(50, 1); y = byte_table(x, t); output y }"};
  return e;
}();

}  // namespace peri::kernels
