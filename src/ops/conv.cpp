// Conv: grouped cross-correlation over one or more spatial axes. y[n,m,o] = bias[m] + sum x[n,c,o*s-p+k*d] w[m,c,k].
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/reference/conv_tiles.hpp"
#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_runs.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/window.hpp"

namespace peri::ops {
namespace {

Status check_ranks(const InferContext& c) {
  if (c.rank(0) < 3)
    return invalid("x has a wrong rank")
        .expecting("[batch, channels, spatial...], rank >= 3")
        .but_found(shape_text(c.shape(0)));
  if (c.rank(1) != c.rank(0))
    return invalid("the rank of w is not that of x")
        .expecting(std::to_string(c.rank(0)))
        .but_found(shape_text(c.shape(1)));
  return Ok{};
}

// Spatial dims of w, or kernel_shape where they are symbolic.
Result<Shape> kernel_of(const InferContext& c) {
  Shape kernel(c.shape(1).begin() + 2, c.shape(1).end());
  if (!c.node.has("kernel_shape")) return kernel;
  const std::vector<int64_t> said = c.node.ints("kernel_shape");
  bool same = said.size() == kernel.size();
  for (size_t d = 0; same && d < kernel.size(); ++d) {
    if (!kernel[d].is_const()) kernel[d] = Dim(said[d]);
    same = kernel[d].is_const(said[d]);
  }
  if (!same)
    return invalid("kernel_shape is not that of w")
        .expecting(shape_text(kernel))
        .but_found(shape_text(Shape(said.begin(), said.end())));
  return kernel;
}

Status infer(InferContext& c) {
  PERI_TRY(check_ranks(c));
  const Shape &x = c.shape(0), &w = c.shape(1);
  PERI_ASSIGN(const Shape kernel, kernel_of(c));
  std::vector<int64_t> numbers;
  for (const Dim& k : kernel) numbers.push_back(k.is_const() ? k.value() : 1);
  PERI_ASSIGN(const WindowSpec spec, window_spec(c.node, std::move(numbers)));
  const int64_t group = c.node.i("group", 1);
  if (group < 1) return invalid("group is out of range").expecting(">= 1").but_found(std::to_string(group));
  if (x[1].is_const() && w[1].is_const() && !(w[1] * group == x[1]))
    return invalid("the channels of x, w and group do not match")
        .expecting((w[1] * group).text() + " channels in x")
        .but_found(shape_text(x));
  if (w[0].is_const() && w[0].value() % group != 0)
    return invalid("group does not divide the output channels")
        .expecting("a divisor of " + w[0].text())
        .but_found(std::to_string(group));
  if (c.has(2) && (c.rank(2) != 1 || (c.shape(2)[0].is_const() && w[0].is_const() && !(c.shape(2)[0] == w[0]))))
    return invalid("the bias has a wrong shape").expecting("[" + w[0].text() + "]").but_found(shape_text(c.shape(2)));
  Shape y = {x[0], w[0]};
  for (size_t d = 2; d < x.size(); ++d) {
    const Dim reach = (kernel[d - 2] - 1) * spec.window.dilation[d - 2] + 1;
    PERI_ASSIGN(Dim extent, spec.extent(d - 2, x[d], false, reach));
    y.push_back(std::move(extent));
  }
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// Sizes of one concrete convolution.
struct Sizes {
  Window window;
  std::vector<int64_t> in, out;  // spatial dims
  int64_t batch, channels, outputs, group, x_image, y_image, taps;
  int64_t depth() const { return channels / group * taps; }  // products in one output element
  bool tiled;                                                // somebody may compute it by tiles (see ConvTiles)
  ConvTiles tiles() const { return {window, in, out}; }
  explicit Sizes(const ir::Node& node) : window(window_of(node)) {
    const std::vector<int64_t> x = concrete(*node.in(0)), y = concrete(*node.out());
    in.assign(x.begin() + 2, x.end());
    out.assign(y.begin() + 2, y.end());
    batch = x[0];
    channels = x[1];
    outputs = y[1];
    group = node.i("group", 1);
    taps = window.taps();
    x_image = y_image = 1;
    for (int64_t d : in) x_image *= d;
    for (int64_t d : out) y_image *= d;
    tiled = ConvTiles::takes(window, node.in(0)->type.dtype, group, channels);
  }
};

constexpr int64_t kTile = 960;  // output positions gathered at a time: the column block of dense_product

// Input offsets (-1: padding) of each tap for the output positions [first, first + count) of one image.
std::vector<int64_t> gather_table(const Sizes& s, int64_t first, int64_t count) {
  std::vector<int64_t> table(static_cast<size_t>(s.taps * count), -1), o(s.out.size());
  for (int64_t p = 0; p < count; ++p) {
    unravel(first + p, s.out, o);
    each_tap(s.window, s.in, o.data(),
             [&](int64_t offset, int64_t tap) { table[static_cast<size_t>(tap * count + p)] = offset; });
  }
  return table;
}

void gather(const std::vector<double>& x, int64_t base, const Sizes& s, const std::vector<int64_t>& table,
            int64_t count, std::vector<double>& columns) {
  columns.resize(static_cast<size_t>(s.depth() * count));
  double* to = columns.data();
  for (int64_t c = 0; c < s.channels / s.group; ++c)
    for (const int64_t from : table) *to++ = from < 0 ? 0.0 : x[static_cast<size_t>(base + c * s.x_image + from)];
}

// Runs of neighbours in one channel's image: their columns are gathered once.
void at_positions(RefCall& call, const Sizes& s) {
  const RefTensor &x = *call.in[0], &w = *call.in[1];
  const RefTensor* bias = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  const int64_t per_group = s.channels / s.group, depth = s.depth();
  each_run(call, s.y_image, kTile, [&](int64_t at, int64_t count) {
    const int64_t m = at / s.y_image % s.outputs, image = at / s.y_image / s.outputs;
    const int64_t base = (image * s.channels + m / (s.outputs / s.group) * per_group) * s.x_image;
    const std::vector<int64_t> table = gather_table(s, at % s.y_image, count);
    std::vector<double> columns, column_radii;
    gather(x.f, base, s, table, count, columns);
    if (!x.radius.empty()) gather(x.radius, base, s, table, count, column_radii);
    const double v = bias ? bias->f[static_cast<size_t>(m)] : 0;
    const double r = bias ? sum_radius(call.u, depth + 1, std::fabs(v)) + bias->r(m) : 0;
    if (count >= kDenseRun) {
      std::fill_n(y.f.begin() + at, count, v);
      std::fill_n(y.radius.begin() + at, count, r);
      if (x.radius.empty() && w.radius.empty())
        return row_product(count, depth, w.f.data() + m * depth, 1, columns.data(), count, call.u, depth + 1,
                           y.f.data() + at, y.radius.data() + at);
      return dense_product(1, count, depth, side(w, m * depth, depth, 1),
                           {columns.data(), x.radius.empty() ? nullptr : column_radii.data(), count, 1}, call.u,
                           depth + 1, y.f.data() + at, y.radius.data() + at, count);
    }
    for (int64_t k = 0; k < count; ++k) {
      ProductSum sum;
      for (int64_t p = 0; p < depth; ++p) {
        const size_t from = static_cast<size_t>(p * count + k);
        sum.add(columns[from], column_radii.empty() ? 0 : column_radii[from], w.f[static_cast<size_t>(m * depth + p)],
                w.r(m * depth + p));
      }
      y.f[static_cast<size_t>(at + k)] = v + sum.value;
      y.radius[static_cast<size_t>(at + k)] = r + sum.radius(call.u, depth + 1);
    }
  });
}

void whole(RefCall& call, const Sizes& s) {
  const RefTensor &x = *call.in[0], &w = *call.in[1];
  const RefTensor* bias = call.in.size() > 2 ? call.in[2] : nullptr;
  RefTensor& y = call.out[0];
  const int64_t tiles = (s.y_image + kTile - 1) / kTile, rows = s.outputs / s.group, depth = s.depth();
  parallel_for(call.threads, tiles * s.batch * s.group, [&](int64_t begin, int64_t end) {
    int64_t held_tile = -1;
    std::vector<int64_t> table;
    std::vector<double> columns, column_radii;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t tile = task / (s.batch * s.group), image = task / s.group % s.batch, g = task % s.group;
      const int64_t first = tile * kTile, count = std::min(kTile, s.y_image - first);
      if (tile != held_tile) table = gather_table(s, first, count);
      held_tile = tile;
      const int64_t base = (image * s.channels + g * (s.channels / s.group)) * s.x_image;
      gather(x.f, base, s, table, count, columns);
      if (!x.radius.empty()) gather(x.radius, base, s, table, count, column_radii);
      const int64_t to = (image * s.outputs + g * rows) * s.y_image + first;
      for (int64_t m = 0; m < rows; ++m) {
        const int64_t channel = g * rows + m;
        const double v = bias ? bias->f[static_cast<size_t>(channel)] : 0;
        const double r = bias ? sum_radius(call.u, depth + 1, std::fabs(v)) + bias->r(channel) : 0;
        std::fill_n(y.f.begin() + to + m * s.y_image, count, v);
        std::fill_n(y.radius.begin() + to + m * s.y_image, count, r);
      }
      dense_product(rows, count, depth, side(w, g * rows * depth, depth, 1),
                    {columns.data(), x.radius.empty() ? nullptr : column_radii.data(), count, 1}, call.u, depth + 1,
                    y.f.data() + to, y.radius.data() + to, s.y_image);
    }
  });
}

// Adds what results may be off by that are computed by tiles.
void add_tile_radii(RefCall& call, const Sizes& s) {
  const ConvTiles tiles = s.tiles();
  const std::vector<double> lengths = filter_lengths(call.in[1]->f);
  const size_t channels = static_cast<size_t>(s.channels);
  const int64_t of_image = tiles.count();
  const auto row_of = [&](int64_t at) {  // of the table of largest inputs
    return at / s.y_image / s.outputs * of_image + tiles.of(at % s.y_image);
  };
  std::vector<char> wanted(static_cast<size_t>(s.batch * of_image), 0);
  for (int64_t n = 0; n < call.count(); ++n) wanted[static_cast<size_t>(row_of(call.position(n)))] = 1;
  std::vector<double> largest(wanted.size() * channels);
  parallel_for(call.threads, std::ssize(wanted), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (!wanted[static_cast<size_t>(row)]) continue;
      const double* image = call.in[0]->f.data() + row / of_image * s.channels * s.x_image;
      tiles.largest_inputs(row % of_image, image,
                           std::span(largest).subspan(static_cast<size_t>(row) * channels, channels));
    }
  });
  each_run(call, s.y_image, s.y_image, [&](int64_t at, int64_t count) {
    const double* filter = lengths.data() + at / s.y_image % s.outputs * s.channels;
    std::vector<double> made(static_cast<size_t>(of_image), -1);  // of this channel's image
    for (int64_t k = at; k < at + count; ++k) {
      double& r = made[static_cast<size_t>(tiles.of(k % s.y_image))];
      if (r < 0) {
        const double* row = largest.data() + row_of(k) * s.channels;
        r = sum_radius(call.u, s.depth() + 1, std::inner_product(row, row + s.channels, filter, 0.0));
      }
      call.out[0].radius[static_cast<size_t>(k)] += r;
    }
  });
}

Status reference(RefCall& call) {
  const Sizes s(call.node);
  if (call.out[0].numel() == 0) return Ok{};
  if (call.positions.empty()) {
    whole(call, s);
  } else {
    at_positions(call, s);
  }
  if (s.tiled && call.u != 0) add_tile_radii(call, s);
  settle_radii(call.out[0], call.positions);
  return Ok{};
}

// x: the window in every channel of the group, or the tile in which it is computed; w: the filters of the requested
// channels; bias: their elements.
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Sizes s(node);
  const std::vector<int64_t> y = concrete(*node.out());
  const int64_t per_group = s.channels / s.group;
  if (port > 0) {
    const int64_t step = port == 1 ? s.depth() : 1;
    PositionSet set(s.outputs * step);
    for (int64_t p : positions) {
      const int64_t m = p / s.y_image % s.outputs;
      if (!set.contains(m * step)) set.add_range(m * step, (m + 1) * step);
    }
    set.list(needed);
    return true;
  }
  PositionSet set(s.batch * s.channels * s.x_image), done(s.batch * s.group * s.y_image);
  std::vector<int64_t> o(y.size());
  for (int64_t p : positions) {
    unravel(p, y, o);
    const int64_t group_image = o[0] * s.group + o[1] / (s.outputs / s.group),
                  key = group_image * s.y_image + (s.tiled ? s.tiles().of(p % s.y_image) : p % s.y_image);
    if (done.contains(key)) continue;
    done.add(key);
    const auto add = [&](int64_t offset, int64_t = 0) {
      for (int64_t c = 0; c < per_group; ++c) set.add((group_image * per_group + c) * s.x_image + offset);
    };
    if (s.tiled)
      s.tiles().each_input(s.tiles().of(p % s.y_image), add);
    else
      each_tap(s.window, s.in, o.data() + 2, add);
  }
  set.list(needed);
  return true;
}

// Taps in the padding are no work.
Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const Shape &x = *node.in(0)->type.shape, &w = *node.in(1)->type.shape, &y = *node.out()->type.shape;
  const bool known = is_const(x) && is_const(w) && is_const(y);
  c.flops = 2 * elements_of(*node.out()) * (w[1].is_const() ? static_cast<double>(w[1].value()) : 1);
  const Window window = known ? window_of(node) : Window{};
  for (size_t d = 2; d < w.size(); ++d) {
    if (!known) {
      c.flops *= w[d].is_const() ? static_cast<double>(w[d].value()) : 1;
    } else if (y[d].value() > 0) {
      c.flops *= static_cast<double>(taps_inside(window, d - 2, x[d].value(), y[d].value())) /
                 static_cast<double>(y[d].value());
    }
  }
  return c;
}

double fan_in(const ir::Node&, std::span<const int64_t> w) {
  double products = 1;
  for (size_t d = 1; d < w.size(); ++d) products *= static_cast<double>(w[d]);
  return products;
}

}  // namespace

extern const Entry conv_entry;
const Entry conv_entry{{
    {.name = "conv",
     .onnx = "Conv",
     .versions = {1, 11, 22},
     .inputs = {{"x", kFloats},
                {"w", kFloats, false, false, 0, Role::kWeight},
                {"bias", kFloats, true, false, 0, Role::kBias}},
     .outputs = {{"y"}},
     .attrs = {{"auto_pad", AttrKind::kString, false, "NOTSET"},
               {"dilations", AttrKind::kInts, false, "1 each"},
               {"group", AttrKind::kInt, false, "1"},
               {"kernel_shape", AttrKind::kInts, false, "that of w"},
               {"pads", AttrKind::kInts, false, "0 each"},
               {"strides", AttrKind::kInts, false, "1 each"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .channels_second = true,
     .reads_stored = 0,
     .fan_in = fan_in,
     .any_size = any_size_of_batch,
     .samples = {"graph { input x: f32[2,3,9,8]; const w: f32[4,3,3,3] = seeded(0.3, 1); const b: f32[4] = seeded(0.5, "
                 "2); y = conv(x, w, b) {pads=[1,1,1,1]}; output y }",
                 "graph { input x: f32[1,16,7,7]; const w: f32[32,16,1,1] = seeded(0.3, 1); y = conv(x, w) "
                 "{strides=[2,2]}; output y }",
                 "graph { input x: f32[2,6,10,11]; const w: f32[6,1,5,3] = seeded(0.3, 1); y = conv(x, w) {group=6, "
                 "pads=[2,1,2,1]}; output y }",
                 "graph { input x: f32[1,8,9,43]; const w: f32[8,1,3,3] = seeded(0.3, 1); y = conv(x, w) {group=8, "
                 "dilations=[3,1], pads=[3,1,3,1]}; output y }",
                 "graph { input x: f32[1,40,11,42]; const w: f32[40,1,5,5] = seeded(0.3, 1); y = conv(x, w) {group=40, "
                 "dilations=[2,1], pads=[4,2,4,2], strides=[2,2]}; output y }",
                 "graph { input x: f32[2,24,7,39]; const w: f32[24,1,3,3] = seeded(0.3, 1); y = conv(x, w) {group=24, "
                 "dilations=[1,3], pads=[1,3,1,3]}; output y }",
                 "graph { input x: f32[1,12,6,37]; const w: f32[24,12,3,3] = seeded(0.3, 1); y = conv(x, w) "
                 "{dilations=[3,1], pads=[3,1,3,1], strides=[1,2]}; output y }",
                 "graph { input x: f32[1,8,9,9]; const w: f32[12,4,3,3] = seeded(0.3, 1); y = conv(x, w) {group=2, "
                 "dilations=[2,3], pads=[0,1,4,5], strides=[1,2]}; output y }",
                 "graph { input x: f32[1,3,8,7]; const w: f32[2,3,4,2] = seeded(0.3, 1); y = conv(x, w) "
                 "{auto_pad=\"SAME_LOWER\", strides=[2,3]}; output y }",
                 "graph { input x: f32[3,4,17]; const w: f32[5,4,4] = seeded(0.3, 1); y = conv(x, w) "
                 "{auto_pad=\"SAME_UPPER\"}; output y }",
                 "graph { input x: f32[1,2,4,5,6]; const w: f32[3,2,2,3,2] = seeded(0.3, 1); y = conv(x, w) "
                 "{auto_pad=\"VALID\"}; output y }",
                 "graph { input x: f16[1,4,6,6]; const w: f16[4,4,3,3] = seeded(0.2, 1); y = conv(x, w) "
                 "{pads=[1,1,1,1]}; output y }",
                 "graph { input x: f32[0,3,5,5]; const w: f32[2,3,3,3] = seeded(0.3, 1); y = conv(x, w); output y }",
                 "graph { input x: f32[1,1,1,1]; input w: f32[1,1,1,1]; y = conv(x, w); output y }"}},
}};
}  // namespace peri::ops
