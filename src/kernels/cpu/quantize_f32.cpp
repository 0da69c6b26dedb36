// Kernel quantize_f32: QuantizeLinear of float32 into 8 or 16 bits, and DequantizeLinear of 8, 16 bits or int32 into
// float32, by one scale, one for each element along an axis, or one for each block along it.
#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/quantize/scaled.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
using cpu::quantize::Loops;
using cpu::quantize::Scaled;

struct Shape {
  Scaled scaled;
  bool quantizes = false;
  DType narrow = DType::kInvalid;  // of the integers
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  s.quantizes = n.op == "quantize_linear";
  if (!s.quantizes && n.op != "dequantize_linear") return refused("neither quantises nor dequantises");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const ir::Type &x = n.in(0)->type, &y = n.out()->type, &scale = n.in(1)->type;
  s.narrow = s.quantizes ? y.dtype : x.dtype;
  if ((s.quantizes ? x.dtype : y.dtype) != DType::kF32 || scale.dtype != DType::kF32) return refused("takes f32 only");
  if (s.narrow != DType::kU8 && s.narrow != DType::kI8 && s.narrow != DType::kU16 && s.narrow != DType::kI16 &&
      (s.quantizes || s.narrow != DType::kI32))
    return refused("takes integers of 8 and 16 bits only").but_found(std::string(dtype_name(s.narrow)));
  if (n.i("precision") != 0 && n.i("precision") != static_cast<int64_t>(DType::kF32)) return refused("divides in f32");
  PERI_ASSIGN(s.scaled, cpu::quantize::read_scaled(n));
  return s;
}

struct Run {
  const void* x;
  const float* scale;
  const void* zero;
  void* y;
};

// Elements of a part whose scales are made one for each of them, and those scales and zero points.
constexpr int64_t kPart = 1024;  // 16 KiB with the elements: in a first-level cache of 32 KiB. Not varied
struct alignas(64) Spread {
  float scales[kPart];
  int32_t zeros[kPart];
};

// Elements [begin, end), where scales serve a few neighbours each.
void run_spread(const Shape& s, const Loops& l, const Run& r, int64_t begin, int64_t end, Spread& spread) {
  using cpu::quantize::moved;
  for (; begin < end; begin += kPart) {
    const int64_t n = std::min(kPart, end - begin);
    cpu::quantize::spread<float>(s.scaled, begin, n, r.scale + s.scaled.scale_at(begin), spread.scales);
    if (r.zero) cpu::quantize::spread(s.scaled, s.narrow, begin, n, r.zero, spread.zeros);
    const void* const zero = r.zero ? spread.zeros : nullptr;
    if (s.quantizes)
      quantize_run(l, s.narrow, static_cast<const float*>(r.x) + begin, spread.scales, zero, 1,
                   moved(r.y, s.narrow, begin), n);
    else
      dequantize_run(l, s.narrow, moved(r.x, s.narrow, begin), spread.scales, zero, 1, static_cast<float*>(r.y) + begin,
                     n);
  }
}

// Elements [begin, end), as far at a time as the scales go on.
void run_part(const Shape& s, const Loops& l, const Run& r, int64_t begin, int64_t end) {
  using cpu::quantize::moved;
  while (begin < end) {
    const Scaled::Run run = s.scaled.run_at(begin);
    const int64_t n = std::min(end - begin, run.n);
    const float* const scale = r.scale + run.scale;
    const void* const zero = moved(r.zero, s.narrow, run.scale);
    if (s.quantizes)
      quantize_run(l, s.narrow, static_cast<const float*>(r.x) + begin, scale, zero, run.step,
                   moved(r.y, s.narrow, begin), n);
    else
      dequantize_run(l, s.narrow, moved(r.x, s.narrow, begin), scale, zero, run.step, static_cast<float*>(r.y) + begin,
                     n);
    begin += n;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(cpu::best_isa(target));
  // Scales of channels lie along another axis in NHWC.
  if (s.scaled.one) return any_order_offers(p, target);
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(s.scaled.one ? check_same_layout(p) : check_row_major(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const Loops& loops = isa == cpu::Isa::kAvx512 ? cpu::quantize::avx512::kLoops : cpu::quantize::avx2::kLoops;
  const ir::Node& n = p.anchor();
  using cpu::kTaskElements;
  const int64_t all = s.scaled.elements(), tasks = (all + kTaskElements - 1) / kTaskElements;
  return TaskInstance::make(
      tasks, s.scaled.spreads() ? sizeof(Spread) : 0,
      [s, &loops, all, x = Source::of(p, n.in(0), c.constants), scale = Source::of(p, n.in(1), c.constants),
       zero = Source::of(p, n.in(2), c.constants)](int64_t task, const Args& args) {
        const Run run = {x.data(args), scale.f32(args), zero.data(args), args.out[0]};
        const int64_t begin = task * kTaskElements, end = std::min(all, begin + kTaskElements);
        if (s.scaled.spreads())
          run_spread(s, loops, run, begin, end, *reinterpret_cast<Spread*>(args.scratch));
        else
          run_part(s, loops, run, begin, end);
      });
}
}  // namespace

extern const Entry quantize_f32_entry;
const Entry quantize_f32_entry{{
    .name = "quantize_f32",
    .version = 2,
    .provider = "peri",
    .takes = "f32 into u8, i8, u16, i16, and those and i32 into f32, by one scale, one along an axis or one a block",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[3,300,129]; const s: f32[300] = seeded(0.01, 1); const z: i8[300] = splat(3); y = "
         "quantize_linear(x, s, z); output y }",
         "graph { input x: i8[70,600]; const s: f32[600] = seeded(0.01, 1); y = dequantize_linear(x, s); output "
         "y }",
         "graph { input x: f32[2,35,7,9]; const s: f32[] = [0.03]; const z: u8[] = [100]; y = quantize_linear(x, s, "
         "z); "
         "output y }",
         "graph { input x: f32[5,20000]; const s: f32[] = [0.03]; const z: u8[] = [100]; y = quantize_linear(x, "
         "s, z); output y }",
         "graph { input x: f32[3,301]; const s: f32[] = [0.0003]; const z: u16[] = [30000]; y = quantize_linear(x, s, "
         "z); output y }",
         "graph { input x: f32[2,40,131]; const s: f32[40] = seeded(0.01, 1); const z: i16[40] = splat(-300); y = "
         "quantize_linear(x, s, z) {axis=1}; output y }",
         "graph { input x: i16[5,20000]; const s: f32[] = [0.03]; const z: i16[] = [-100]; y = dequantize_linear(x, s, "
         "z); output y }",
         "graph { input x: u16[70,600]; const s: f32[600] = seeded(0.01, 1); y = dequantize_linear(x, s); output y }",
         "graph { input x: f32[3,5,200]; const s: f32[3,5,7] = seeded(0.01, 1); const z: i8[3,5,7] = splat(3); y = "
         "quantize_linear(x, s, z) {axis=2, block_size=32}; output y }",
         "graph { input x: u8[3,70,50]; const s: f32[3,5,50] = seeded(0.01, 1); const z: u8[3,5,50] = splat(30); y = "
         "dequantize_linear(x, s, z) {axis=1, block_size=16}; output y }",
         "graph { input x: f32[3,5,1501]; const s: f32[3,5,188] = seeded(0.01, 1); const z: u8[3,5,188] = splat(90); y "
         "= quantize_linear(x, s, z) {axis=2, block_size=8}; output y }",
         "graph { input x: i16[30,131]; const s: f32[30,44] = seeded(0.01, 1); const z: i16[30,44] = splat(-7); y = "
         "dequantize_linear(x, s, z) {axis=1, block_size=3}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
