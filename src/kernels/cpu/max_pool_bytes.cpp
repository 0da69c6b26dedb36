// Kernel max_pool_bytes: maxima of windows of u8 and i8 in two dimensions, NHWC.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/integer/product.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {
namespace {

Result<ConvShape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_pool") return refused("not max_pool");
  if (p.graph->nodes.size() != 1 || p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out())
    return refused("takes no epilogue and gives no indices");
  const DType t = n.in(0)->type.dtype;
  if (t != DType::kU8 && t != DType::kI8) return refused("takes u8 and i8 only").but_found(std::string(dtype_name(t)));
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() != 4) return refused("takes two spatial dimensions only");
  if (n.s("auto_pad", "NOTSET") != "NOTSET" && n.s("auto_pad", "NOTSET") != "VALID") return refused("auto_pad");
  const std::vector<int64_t> kernel = n.ints("kernel_shape"), strides = n.ints("strides", {1, 1}),
                             dilations = n.ints("dilations", {1, 1}), pads = n.ints("pads", {0, 0, 0, 0});
  if (kernel.size() != 2 || strides.size() != 2 || dilations.size() != 2 || pads.size() != 4)
    return refused("bad attributes");
  ConvShape s{.n = x[0], .ih = x[2], .iw = x[3], .ic = x[1], .oc = x[1], .kh = kernel[0], .kw = kernel[1]};
  s.sh = strides[0];
  s.sw = strides[1];
  s.dh = dilations[0];
  s.dw = dilations[1];
  s.top = pads[0];
  s.left = pads[1];
  // What it takes for the size that the result has.
  s.bottom = (y[2] - 1) * s.sh + s.dh * (s.kh - 1) + 1 - s.ih - s.top;
  s.right = (y[3] - 1) * s.sw + s.dw * (s.kw - 1) + 1 - s.iw - s.left;
  if (x[0] * x[1] * y[2] * y[3] == 0) return refused("an empty tensor");
  return s;
}

// Columns of the padded image that windows of a row of the result reach.
int64_t width_of(const ConvShape& s) { return (s.ow() - 1) * s.sw + (s.kw - 1) * s.dw + 1; }
// Whether the maxima of whole rows, shifted, are taken before every sw-th is kept: pixels of few bytes are no work for
// a loop of their own.
bool is_by_rows(const ConvShape& s) {
  constexpr int64_t kMinPixel = 64;  // bytes of a loop of its own: a vector of AVX-512
  return s.ic < kMinPixel && s.sw <= s.kw;
}
// Of a task: a row of maxima down the windows, and, by rows, one of maxima along them.
int64_t scratch_of(const ConvShape& s) { return width_of(s) * s.ic * (is_by_rows(s) ? 2 : 1); }

// One row of the result.
template <class X>
void run_row(const ConvShape& s, void (*most)(const X*, X*, int64_t), const X* x, int64_t oy, X* y, X* scratch) {
  const int64_t width = width_of(s), pixel = s.ic, first = std::max<int64_t>(0, s.left),
                end = std::min(width, s.iw + s.left);
  X* const down = scratch;
  std::memset(down, X(-1) < X(0) ? 0x80 : 0, static_cast<size_t>(width * pixel));
  for (int64_t ky = 0; ky < s.kh; ++ky) {
    const int64_t iy = oy * s.sh - s.top + ky * s.dh;
    if (iy >= 0 && iy < s.ih && first < end)
      most(x + (iy * s.iw + first - s.left) * pixel, down + first * pixel, (end - first) * pixel);
  }
  if (!is_by_rows(s)) {
    for (int64_t ox = 0; ox < s.ow(); ++ox, y += pixel) {
      std::copy_n(down + ox * s.sw * pixel, pixel, y);
      for (int64_t kx = 1; kx < s.kw; ++kx) most(down + (ox * s.sw + kx * s.dw) * pixel, y, pixel);
    }
    return;
  }
  const int64_t starts = (s.ow() - 1) * s.sw + 1;
  X* const along = s.sw == 1 ? y : scratch + width * pixel;
  std::copy_n(down, starts * pixel, along);
  for (int64_t kx = 1; kx < s.kw; ++kx) most(down + kx * s.dw * pixel, along, starts * pixel);
  for (int64_t ox = 0; s.sw != 1 && ox < s.ow(); ++ox) std::copy_n(along + ox * s.sw * pixel, pixel, y + ox * pixel);
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  const auto x = data_argument(p);
  if (!x) return refused("a constant");
  Offer o = row_major_offer(p, target);
  o.inputs[*x] = o.outputs[0] = ir::nhwc();
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_same_layout(p));
  if (p.graph->outputs[0]->type.layout.row_major()) return invalid("takes NHWC only");
  PERI_ASSIGN(const ConvShape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const bool is_signed = p.anchor().in(0)->type.dtype == DType::kI8;
  return TaskInstance::make(
      s.n * s.oh(), static_cast<size_t>(scratch_of(s)),
      [s, is_signed, &loops = cpu::integer::loops_of(isa), x = Source::of(p, p.anchor().in(0), c.constants)](
          int64_t task, const Args& args) {
        const int64_t from = task / s.oh() * s.ih * s.iw * s.ic, to = task * s.ow() * s.ic, row = task % s.oh();
        if (is_signed)
          run_row(s, loops.most_i8, static_cast<const int8_t*>(x.data(args)) + from, row,
                  static_cast<int8_t*>(args.out[0]) + to, reinterpret_cast<int8_t*>(args.scratch));
        else
          run_row(s, loops.most_u8, static_cast<const uint8_t*>(x.data(args)) + from, row,
                  static_cast<uint8_t*>(args.out[0]) + to, reinterpret_cast<uint8_t*>(args.scratch));
      });
}
}  // namespace

extern const Entry max_pool_bytes_entry;
const Entry max_pool_bytes_entry{{
    .name = "max_pool_bytes",
    .version = 2,
    .provider = "peri",
    .takes = "max pooling of u8 and i8 in two dimensions, NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: u8[2,70,9,8]; y = max_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}; "
                "output y }",
                "graph { input x: i8[1,5,9,8]; y = max_pool(x) {kernel_shape=[2,3], dilations=[2,1], ceil_mode=1, "
                "strides=[2,2]}; output y }",
                "graph { input x: u8[1,16,9,12]; y = max_pool(x) {kernel_shape=[2,2], strides=[3,4]}; output y }",
                "graph { input x: i8[2,3,9,12]; y = max_pool(x) {kernel_shape=[3,3], pads=[2,2,2,2]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
