// Kernel cuda_copy: transpose, slice, expand, split, concat and changes of layout on a GPU: contiguous runs are moved
// 16 bytes at a time, a change of the innermost axis goes through tiles of shared memory.
#include <algorithm>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/signature.hpp"
#include "kernels/match/copies.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

constexpr int64_t kTile = 32, kMinTiled = 8;  // side of a tile; shorter axes do not fill one

// An axis of a copy, and its steps in elements.
struct Axis {
  int64_t size, from, to;
};

// Axes that both sides walk alike become one.
std::vector<Axis> axes_of(const CopyShape& shape) {
  std::vector<Axis> out;
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    const Axis a = {shape.dims[d], shape.from_strides[d], shape.to_strides[d]};
    if (a.size == 1) continue;
    if (!out.empty() && out.back().from == a.from * a.size && out.back().to == a.to * a.size)
      out.back() = {out.back().size * a.size, a.from, a.to};
    else
      out.push_back(a);
  }
  return out;
}
// The axis that a side walks in steps of one element, taken out of the list; size 0: none.
Axis taken(std::vector<Axis>* axes, int64_t Axis::* one, int64_t Axis::* other, bool both) {
  const auto it =
      std::find_if(axes->begin(), axes->end(), [&](const Axis& a) { return a.*one == 1 && (a.*other == 1) == both; });
  if (it == axes->end()) return {0, 0, 0};
  const Axis out = *it;
  axes->erase(it);
  return out;
}

// Statements that move `from` and `to` to where `rest` stands among the axes.
std::string walk_text(const std::vector<Axis>& axes, Signature* s) {
  std::string out;
  for (size_t d = axes.size(); d-- > 0;) {
    const std::string size = s->size(axes[d].size);
    out += (out.empty() ? "    PERI_INDEX at = rest % " : "    at = rest % ") + size + "; rest /= " + size +
           "; from += at * " + s->size(axes[d].from) + "; to += at * " + s->size(axes[d].to) + ";\n";
  }
  return out;
}

constexpr std::string_view kRuns = R"(
struct alignas(16) peri_unit { unsigned w[4]; };
template <class T>
PERI_DEVICE void peri_runs(const T* source, T* target, const PERI_INDEX unit, PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, inner = PERI_INNER / unit, count = PERI_ROWS * inner;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < count; i += step) {
    PERI_INDEX from = PERI_FROM_OFFSET, to = PERI_TO_OFFSET;
    peri_walk(i / inner, &from, &to, PERI_PASS);
    target[to / unit + i % inner] = source[from / unit + i % inner];
  }
}
PERI_KERNEL __launch_bounds__(256) peri_copy(PERI_PARAMETERS) {
  if (PERI_WIDE && ((peri_u64)PERI_SOURCE | (peri_u64)PERI_TARGET) % 16 == 0)
    peri_runs((const peri_unit*)PERI_SOURCE, (peri_unit*)PERI_TARGET, 16 / PERI_BYTES, PERI_PASS);
  else
    peri_runs(PERI_SOURCE, PERI_TARGET, 1, PERI_PASS);
}
)";
// Threads along one axis as they read, along the other as they write.
constexpr std::string_view kTiles = R"(
PERI_KERNEL __launch_bounds__(256) peri_copy(PERI_PARAMETERS) {
  PERI_SHARED PERI_TYPE tile[32 * 33];
  const PERI_INDEX reads = (PERI_READ + 31) / 32, writes = (PERI_WRITTEN + 31) / 32;
  const PERI_INDEX r0 = blockIdx.x % reads * 32, w0 = blockIdx.x / reads % writes * 32;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  PERI_INDEX from = PERI_FROM_OFFSET, to = PERI_TO_OFFSET;
  peri_walk(blockIdx.x / reads / writes, &from, &to, PERI_PASS);
  for (int k = y; k < 32; k += 8)
    if (r0 + x < PERI_READ && w0 + k < PERI_WRITTEN)
      tile[k * 33 + x] = PERI_SOURCE[from + r0 + x + (w0 + k) * PERI_WRITTEN_FROM];
  __syncthreads();
  for (int k = y; k < 32; k += 8)
    if (r0 + k < PERI_READ && w0 + x < PERI_WRITTEN)
      PERI_TARGET[to + w0 + x + (r0 + k) * PERI_READ_TO] = tile[x * 33 + k];
}
)";

Result<KernelLaunch> launch_of(const Problem& p, const Copy& c) {
  const CopyShape& shape = c.shape;
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *c.from));
  PERI_ASSIGN(const std::string to, s.output(p, c.output));
  PERI_ASSIGN(const std::string type, cuda::stored_type(c.from->type.dtype));
  const int bytes = dtype_size(c.from->type.dtype);
  std::vector<Axis> axes = axes_of(shape);
  const Axis inner = taken(&axes, &Axis::from, &Axis::to, true);
  std::vector<Axis> others = axes;
  const Axis read = taken(&others, &Axis::from, &Axis::to, false),
             written = taken(&others, &Axis::to, &Axis::from, false);
  const bool tiled = inner.size == 0 && read.size >= kMinTiled && written.size >= kMinTiled && read.to > 0;
  const std::vector<Axis>& outer = tiled ? others : axes;
  int64_t rows = 1;
  bool wide = inner.size * bytes % 16 == 0 && shape.from_offset * bytes % 16 == 0 && shape.to_offset * bytes % 16 == 0;
  for (const Axis& a : outer) {
    rows *= a.size;
    wide = wide && a.from * bytes % 16 == 0 && a.to * bytes % 16 == 0;
  }
  const auto define = [](const char* name, const std::string& value) {
    return std::string("#define PERI_") + name + " " + value + "\n";
  };
  std::string body = define("SOURCE", from) + define("TARGET", to) + define("TYPE", type) +
                     define("BYTES", std::to_string(bytes)) + define("FROM_OFFSET", s.size(shape.from_offset)) +
                     define("TO_OFFSET", s.size(shape.to_offset)) +
                     "PERI_DEVICE void peri_walk(PERI_INDEX rest, PERI_INDEX* peri_from, PERI_INDEX* peri_to, "
                     "PERI_PARAMETERS) {\n    PERI_INDEX from = *peri_from, to = *peri_to;\n" +
                     walk_text(outer, &s) + "    *peri_from = from, *peri_to = to;\n}\n";
  int64_t blocks = 0;
  if (tiled) {
    body += define("READ", s.size(read.size)) + define("WRITTEN", s.size(written.size)) +
            define("READ_TO", s.size(read.to)) + define("WRITTEN_FROM", s.size(written.from)) + std::string(kTiles);
    blocks = rows * ((read.size + kTile - 1) / kTile) * ((written.size + kTile - 1) / kTile);
    if (blocks > cuda::kMaxBlocks) return refused("more tiles than a grid has blocks");
  } else {
    const int64_t run = std::max<int64_t>(inner.size, 1);
    body += define("ROWS", s.size(rows)) + define("INNER", s.size(run)) +
            define("WIDE", s.size(wide && inner.size > 0)) + std::string(kRuns);
    blocks = cuda::blocks_for(rows * run / (wide && inner.size > 0 ? 16 / bytes : 1), 256);
  }
  return s.launch("peri_copy", s.text(cuda::most_elements(p), body), blocks, 256);
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  PERI_ASSIGN(const std::vector<Copy> copies, read_copies(p));
  std::vector<KernelLaunch> out;
  for (const Copy& c : copies) {
    PERI_ASSIGN(const int64_t elements, check_copy(c.shape));
    if (elements == 0) continue;
    PERI_ASSIGN(out.emplace_back(), launch_of(p, c));
  }
  return out;
}

// An axis that is repeated is read once.
Result<double> guess_ms(const Problem& p) {
  PERI_ASSIGN(const std::vector<Copy> copies, read_copies(p));
  size_t launches = 0;
  double bytes = 0;
  for (const Copy& c : copies) {
    PERI_ASSIGN(const int64_t elements, check_copy(c.shape));
    if (elements == 0) continue;
    ++launches;
    bytes += static_cast<double>(dtype_size(c.from->type.dtype)) *
             static_cast<double>(elements + std::min(elements, cuda::numel_of(*c.from)));
  }
  return cuda::moving_ms(std::max<size_t>(launches, 1), bytes);
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  const bool relayout = p.anchor().op == "relayout";
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list)
      if (!relayout && !v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  PERI_ASSIGN(out[0].guess_ms, guess_ms(p));
  if (const size_t rank = p.graph->outputs[0]->type.rank(); p.anchor().op == "concat" && rank >= 3) {
    Offer last = out[0];
    const ir::Layout layout = cuda::channels_last(rank);
    const ir::Graph g = cuda::with_layouts(p, layout, layout, &last);
    if (plan({&g, p.constant}).ok()) out.push_back(std::move(last));
  }
  for (size_t k = 0; relayout && k < p.graph->inputs.size(); ++k) out[0].inputs[k] = p.graph->inputs[k]->type.layout;
  for (size_t k = 0; relayout && k < p.graph->outputs.size(); ++k) out[0].outputs[k] = p.graph->outputs[k]->type.layout;
  return out;
}
}  // namespace

extern const Entry cuda_copy_entry;
const Entry cuda_copy_entry = [] {
  Entry e = cuda::entry_of<offer, cuda::instance_of<plan>>(
      "cuda_copy", "transpose, slice, expand, split, concat and changes of layout on a GPU");
  e.kernel.samples = {"graph { input x: f16[2,3,5,7]; y: f16[2,3,5,7]@0231 = relayout(x); output y }",
                      "graph { input x: f32[2,3,5,7]@0231; y: f32[2,3,5,7] = relayout(x); output y }",
                      "graph { input x: i64[1,33,9,19]; y: i64[1,33,9,19]@0231 = relayout(x); output y }",
                      "graph { input x: bf16[3,80,41,7]@0231; y: bf16[3,80,41,7] = relayout(x); output y }",
                      "graph { input x: f16[3,40,33]; y: f16[3,40,33]@021 = relayout(x); output y }"};
  return e;
}();

}  // namespace peri::kernels
