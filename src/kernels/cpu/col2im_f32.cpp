// Kernel col2im_f32: columns of two-dimensional sliding blocks added back into their images, one plane per task.
#include <algorithm>

#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {

struct Shape {
  ops::Window window;
  int64_t planes = 0, height = 0, width = 0, rows = 0, columns = 0;
};

std::optional<std::vector<int64_t>> pair(const ir::Value* v) {
  if (!v || !v->constant || v->constant->numel() != 2) return std::nullopt;
  return std::vector<int64_t>{v->constant->i64(0), v->constant->i64(1)};
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "col2im") return refused("not a col2im");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const auto image = pair(n.in(1)), block = pair(n.in(2));
  if (!image || !block) return refused("takes constant sizes of two dimensions only");
  PERI_ASSIGN(const ops::WindowSpec spec, ops::window_spec(n, *block));
  Shape s;
  s.window = spec.window;
  PERI_ASSIGN(const Dim rows, spec.extent(0, Dim((*image)[0]), false));
  PERI_ASSIGN(const Dim columns, spec.extent(1, Dim((*image)[1]), false));
  const std::vector<int64_t> x = dims_of(*n.in(0));
  s.height = (*image)[0];
  s.width = (*image)[1];
  s.rows = rows.value();
  s.columns = columns.value();
  s.planes = x[0] * x[1] / s.window.taps();
  if (x[1] % s.window.taps() != 0 || x[2] != s.rows * s.columns) return refused("blocks that are not those of x");
  if (s.planes == 0) return refused("an empty tensor");
  return s;
}

void add_back(const Shape& s, const float* x, float* y) {
  const ops::Window& w = s.window;
  std::fill_n(y, s.height * s.width, 0.0F);
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky)
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx)
      for (int64_t by = 0; by < s.rows; ++by, x += s.columns) {
        const int64_t at = ops::window_at(w, 0, by, ky), step = w.stride[1], left = ops::window_at(w, 1, 0, kx);
        if (at < 0 || at >= s.height) continue;
        const int64_t begin = left < 0 ? (-left + step - 1) / step : 0,
                      end = std::clamp<int64_t>((s.width - left + step - 1) / step, begin, s.columns);
        float* const row = y + at * s.width + left;
        if (step == 1)
          for (int64_t b = begin; b < end; ++b) row[b] += x[b];
        else
          for (int64_t b = begin; b < end; ++b) row[b * step] += x[b];
      }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  return TaskInstance::make(s.planes, 0, [s, x](int64_t task, const Args& args) {
    add_back(s, x.f32(args) + task * s.window.taps() * s.rows * s.columns,
             static_cast<float*>(args.out[0]) + task * s.height * s.width);
  });
}
}  // namespace

extern const Entry col2im_f32_entry;
const Entry col2im_f32_entry{{
    .name = "col2im_f32",
    .version = 1,
    .provider = "peri",
    .takes = "col2im of f32 in two dimensions with constant sizes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,27,35]; const i: i64[2] = [7, 9]; const b: i64[2] = [3, 3]; y = col2im(x, i, "
         "b); output y }",
         "graph { input x: f32[1,12,16]; const i: i64[2] = [9, 9]; const b: i64[2] = [2, 3]; y = col2im(x, i, b) "
         "{strides=[2,2], pads=[0,1,0,0]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
