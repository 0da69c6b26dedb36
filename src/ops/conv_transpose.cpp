// ConvTranspose: the gradient of a grouped cross-correlation. y[n,m,i*s-p+k*d] += x[n,c,i] w[c,m,k], plus bias.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

Result<std::vector<int64_t>> kernel_of(const ir::Node& node) {
  const Shape& w = *node.in(1)->type.shape;
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < w.size(); ++d) {
    if (!w[d].is_const())
      return unsupported("the spatial dims of w must be known")
          .but_found(shape_text(w))
          .advise("export the model with weights of fixed size");
    kernel.push_back(w[d].value());
  }
  if (node.has("kernel_shape") && node.ints("kernel_shape") != kernel) {
    const std::vector<int64_t> said = node.ints("kernel_shape");
    return invalid("kernel_shape is not that of w")
        .expecting(shape_text(Shape(kernel.begin(), kernel.end())))
        .but_found(shape_text(Shape(said.begin(), said.end())));
  }
  return kernel;
}

// Attributes that only the transposed form has, one for each spatial axis; `shape` is empty unless given.
struct Extras {
  std::vector<int64_t> padding, shape;
};
Result<Extras> extras_of(const ir::Node& node, size_t rank) {
  Extras e{node.ints("output_padding"), node.ints("output_shape")};
  if (!node.has("output_padding")) e.padding.assign(rank, 0);
  if (e.padding.size() != rank)
    return invalid("output_padding has a wrong number of elements")
        .expecting(std::to_string(rank))
        .but_found(std::to_string(e.padding.size()));
  for (int64_t p : e.padding)
    if (p < 0 || p > int64_t{1} << 24)
      return invalid("output_padding is out of range").expecting("[0, 2^24]").but_found(std::to_string(p));
  if (e.shape.size() == rank + 2)
    e.shape.erase(e.shape.begin(), e.shape.begin() + 2);  // some exporters write batch and channels too
  if (!e.shape.empty() && e.shape.size() != rank)
    return invalid("output_shape has a wrong number of elements")
        .expecting(std::to_string(rank))
        .but_found(std::to_string(e.shape.size()));
  for (int64_t d : e.shape)
    if (d < 1) return invalid("output_shape is out of range").expecting(">= 1").but_found(std::to_string(d));
  return e;
}

bool same(const WindowSpec& s) { return s.auto_pad == AutoPad::kSameUpper || s.auto_pad == AutoPad::kSameLower; }

Status infer(InferContext& c) {
  if (c.rank(0) < 3)
    return invalid("x has a wrong rank")
        .expecting("[batch, channels, spatial...], rank >= 3")
        .but_found(shape_text(c.shape(0)));
  if (c.rank(1) != c.rank(0))
    return invalid("the rank of w is not that of x")
        .expecting(std::to_string(c.rank(0)))
        .but_found(shape_text(c.shape(1)));
  const Shape &x = c.shape(0), &w = c.shape(1);
  PERI_ASSIGN(std::vector<int64_t> kernel, kernel_of(c.node));
  PERI_ASSIGN(const WindowSpec spec, window_spec(c.node, std::move(kernel)));
  PERI_ASSIGN(const Extras extras, extras_of(c.node, x.size() - 2));
  const int64_t group = c.node.i("group", 1);
  if (group < 1) return invalid("group is out of range").expecting(">= 1").but_found(std::to_string(group));
  if (x[1].is_const() && w[0].is_const() && !(x[1] == w[0]))
    return invalid("the channels of x and w do not match").expecting(w[0].text()).but_found(x[1].text());
  if (w[0].is_const() && w[0].value() % group != 0)
    return invalid("group does not divide the input channels")
        .expecting("a divisor of " + w[0].text())
        .but_found(std::to_string(group));
  if (c.has(2) && (c.rank(2) != 1 || (c.shape(2)[0].is_const() && w[1].is_const() && !(c.shape(2)[0] == w[1] * group))))
    return invalid("the bias has a wrong shape")
        .expecting("[" + (w[1] * group).text() + "]")
        .but_found(shape_text(c.shape(2)));
  Shape y = {x[0], w[1] * group};
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    const Window& v = spec.window;
    const Dim full = (x[d + 2] - 1) * v.stride[d] + extras.padding[d] + v.reach(d);
    if (!extras.shape.empty()) {
      y.emplace_back(extras.shape[d]);
    } else if (same(spec)) {
      y.push_back(x[d + 2] * v.stride[d]);
    } else {
      y.push_back(full - v.pad_begin[d] - v.pad_end[d]);
    }
    if (y.back().is_const() && y.back().value() < 1)
      return invalid("pads leave nothing of the output")
          .expecting("a positive extent along spatial axis " + std::to_string(d))
          .but_found(y.back().text());
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

struct Sizes {
  Window window;                 // pads resolved
  std::vector<int64_t> in, out;  // spatial dims
  int64_t batch, channels, outputs, group, x_image, y_image, taps;
  int64_t rows() const { return outputs / group; }
  int64_t depth() const { return channels / group; }
  int64_t terms() const { return depth() * taps + 1; }
};

// Padding that is not written follows from the output extent: the odd element stands at the end for SAME_UPPER only.
Sizes sizes_of(const ir::Node& node) {
  const std::vector<int64_t> x = concrete(*node.in(0)), y = concrete(*node.out());
  Result<WindowSpec> spec = window_spec(node, *kernel_of(node));
  Result<Extras> extras = extras_of(node, x.size() - 2);
  PERI_CHECK(spec.ok() && extras.ok(), "the node has been inferred");
  Sizes s{spec->window,
          {x.begin() + 2, x.end()},
          {y.begin() + 2, y.end()},
          x[0],
          x[1],
          y[1],
          node.i("group", 1),
          span_of(x, 2, x.size()),
          span_of(y, 2, y.size()),
          spec->window.taps()};
  if (extras->shape.empty() && !same(*spec)) return s;
  for (size_t d = 0; d < s.in.size(); ++d) {
    const int64_t full = (s.in[d] - 1) * s.window.stride[d] + extras->padding[d] + s.window.reach(d),
                  total = std::max<int64_t>(full - s.out[d], 0);
    s.window.pad_begin[d] = spec->auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    s.window.pad_end[d] = total - s.window.pad_begin[d];
  }
  return s;
}

// Calls f(input_offset, tap) for every input element and tap that reach output coordinates `o`.
template <class F>
void each_source(const Sizes& s, const int64_t* o, F f) {
  const Window& w = s.window;
  std::vector<int64_t> k(w.rank());
  for (int64_t tap = 0; tap < s.taps; ++tap) {
    unravel(tap, w.kernel, k);
    int64_t offset = 0;
    bool reached = true;
    for (size_t d = 0; d < w.rank(); ++d) {
      const int64_t from = o[d] + w.pad_begin[d] - k[d] * w.dilation[d];
      reached &= from >= 0 && from % w.stride[d] == 0 && from / w.stride[d] < s.in[d];
      offset = offset * s.in[d] + from / w.stride[d];
    }
    if (reached) f(offset, tap);
  }
}

void at_positions(RefCall& call, const Sizes& s) {
  const RefTensor &x = *call.in[0], &w = *call.in[1];
  const RefTensor* bias = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  parallel_for(call.threads, call.count(), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(y.dims.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = call.position(n);
      unravel(at, y.dims, o);
      const int64_t g = o[1] / s.rows(), m = o[1] % s.rows();
      ProductSum sum;
      if (bias) sum.add_term(bias->f[static_cast<size_t>(o[1])], bias->r(o[1]));
      each_source(s, o.data() + 2, [&](int64_t offset, int64_t tap) {
        for (int64_t c = g * s.depth(); c < (g + 1) * s.depth(); ++c) {
          const int64_t xs = (o[0] * s.channels + c) * s.x_image + offset, ws = (c * s.rows() + m) * s.taps + tap;
          sum.add(x.f[static_cast<size_t>(xs)], x.r(xs), w.f[static_cast<size_t>(ws)], w.r(ws));
        }
      });
      y.f[static_cast<size_t>(at)] = sum.value;
      y.radius[static_cast<size_t>(at)] = sum.radius(call.u, s.terms());
    }
  });
}

// One image and group: products of all inputs with all filters, then each added where it lands.
void scatter_group(RefCall& call, const Sizes& s, int64_t image, int64_t g, const std::vector<int64_t>& table) {
  const RefTensor &x = *call.in[0], &w = *call.in[1];
  RefTensor& y = call.out[0];
  const int64_t height = s.rows() * s.taps;
  std::vector<double> columns(static_cast<size_t>(height * s.x_image)), radii(columns.size());
  dense_product(height, s.x_image, s.depth(), side(w, g * s.depth() * height, 1, height),
                side(x, (image * s.channels + g * s.depth()) * s.x_image, s.x_image, 1), call.u, s.terms(),
                columns.data(), radii.data(), s.x_image);
  for (int64_t m = 0; m < s.rows(); ++m) {
    const int64_t to = (image * s.outputs + g * s.rows() + m) * s.y_image;
    for (int64_t q = 0; q < s.taps * s.x_image; ++q) {
      const int64_t land = table[static_cast<size_t>(q)];
      if (land < 0) continue;
      const size_t from = static_cast<size_t>(m * s.taps * s.x_image + q);
      y.f[static_cast<size_t>(to + land)] += columns[from];
      y.radius[static_cast<size_t>(to + land)] += radii[from] - steady_radius(call.u, s.terms(), columns[from]);
    }
  }
}

void whole(RefCall& call, const Sizes& s) {
  const RefTensor* bias = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  for (int64_t p = 0; p < y.numel(); ++p) {
    const int64_t m = p / s.y_image % s.outputs;
    const double v = bias ? bias->f[static_cast<size_t>(m)] : 0;
    y.f[static_cast<size_t>(p)] = v;
    y.radius[static_cast<size_t>(p)] = bias ? sum_radius(call.u, s.terms(), std::fabs(v)) + bias->r(m) : 0;
  }
  std::vector<int64_t> table(static_cast<size_t>(s.taps * s.x_image), -1), o(s.out.size());
  for (int64_t p = 0; p < s.y_image; ++p) {
    unravel(p, s.out, o);
    each_source(s, o.data(),
                [&](int64_t offset, int64_t tap) { table[static_cast<size_t>(tap * s.x_image + offset)] = p; });
  }
  parallel_for(call.threads, s.batch * s.group, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) scatter_group(call, s, task / s.group, task % s.group, table);
  });
  for (int64_t p = 0; p < y.numel(); ++p)  // of the sum over taps, not of each tap's
    y.radius[static_cast<size_t>(p)] += steady_radius(call.u, s.terms(), y.f[static_cast<size_t>(p)]);
}

Status reference(RefCall& call) {
  if (call.out[0].numel() == 0) return Ok{};
  const Sizes s = sizes_of(call.node);
  if (call.positions.empty()) {
    whole(call, s);
  } else {
    at_positions(call, s);
  }
  settle_radii(call.out[0], call.positions);
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Sizes s = sizes_of(node);
  const std::vector<int64_t> y = concrete(*node.out());
  if (port == 1) return false;
  std::vector<int64_t> o(y.size());
  if (port == 2) {
    PositionSet set(s.outputs);
    for (int64_t p : positions) set.add(p / s.y_image % s.outputs);
    set.list(needed);
    return true;
  }
  PositionSet set(s.batch * s.channels * s.x_image), done(s.batch * s.group * s.y_image);
  for (int64_t p : positions) {
    unravel(p, y, o);
    const int64_t group_image = o[0] * s.group + o[1] / s.rows(), key = group_image * s.y_image + p % s.y_image;
    if (done.contains(key)) continue;
    done.add(key);
    each_source(s, o.data() + 2, [&](int64_t offset, int64_t) {
      for (int64_t c = 0; c < s.depth(); ++c) set.add((group_image * s.depth() + c) * s.x_image + offset);
    });
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Dim& channels = node.in(1)->type.shape->front();
  c.flops = 2 * elements_of(*node.in(0)) * elements_of(*node.in(1)) /
            std::max(1.0, static_cast<double>(channels.is_const() ? channels.value() : 1));
  return c;
}

// A stride spreads the products of a channel over as many outputs.
double fan_in(const ir::Node& node, std::span<const int64_t> w) {
  double products = 1;
  for (size_t d = 0; d < w.size(); ++d)
    if (d != 1) products *= static_cast<double>(w[d]);
  products /= static_cast<double>(node.i("group", 1));
  for (int64_t s : node.ints("strides")) products /= static_cast<double>(std::max<int64_t>(1, s));
  return std::max(1.0, products);
}

}  // namespace

extern const Entry conv_transpose_entry;
const Entry conv_transpose_entry{{
    {.name = "conv_transpose",
     .onnx = "ConvTranspose",
     .versions = {1, 11, 22},
     .inputs = {{"x", kFloats},
                {"w", kFloats, false, false, 0, Role::kWeight},
                {"bias", kFloats, true, false, 0, Role::kBias}},
     .outputs = {{"y"}},
     .attrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
               {"dilations", AttrKind::kInts, false, "1 each"},
               {"group", AttrKind::kInt, false, "1"},
               {"kernel_shape", AttrKind::kInts, false, "that of w"},
               {"output_padding", AttrKind::kInts, false, "0 each"},
               {"output_shape", AttrKind::kInts, false, "what pads leave"},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .channels_second = true,
     .fan_in = fan_in,
     .samples = {"graph { input x: f32[1,4,5,6]; const w: f32[4,3,2,2] = seeded(0.3, 1); const b: f32[3] = seeded(0.5, "
                 "2); y = conv_transpose(x, w, b) {strides=[2,2]}; output y }",
                 "graph { input x: f32[2,4,5,5]; const w: f32[4,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                 "{group=2, output_padding=[1,1], pads=[1,1,1,1], strides=[2,2]}; output y }",
                 "graph { input x: f32[1,2,3,4]; const w: f32[2,3,3,2] = seeded(0.3, 1); y = conv_transpose(x, w) "
                 "{dilations=[2,2]}; output y }",
                 "graph { input x: f32[1,1,3,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                 "{output_shape=[10,8], strides=[3,2]}; output y }",
                 "graph { input x: f32[1,1,3,3]; const w: f32[1,2,3,3] = seeded(0.3, 1); y = conv_transpose(x, w) "
                 "{auto_pad=\"SAME_UPPER\", strides=[2,2]}; output y }",
                 "graph { input x: f32[2,3,7]; const w: f32[3,1,4] = seeded(0.3, 1); y = conv_transpose(x, w) "
                 "{pads=[1,2], strides=[3]}; output y }",
                 "graph { input x: f32[1,1,2,3,2]; const w: f32[1,2,2,2,3] = seeded(0.3, 1); y = conv_transpose(x, w); "
                 "output y }",
                 "graph { input x: f32[0,1,2,3]; const w: f32[1,2,2,2] = seeded(0.3, 1); y = conv_transpose(x, w); "
                 "output y }"}},
}};
}  // namespace peri::ops
