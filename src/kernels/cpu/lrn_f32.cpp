// Kernel lrn_f32: local response normalisation of f32 over channels, a run of positions of an image at a time.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd/arrays.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kPlaces = 256;

struct Shape {
  int64_t batch = 1, channels = 1, image = 1, size = 1;
  float alpha = 0, beta = 0, bias = 1;
  cpu::Isa isa = cpu::Isa::kAvx2;
  int64_t blocks() const { return (image + kPlaces - 1) / kPlaces; }
};

Result<Shape> read(const Problem& p, const Target& target) {
  const ir::Node& n = p.anchor();
  if (n.op != "lrn") return refused("not an lrn");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  Shape s;
  s.batch = d[0];
  s.channels = d[1];
  for (size_t k = 2; k < d.size(); ++k) s.image *= d[k];
  s.size = n.i("size");
  s.alpha = static_cast<float>(n.f("alpha", 0.0001) / static_cast<double>(s.size));
  s.beta = static_cast<float>(n.f("beta", 0.75));
  s.bias = static_cast<float>(n.f("bias", 1));
  if (s.batch * s.channels * s.image == 0) return refused("an empty tensor");
  PERI_ASSIGN(s.isa, cpu::best_isa(target));
  return s;
}

void raise(const Shape& s, float* base, int64_t n) {
  if (s.beta == 0.75F) {
    for (int64_t k = 0; k < n; ++k) base[k] = 1 / (std::sqrt(base[k]) * std::sqrt(std::sqrt(base[k])));
    return;
  }
  float by[kPlaces];
  std::fill_n(by, n, -s.beta);
  (s.isa == cpu::Isa::kAvx512 ? simd::avx512::apply_pow : simd::avx2::apply_pow)(base, by, base, n);
}

void run_task(const Shape& s, int64_t task, const float* x, float* y) {
  const int64_t first = task % s.blocks() * kPlaces, count = std::min(kPlaces, s.image - first),
                at = task / s.blocks() * s.channels * s.image + first, before = std::min((s.size - 1) / 2, s.channels),
                after = std::min(s.size - 1 - (s.size - 1) / 2, s.channels);
  float base[kPlaces];
  for (int64_t c = 0; c < s.channels; ++c) {
    std::fill_n(base, count, 0.0F);
    const int64_t last = std::min(s.channels - 1, c + after);
    for (int64_t k = std::max<int64_t>(0, c - before); k <= last; ++k) {
      const float* __restrict v = x + at + k * s.image;
      for (int64_t i = 0; i < count; ++i) base[i] += v[i] * v[i];
    }
    for (int64_t i = 0; i < count; ++i) base[i] = s.bias + s.alpha * base[i];
    raise(s, base, count);
    const float* const own = x + at + c * s.image;
    float* const to = y + at + c * s.image;
    for (int64_t i = 0; i < count; ++i) to[i] = own[i] * base[i];
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p, target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p, *c.target));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return TaskInstance::make(s.batch * s.blocks(), 0, [s, x](int64_t task, const Args& args) {
    run_task(s, task, x.f32(args), static_cast<float*>(args.out[0]));
  });
}
}  // namespace

extern const Entry lrn_f32_entry;
const Entry lrn_f32_entry{{
    .name = "lrn_f32",
    .version = 1,
    .provider = "peri",
    .takes = "local response normalisation of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,19,17,23]; y = lrn(x) {alpha=0.01, size=5}; output y }",
                "graph { input x: f32[1,6,300]; y = lrn(x) {alpha=0.5, beta=0.6, bias=2.0, size=4}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
