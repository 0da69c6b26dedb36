// Kernel conv_bytes: convolutions of bytes in NHWC, exact, as int32, as float32 with scales, bias and activation, or
// rounded to bytes. Windows become rows of a product; depthwise ones are summed in float32, exactly.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/integer/channels.hpp"
#include "kernels/cpu/integer/matched.hpp"
#include "kernels/cpu/integer/window.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/entry.hpp"
#include "kernels/match/conv_match.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
using cpu::integer::ChannelPlan;
using cpu::integer::Correction;
using cpu::integer::Dot;
using cpu::integer::Fixed;
using cpu::integer::known;
using cpu::integer::Loops;
using cpu::integer::loops_of;
using cpu::integer::match_bytes;
using cpu::integer::Matched;
using cpu::integer::offers_of;
using cpu::integer::Operands;
using cpu::integer::pack;
using cpu::integer::packed_bytes;
using cpu::integer::Pixel;
using cpu::integer::Plan;
using cpu::integer::plan_product;
using cpu::integer::read_dot;
using cpu::integer::Shape;
using cpu::integer::To;
constexpr std::string_view kDots = "dot=vnni";
constexpr int64_t kMaxTaps = 256;  // 255 * 255 each: their sum is a float32

struct Read {
  Matched m;
  ConvShape conv;
  int64_t columns() const { return conv.oc / conv.groups; }
  int64_t each() const { return conv.ic / conv.groups; }
  int64_t taps() const { return conv.kh * conv.kw; }
  bool by_channel() const { return each() == 1 && columns() == 1 && conv.groups > 1; }
  // Rows of the product lie in the image.
  bool in_place() const {
    const ConvShape& c = conv;
    return c.groups == 1 && taps() == 1 && c.sh == 1 && c.sw == 1 && c.top + c.left + c.bottom + c.right == 0 &&
           !m.a_signed;
  }
};

Result<Read> read(const Problem& p) {
  Read r;
  PERI_ASSIGN(r.m, match_bytes(p, "conv_integer", "qlinear_conv", 1));
  PERI_ASSIGN(r.conv, conv_sizes(p.anchor(), *r.m.a, *r.m.b));
  if (!r.m.b->constant && !(r.m.b_input >= 0 && p.constant[static_cast<size_t>(r.m.b_input)]))
    return refused("its weights are not constant");
  if (r.by_channel() && r.taps() > kMaxTaps) return refused("more than %lld taps", static_cast<long long>(kMaxTaps));
  return r;
}
Result<Read> read_any_layout(const Problem& p) {
  ir::Graph g = p.graph->clone();
  for (const auto& v : g.values())
    if (v->type.rank() == 4) v->type.layout = {};
  return read(Problem{&g, p.constant});
}

const uint8_t* image_of(const Read& r, const Args& args) {
  return static_cast<const uint8_t*>(args.in[static_cast<size_t>(r.m.a_input)]);
}

class ConvBytes final : public Instance {
 public:
  ConvBytes(Read r, Plan plan, Fixed fixed, Packed packed)
      : Instance(needs_of_tasks(plan.tasks, plan.scratch)),
        r_(std::move(r)),
        plan_(plan),
        fixed_(std::move(fixed)),
        packed_(std::move(packed)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    const uint8_t* const x = image_of(r_, args);
    const int32_t zero = fixed_.a_zero(args);
    const uint8_t edge = static_cast<uint8_t>(zero ^ (r_.m.a_signed ? 0x80 : 0));
    const Loops& loops = loops_of(plan_.isa);
    const auto make = [&](int64_t group, int64_t row, int64_t rows, uint8_t* to, int64_t ld) {
      Pixel at(r_.conv, row);
      for (int64_t r = 0; r < rows; ++r, to += ld, at.next(r_.conv)) {
        window(r_.conv, x, group, at, edge, to);
        if (r_.m.a_signed) loops.flip(to, to, plan_.shape.k);
      }
    };
    Operands with{.make = make};
    with.a = x;
    with.b = packed_as<std::byte>(packed_);
    with.b_step = packed_bytes(plan_.shape.k, plan_.shape.n);
    with.ldy = r_.conv.oc;
    with.y_step = with.column_step = r_.columns();
    cpu::Epilogue epilogue;
    fixed_.bind(args, &with, &epilogue);
    cpu::integer::run_task(plan_, with, task, args.scratch);
  }

 private:
  Read r_;
  Plan plan_;
  Fixed fixed_;
  Packed packed_;
};

// With VNNI: ChannelPlan.
class ByChannelDots final : public Instance {
 public:
  ByChannelDots(const Read& r, const ChannelPlan& plan, Fixed fixed, Packed packed)
      : Instance(needs_of_tasks(plan.tasks(), plan.scratch())),
        r_(r),
        plan_(plan),
        fixed_(std::move(fixed)),
        packed_(std::move(packed)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    Operands with{.make = [](int64_t, int64_t, int64_t, uint8_t*, int64_t) {}};
    with.b = packed_as<std::byte>(packed_);
    with.ldy = r_.conv.oc;
    cpu::Epilogue epilogue;
    fixed_.bind(args, &with, &epilogue);
    plan_.run(with, image_of(r_, args), task, args.scratch);
  }

 private:
  Read r_;
  ChannelPlan plan_;
  Fixed fixed_;
  Packed packed_;
};

Needs needs_by_channel(const ConvShape& c) {
  return needs_of_tasks(c.n * c.oh(), static_cast<size_t>(c.oc) * sizeof(int32_t));
}

// One row of pixels a task, all channels of a pixel at a time.
class ByChannel final : public Instance {
 public:
  ByChannel(Read r, cpu::Isa isa, Fixed fixed, Packed packed)
      : Instance(needs_by_channel(r.conv)),
        r_(std::move(r)),
        isa_(isa),
        fixed_(std::move(fixed)),
        packed_(std::move(packed)),
        zeros_(static_cast<size_t>(r_.conv.oc)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    const ConvShape& c = r_.conv;
    const Loops& loops = loops_of(isa_);
    const uint8_t* const x = image_of(r_, args) + task / c.oh() * c.ih * c.iw * c.ic;
    const uint8_t* taps[kMaxTaps];
    Operands with{.make = [](int64_t, int64_t, int64_t, uint8_t*, int64_t) {}};
    with.ldy = c.oc;
    cpu::Epilogue epilogue;
    fixed_.bind(args, &with, &epilogue);
    const float zero = static_cast<float>(with.a_zero - (r_.m.a_signed ? 128 : 0));
    int32_t* const sums = reinterpret_cast<int32_t*>(args.scratch);
    const Correction none{.column = zeros_.data()};
    const int64_t top = task % c.oh() * c.sh - c.top;
    for (int64_t ox = 0; ox < c.ow(); ++ox) {
      const uint8_t** tap = taps;
      for (int64_t iy = top; iy < top + c.kh * c.dh; iy += c.dh)
        for (int64_t kx = 0, ix = ox * c.sw - c.left; kx < c.kw; ++kx, ix += c.dw)
          *tap++ = iy < 0 || iy >= c.ih || ix < 0 || ix >= c.iw ? nullptr : x + (iy * c.iw + ix) * c.ic;
      loops.taps({taps, packed_floats(packed_), r_.taps(), c.oc, c.oc, zero, r_.m.a_signed}, sums);
      const int64_t pixel = task * c.ow() + ox, size = r_.m.to == To::kSums || r_.m.to == To::kFloats ? 4 : 1;
      cpu::integer::finish_block({isa_, r_.m.to, 0, pixel * c.oc, pixel}, with, none,
                                 {sums, 1, c.oc, static_cast<std::byte*>(with.y) + pixel * c.oc * size, c.oc});
    }
  }

 private:
  Read r_;
  cpu::Isa isa_;
  Fixed fixed_;
  Packed packed_;
  std::vector<int32_t> zeros_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Read r, read_any_layout(p));
  PERI_ASSIGN(std::vector<Offer> out, offers_of(p, target));
  if (r.by_channel()) {  // rows of pixels with VNNI, else a pixel at a time
    out.resize(1);
    const bool dots = target.has(cpu::integer::dot_isa(Dot::kVnni));
    out[0].config = dots ? kDots : "";
    PERI_ASSIGN(const auto isa, cpu::best_isa(target));
    out[0].requires_isa = dots ? cpu::integer::dot_isa(Dot::kVnni) : cpu::isa_name(isa);
  }
  for (Offer& o : out) ask_for_nhwc(p, &o);
  return out;
}

Result<std::unique_ptr<Instance>> by_channel(const Problem& p, Read r, const Fixed& fixed, cpu::Isa isa,
                                             const InstantiateContext& c) {
  const int64_t taps = r.taps(), channels = r.conv.oc;
  PERI_TRY(pack_once(c, "taps", taps * channels, [&](float* to) {
    Tensor keep;
    const Tensor* const w = known(p, r.m.b, c, &keep);
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t j = 0; j < channels; ++j) {
        const size_t at = static_cast<size_t>(j);
        const int32_t zero = (fixed.row_sums() ? fixed.b_zero()[at] : 0) + (r.m.b_signed ? 0 : 128);
        to[t * channels + j] = static_cast<float>(w->i64(j * taps + t) - zero);
      }
  }));
  return std::unique_ptr<Instance>(std::make_unique<ByChannel>(std::move(r), isa, fixed, *c.packed));
}

ChannelPlan plan_channels(const Read& r, const Fixed& fixed, cpu::Isa isa) {
  const ConvShape& v = r.conv;
  return ChannelPlan({v.n, v.oc, v.ih, v.iw, v.oh(), v.ow(), v.kh, v.kw, v.sh, v.sw, v.dh, v.dw, v.top, v.left,
                      r.m.a_signed, fixed.row_sums(), r.m.to},
                     isa);
}

Result<std::unique_ptr<Instance>> by_channel_dots(const Problem& p, const Read& r, Fixed fixed, cpu::Isa isa,
                                                  const InstantiateContext& c) {
  const ChannelPlan plan = plan_channels(r, fixed, isa);
  PERI_TRY(pack_bytes_once(c, "channels", plan.packed_bytes(), [&](std::byte* to) {
    Tensor keep;
    plan.pack(static_cast<const uint8_t*>(known(p, r.m.b, c, &keep)->data()), !r.m.b_signed, to);
  }));
  return std::unique_ptr<Instance>(std::make_unique<ByChannelDots>(r, plan, std::move(fixed), *c.packed));
}

// Weights [oc][each][taps] as a right side for each group, its rows by tap and channel.
void pack_weights(const Read& r, const uint8_t* w, std::byte* to) {
  const int64_t each = r.each(), taps = r.taps(), columns = r.columns(), k = taps * each;
  std::vector<uint8_t> rows(static_cast<size_t>(k * columns));
  for (int64_t group = 0; group < r.conv.groups; ++group, to += packed_bytes(k, columns)) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < each; ++i)
        for (int64_t t = 0; t < taps; ++t)
          rows[static_cast<size_t>((t * each + i) * columns + j)] = w[((group * columns + j) * each + i) * taps + t];
    pack(rows.data(), columns, !r.m.b_signed, k, columns, to);
  }
}

struct Planned {
  Read r;
  Fixed fixed;
  cpu::Isa isa;
  enum class Way : uint8_t { kProduct, kByChannel, kByChannelDots } way = Way::kProduct;
  Plan plan = {};  // of a product
};
Result<Planned> planned(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Read r, read(p));
  if (!(r.m.a->type.layout == ir::nhwc()) || !(p.graph->outputs[0]->type.layout == ir::nhwc()))
    return invalid("the region's layouts are not NHWC");
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const int64_t k = r.taps() * r.each();
  PERI_ASSIGN(Fixed fixed, Fixed::make(p, r.m, r.conv.oc, k, c));
  if (r.by_channel() && config.empty())
    return Planned{std::move(r), std::move(fixed), isa, Planned::Way::kByChannel, {}};
  PERI_ASSIGN(const Dot dot, read_dot(config, *c.target));
  if (r.by_channel()) {
    if (dot != Dot::kVnni) return invalid("channel-wise sums have no such configuration");
    return Planned{std::move(r), std::move(fixed), isa, Planned::Way::kByChannelDots, {}};
  }
  Shape s{.images = r.conv.groups, .m = r.conv.n * r.conv.oh() * r.conv.ow(), .n = r.columns(), .k = k};
  s.makes_rows = !r.in_place();
  s.row_sums = fixed.row_sums();
  s.to = r.m.to;
  const Plan plan = plan_product(s, dot, isa);
  return Planned{std::move(r), std::move(fixed), isa, Planned::Way::kProduct, plan};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Read r, read(p));
  PERI_TRY(check_zero_known(p, r.m));
  const std::vector<Tensor> none(p.graph->inputs.size());
  PERI_ASSIGN(const Planned made, planned(p, config, {none, nullptr, &target}));
  if (made.way == Planned::Way::kByChannel) return needs_by_channel(made.r.conv);
  if (made.way == Planned::Way::kProduct) return needs_of_tasks(made.plan.tasks, made.plan.scratch);
  const ChannelPlan plan = plan_channels(made.r, made.fixed, made.isa);
  return needs_of_tasks(plan.tasks(), plan.scratch());
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, c));
  Read& r = made.r;
  if (made.way == Planned::Way::kByChannel) return by_channel(p, std::move(r), made.fixed, made.isa, c);
  if (made.way == Planned::Way::kByChannelDots) return by_channel_dots(p, r, std::move(made.fixed), made.isa, c);
  const Shape& s = made.plan.shape;
  PERI_TRY(pack_bytes_once(c, "bytes", r.conv.groups * packed_bytes(s.k, s.n), [&](std::byte* to) {
    Tensor keep;
    pack_weights(r, static_cast<const uint8_t*>(known(p, r.m.b, c, &keep)->data()), to);
  }));
  return std::unique_ptr<Instance>(
      std::make_unique<ConvBytes>(std::move(r), made.plan, std::move(made.fixed), *c.packed));
}
}  // namespace

extern const Entry conv_bytes_entry;
const Entry conv_bytes_entry{{
    .name = "conv_bytes",
    .version = 3,
    .provider = "peri",
    .takes =
        "convolutions of u8 and i8 in two dimensions (conv_integer, qlinear_conv), NHWC, constant weights, with "
        "scales, bias and activation in float32 behind sums, and a clip, a sum with bytes and a table behind bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples =
        {"graph { input x: u8[2,35,7,6]; const z: u8[] = [200]; const w: i8[70,35,1,1] = seeded(50, 1); y = "
         "conv_integer(x, w, z); output y }",
         "graph { input x: i8[1,24,9,11]; const z: i8[] = [-20]; const w: u8[24,12,3,3] = seeded(90, 1); const v: u8[] "
         "= "
         "[77]; y = conv_integer(x, w, z, v) {pads=[1,1,1,1], group=2}; output y }",
         "graph { input x: u8[2,72,9,8]; const z: u8[] = [20]; const w: i8[72,1,3,3] = seeded(50, 1); y = "
         "conv_integer(x, w, z) {pads=[1,1,1,1], group=72, strides=[2,1]}; output y }",
         "graph { input x: i8[1,150,12,40]; const z: i8[] = [-20]; const w: u8[150,1,5,3] = seeded(90, 1); const v: "
         "u8[] = [77]; y = conv_integer(x, w, z, v) {pads=[2,3,2,1], group=150, dilations=[1,2]}; output y }",
         "graph { input x: u8[1,64,19,17]; const z: u8[] = [128]; const w: i8[96,64,3,3] = seeded(50, 1); y = "
         "conv_integer(x, w, z) {pads=[1,1,1,1], dilations=[2,1]}; output y }",
         "graph { input x: u8[1,8,9,8]; const z: u8[] = [20]; const w: i8[40,8,2,2] = seeded(50, 1); input s: f32[]; "
         "const b: f32[1,40,1,1] = seeded(0.5, 2); a = conv_integer(x, w, z); f = cast(a) {to=1}; g = mul(f, s); h = "
         "add(g, b); y = relu(h); output y }",
         "graph { input x: u8[1,72,9,8]; const z: u8[] = [20]; const w: u8[72,1,3,3] = seeded(90, 1); const v: u8[] = "
         "[120]; input s: f32[]; const b: f32[1,72,1,1] = seeded(0.5, 2); a = conv_integer(x, w, z, v) {group=72}; f = "
         "cast(a) {to=1}; g = mul(f, s); h = add(g, b); y = relu(h); output y }",
         "graph { input x: u8[2,20,9,7]; input o: i8[2,70,9,7]; const s: f32[] = [0.02]; const z: u8[] = [120]; const "
         "w: i8[70,20,1,1] = seeded(90, 1); const t: f32[] = [0.01]; const v: i8[] = [0]; const q: f32[] = [0.05]; "
         "const r: u8[] = [110]; const p: f32[] = [0.04]; const m: i8[] = [-9]; a = qlinear_conv(x, s, z, w, t, v, q, "
         "r); b = from_bytes(a, q, r); c = from_bytes(o, p, m); d = add(b, c); e = relu(d); y = to_bytes(e, p, m); "
         "output y }",
         "graph { input x: u8[1,3,23,21]; const s: f32[] = [0.02]; const z: u8[] = [120]; const w: i8[24,3,7,7] = "
         "seeded(50, 1); const t: f32[] = [0.002]; const v: i8[] = [0]; const q: f32[] = [0.05]; const r: u8[] = "
         "[110]; const b: i32[24] = seeded(900, 2); y = qlinear_conv(x, s, z, w, t, v, q, r, b) {pads=[3,3,3,3], "
         "strides=[2,2]}; output y }",
         "graph { input x: u8[1,35,9,7]; const s: f32[] = [0.02]; const z: u8[] = [120]; const w: i8[70,35,3,3] = "
         "seeded(50, 1); const t: f32[] = [0.002]; const v: i8[] = [0]; const q: f32[] = [0.05]; const r: u8[] = "
         "[110]; const b: f32[70] = seeded(2, 2); const l: u8[] = [110]; const h: u8[] = [240]; a = qlinear_conv(x, "
         "s, z, w, t, v, q, r, b) {pads=[1,1,1,1]}; y = clip(a, l, h); output y }",
         "graph { input x: u8[1,72,9,8]; const s: f32[] = [0.02]; const z: u8[] = [20]; const w: u8[72,1,3,3] = "
         "seeded(2, 1); const t: f32[] = [0.2]; const v: u8[] = [1]; const q: f32[] = [0.05]; const r: i8[] = "
         "[-11]; const b: f32[72] = seeded(3, 2); y = qlinear_conv(x, s, z, w, t, v, q, r, b) {group=72}; output y }",
         "graph { input x: i8[1,35,9,7]; const s: f32[] = [0.02]; const z: i8[] = [-7]; const w: i8[35,1,3,3] = "
         "seeded(50, 1); const t: f32[] = [0.01]; const v: i8[] = [0]; const q: f32[] = [0.05]; const r: u8[] = [110]; "
         "const l: u8[256] = seeded(50, 2); a = qlinear_conv(x, s, z, w, t, v, q, r) {group=35, pads=[1,1,1,1]}; y = "
         "byte_table(a, l); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
