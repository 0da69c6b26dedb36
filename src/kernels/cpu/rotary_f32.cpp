// Kernel rotary_f32: rotary_embedding of f32, rotating halves or adjacent elements, positions by index or in order.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexed.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskElements = 1 << 14;

struct Shape {
  int64_t batch = 1, heads = 1, places = 1, depth = 1, width = 1, rows = 0;
  bool four = true, interleaved = false, by_index = false;
  int64_t lines() const { return batch * heads * places; }
  int64_t lines_per_task() const { return std::max<int64_t>(1, kTaskElements / depth); }
  int64_t tasks() const { return (lines() + lines_per_task() - 1) / lines_per_task(); }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "rotary_embedding") return refused("not a rotary embedding");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  Shape s;
  s.four = d.size() == 4;
  s.batch = d[0];
  s.heads = s.four ? d[1] : n.i("num_heads");
  s.places = d[s.four ? 2 : 1];
  s.depth = s.four ? d[3] : d[2] / std::max<int64_t>(s.heads, 1);
  s.width = n.i("rotary_embedding_dim") == 0 ? s.depth : n.i("rotary_embedding_dim");
  s.interleaved = n.i("interleaved") != 0;
  s.by_index = n.in(3) != nullptr;
  s.rows = s.by_index ? dims_of(*n.in(1))[0] : s.batch * s.places;
  if (s.lines() * s.depth == 0) return refused("an empty tensor");
  return s;
}

void turn_halves(const float* x, const float* c, const float* s, float* y, int64_t half) {
  for (int64_t k = 0; k < half; ++k) y[k] = x[k] * c[k] - x[k + half] * s[k];
  for (int64_t k = 0; k < half; ++k) y[k + half] = x[k + half] * c[k] + x[k] * s[k];
}
void turn_neighbours(const float* x, const float* c, const float* s, float* y, int64_t half) {
  for (int64_t k = 0; k < half; ++k) {
    const float a = x[2 * k], b = x[2 * k + 1];
    y[2 * k] = a * c[k] - b * s[k];
    y[2 * k + 1] = b * c[k] + a * s[k];
  }
}

bool run_task(const Shape& s, const float* x, const float* cosine, const float* sine, const int64_t* ids, float* y,
              int64_t task) {
  const int64_t begin = task * s.lines_per_task(), end = std::min(s.lines(), begin + s.lines_per_task()),
                half = s.width / 2;
  for (int64_t line = begin; line < end; ++line) {
    const int64_t b = line / (s.heads * s.places), place = s.four ? line % s.places : line / s.heads % s.places;
    int64_t row = b * s.places + place;
    if (ids) {
      row = ids[row] + (ids[row] < 0 ? s.rows : 0);
      if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(s.rows)) return false;
    }
    const float* const from = x + line * s.depth;
    float* const to = y + line * s.depth;
    (s.interleaved ? turn_neighbours : turn_halves)(from, cosine + row * half, sine + row * half, to, half);
    std::copy(from + s.width, from + s.depth, to + s.width);
  }
  return true;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = p.anchor();
  const Source x = Source::of(p, n.in(0), c.constants), cosine = Source::of(p, n.in(1), c.constants),
               sine = Source::of(p, n.in(2), c.constants), ids = Source::of(p, n.in(3), c.constants);
  if (!x.known() || !cosine.known() || !sine.known() || (s.by_index && !ids.known()))
    return refused("reads a value made inside the region");
  const auto run = [=](int64_t task, const Args& args) {
    return run_task(s, x.f32(args), cosine.f32(args), sine.f32(args),
                    s.by_index ? static_cast<const int64_t*>(ids.data(args)) : nullptr,
                    static_cast<float*>(args.out[0]), task);
  };
  return IndexedInstance::make({{s.tasks(), run}}, format("a position in [0, %lld)", static_cast<long long>(s.rows)));
}
}  // namespace

extern const Entry rotary_f32_entry;
const Entry rotary_f32_entry{{
    .name = "rotary_f32",
    .version = 1,
    .provider = "peri",
    .takes = "rotary_embedding of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,3,70,40]; input c: f32[2,70,16]; input s: f32[2,70,16]; y = "
                "rotary_embedding(x, c, s) {rotary_embedding_dim=32}; output y }",
                "graph { input x: f32[1,50,96]; input c: f32[1,50,16]; input s: f32[1,50,16]; y = "
                "rotary_embedding(x, c, s) {interleaved=1, num_heads=3}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
