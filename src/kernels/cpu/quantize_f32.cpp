// Kernel quantize_f32: QuantizeLinear of float32 into 8 bits, and DequantizeLinear of 8 bits or int32 into float32, by
// one scale or one for each element along an axis.
#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/quantize/loops.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cpu::quantize::Loops;

// [outer, extent, inner]: element (o, e, i) has the scale e. One scale: all of it is inner.
struct Shape {
  int64_t outer = 1, extent = 1, inner = 1;
  bool quantizes = false;
  DType narrow = DType::kInvalid;  // of the integers
  int64_t rows() const { return outer * extent; }
  // Neighbours with a scale each are one row.
  bool across() const { return inner == 1 && extent > 1; }
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
  if (s.narrow != DType::kU8 && s.narrow != DType::kI8 && (s.quantizes || s.narrow != DType::kI32))
    return refused("takes 8 bits only").but_found(std::string(dtype_name(s.narrow)));
  if (n.i("block_size") != 0) return refused("takes no blocks");
  if (n.i("precision") != 0) return refused("divides in f32");
  const std::vector<int64_t> d = dims_of(*n.in(0)), scales = dims_of(*n.in(1));
  const auto numel = [](const std::vector<int64_t>& d) { return d.empty() ? 1 : d[0]; };
  if (scales.size() > 1 || (n.in(2) && numel(dims_of(*n.in(2))) != numel(scales)))
    return refused("a zero point of another shape than the scale");
  int64_t axis = n.i("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  const bool one = scales.empty() || scales[0] == 1;
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (one || k > axis ? s.inner : k == axis ? s.extent : s.outer) *= d[static_cast<size_t>(k)];
  if (s.rows() * s.inner == 0) return refused("an empty tensor");
  return s;
}

template <class Q>
using To = void (*)(const float*, const float*, const Q*, int64_t, Q*, int64_t);
template <class Q>
using From = void (*)(const Q*, const float*, const Q*, int64_t, float*, int64_t);

struct Run {
  const void* x;
  const float* scale;
  const void* zero;
  void* y;
};

// Elements [at, at + n) by the scale `scale` on.
template <class Q>
void run(const Shape& s, To<Q> to, From<Q> from, const Run& r, int64_t at, int64_t scale, int64_t step, int64_t n) {
  const Q* const zero = r.zero ? static_cast<const Q*>(r.zero) + scale : nullptr;
  if (s.quantizes)
    to(static_cast<const float*>(r.x) + at, r.scale + scale, zero, step, static_cast<Q*>(r.y) + at, n);
  else
    from(static_cast<const Q*>(r.x) + at, r.scale + scale, zero, step, static_cast<float*>(r.y) + at, n);
}

void run(const Shape& s, const Loops& l, const Run& r, int64_t at, int64_t scale, int64_t step, int64_t n) {
  if (s.narrow == DType::kU8) return run<uint8_t>(s, l.to_u8, l.from_u8, r, at, scale, step, n);
  if (s.narrow == DType::kI8) return run<int8_t>(s, l.to_i8, l.from_i8, r, at, scale, step, n);
  run<int32_t>(s, nullptr, l.from_i32, r, at, scale, step, n);
}

// Elements [begin, end), row by row.
void run_part(const Shape& s, const Loops& l, const Run& r, int64_t begin, int64_t end) {
  const int64_t row = s.across() ? s.extent : s.inner;
  while (begin < end) {
    const int64_t within = begin % row, n = std::min(end - begin, row - within);
    run(s, l, r, begin, s.across() ? within : begin / row % s.extent, s.across() ? 1 : 0, n);
    begin += n;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  // Scales of channels lie along another axis in NHWC.
  if (p.anchor().in(1)->type.rank() == 0 || dims_of(*p.anchor().in(1))[0] == 1) return any_order_offers(p, target);
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(s.rows() == 1 ? check_same_layout(p) : check_row_major(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const Loops& loops = isa == cpu::Isa::kAvx512 ? cpu::quantize::avx512::kLoops : cpu::quantize::avx2::kLoops;
  const ir::Node& n = p.anchor();
  using cpu::kTaskElements;
  const int64_t all = s.rows() * s.inner, tasks = (all + kTaskElements - 1) / kTaskElements;
  return TaskInstance::make(
      tasks, 0,
      [s, &loops, all, x = Source::of(p, n.in(0), c.constants), scale = Source::of(p, n.in(1), c.constants),
       zero = Source::of(p, n.in(2), c.constants)](int64_t task, const Args& args) {
        run_part(s, loops, {x.data(args), scale.f32(args), zero.data(args), args.out[0]}, task * kTaskElements,
                 std::min(all, (task + 1) * kTaskElements));
      });
}
}  // namespace

extern const Entry quantize_f32_entry;
const Entry quantize_f32_entry{{
    .name = "quantize_f32",
    .version = 1,
    .provider = "peri",
    .takes = "f32 into u8 and i8, and u8, i8, i32 into f32, by one scale or one along an axis",
    .offer = offer,
    .instantiate = instantiate,
    .samples =
        {"graph { input x: f32[3,300,129]; const s: f32[300] = seeded(0.01, 1); const z: i8[300] = splat(3); y = "
         "quantize_linear(x, s, z); output y }",
         "graph { input x: i8[70,600]; const s: f32[600] = seeded(0.01, 1); y = dequantize_linear(x, s); output "
         "y }",
         "graph { input x: f32[2,35,7,9]; const s: f32[] = [0.03]; const z: u8[] = [100]; y = quantize_linear(x, s, "
         "z); "
         "output y }",
         "graph { input x: f32[5,20000]; const s: f32[] = [0.03]; const z: u8[] = [100]; y = quantize_linear(x, "
         "s, z); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
