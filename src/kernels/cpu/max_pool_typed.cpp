// Kernel max_pool_typed: max pooling of f32, f64 and 8-bit integers in any number of dimensions, with the index of each
// maximum.
#include <algorithm>
#include <limits>
#include <span>

#include "kernels/cpu/task_instance.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {

struct Shape {
  DType type = DType::kInvalid;
  ops::Window window;
  std::vector<int64_t> in, out;  // spatial
  int64_t planes = 1, in_size = 1, out_size = 1;
  bool columns = false;          // places count the first spatial axis fastest
  int values = -1, places = -1;  // graph outputs
};

int output_index(const ir::Graph& g, const ir::Value* v) {
  const auto it = std::find(g.outputs.begin(), g.outputs.end(), v);
  return v == nullptr || it == g.outputs.end() ? -1 : static_cast<int>(it - g.outputs.begin());
}

// A place in an image, read the other way round.
int64_t column_major(int64_t offset, const std::vector<int64_t>& dims) {
  int64_t at = 0, step = 1;
  for (const int64_t d : dims) step *= d;
  for (size_t k = dims.size(); k-- > 0;) {
    step /= dims[k];
    at += offset % dims[k] * step;
    offset /= dims[k];
  }
  return at;
}

template <class T>
void run_plane(const Shape& s, const void* from, const Args& args, int64_t plane) {
  const T* x = static_cast<const T*>(from) + plane * s.in_size;
  T* values = s.values < 0 ? nullptr : static_cast<T*>(args.out[static_cast<size_t>(s.values)]) + plane * s.out_size;
  int64_t* places =
      s.places < 0 ? nullptr : static_cast<int64_t*>(args.out[static_cast<size_t>(s.places)]) + plane * s.out_size;
  int64_t o[8] = {};
  for (int64_t p = 0; p < s.out_size; ++p) {
    T best = std::numeric_limits<T>::lowest();
    int64_t place = -1;
    ops::each_tap(s.window, s.in, o, [&](int64_t offset, int64_t) {
      const T v = x[offset];
      if (place >= 0 && !(v > best) && (v == v || best != best)) return;
      best = v;
      place = offset;
    });
    if (values) values[p] = best;
    if (places && place >= 0) places[p] = plane * s.in_size + (s.columns ? column_major(place, s.in) : place);
    if (places && place < 0) places[p] = -1;
    for (size_t d = s.out.size(); d-- > 0; o[d] = 0)
      if (++o[d] != s.out[d]) break;
  }
}

// What a task has of one image and writes of it.
template <class T>
struct Plane {
  const T* x;
  T* values;        // null: not asked for
  int64_t* places;  // null: not asked for
  int64_t begin;    // of the image among all
  void put(const Shape& s, int64_t p, T best, int64_t place) const {
    if (values) values[p] = best;
    if (places) places[p] = place < 0 ? -1 : begin + (s.columns ? column_major(place, s.in) : place);
  }
};

// Columns of a row of results whose windows may leave the image; `rows`: where the windows' rows begin.
template <class T>
void run_edge(const Shape& s, const Plane<T>& at, std::span<const int64_t> rows, int64_t row, int64_t ox, int64_t end) {
  const ops::Window& w = s.window;
  const size_t last = s.in.size() - 1;
  const int64_t across = w.dilation[last], width = s.in[last];
  for (; ox < end; ++ox) {
    const int64_t left = ops::window_at(w, last, ox, 0), right = std::min(width, left + w.kernel[last] * across),
                  begin = left >= 0 ? left : left + (-left + across - 1) / across * across;
    T best = std::numeric_limits<T>::lowest();
    int64_t place = -1;
    for (const int64_t line : rows)
      for (int64_t j = begin; j < right; j += across) {
        const T v = at.x[line + j];
        const bool take = (place < 0) | (v > best) | ((v != v) & (best == best));
        best = take ? v : best;
        place = take ? line + j : place;
      }
    at.put(s, row + ox, best, place);
  }
}

// The maximum of each window's current element and the one `offset` from the first, for many windows at once, kStride
// apart (0: `stride`). The best of 64 and their indices are 768 bytes, which stay in L1 from tap to tap.
constexpr int64_t kWindows = 64;
template <class T, int64_t kStride>
void take_larger(const T* __restrict x, int64_t stride, int32_t offset, int64_t n, T* __restrict best,
                 int32_t* __restrict place) {
  const int64_t step = kStride > 0 ? kStride : stride;
  for (int64_t k = 0; k < n; ++k) {
    const T v = x[k * step], old = best[k];
    const bool take = (v > old) | ((v != v) & (old == old));
    best[k] = take ? v : old;
    place[k] = take ? offset : place[k];
  }
}

// Columns whose windows lie inside the image along it.
template <class T>
void run_inside(const Shape& s, const Plane<T>& at, std::span<const int64_t> rows, int64_t row, int64_t ox,
                int64_t end) {
  const ops::Window& w = s.window;
  const size_t last = s.in.size() - 1;
  const int64_t stride = w.stride[last], reach = w.kernel[last] * w.dilation[last];
  const auto larger = stride == 1 ? take_larger<T, 1> : stride == 2 ? take_larger<T, 2> : take_larger<T, 0>;
  for (; ox < end; ox += kWindows) {
    const int64_t n = std::min(kWindows, end - ox), corner = rows[0] + ops::window_at(w, last, ox, 0);
    T best[kWindows];
    int32_t place[kWindows];
    const T* const first = at.x + corner;
    for (int64_t k = 0; k < n; ++k) best[k] = first[k * stride];
    std::fill_n(place, n, 0);
    for (const int64_t line : rows)
      for (int64_t j = 0; j < reach; j += w.dilation[last])
        if (const int64_t offset = line - rows[0] + j; offset > 0)
          larger(first + offset, stride, static_cast<int32_t>(offset), n, best, place);
    for (int64_t k = 0; k < n; ++k) at.put(s, row + ox + k, best[k], corner + k * stride + place[k]);
  }
}

// Where the rows of an image begin that the windows of a row of results have; `o`: its place along the axes before.
void find_rows(const Shape& s, const std::vector<int64_t>& o, std::vector<int64_t>& rows, std::vector<int64_t>& part) {
  const ops::Window& w = s.window;
  rows.assign(1, 0);
  for (size_t d = 0; d + 1 < s.in.size(); ++d) {
    part.clear();
    for (const int64_t before : rows)
      for (int64_t k = 0; k < w.kernel[d]; ++k)
        if (const int64_t at = ops::window_at(w, d, o[d], k); at >= 0 && at < s.in[d])
          part.push_back(before * s.in[d] + at);
    rows.swap(part);
  }
  for (int64_t& row : rows) row *= s.in.back();
}

// Many windows of a row of results at once, those at its ends one by one.
template <class T>
void run_image(const Shape& s, const void* from, const Args& args, int64_t plane) {
  const auto part = [&](int output, auto* none) {
    return output < 0 ? nullptr
                      : static_cast<decltype(none)>(args.out[static_cast<size_t>(output)]) + plane * s.out_size;
  };
  const Plane<T> at{static_cast<const T*>(from) + plane * s.in_size, part(s.values, static_cast<T*>(nullptr)),
                    part(s.places, static_cast<int64_t*>(nullptr)), plane * s.in_size};
  const ops::Window& w = s.window;
  const size_t axis = s.in.size() - 1;
  const int64_t stride = w.stride[axis], pad = w.pad_begin[axis], last = s.in[axis] - w.reach(axis) + pad,
                columns = s.out[axis], low = std::min(columns, (pad + stride - 1) / stride),
                high = last < 0 ? low : std::clamp(last / stride + 1, low, columns);
  std::vector<int64_t> o(axis), rows, more;
  for (int64_t row = 0; row < s.out_size; row += columns) {
    find_rows(s, o, rows, more);
    const int64_t inside = rows.empty() ? columns : low, after = rows.empty() ? columns : high;
    run_edge<T>(s, at, rows, row, 0, inside);
    run_inside<T>(s, at, rows, row, inside, after);
    run_edge<T>(s, at, rows, row, after, columns);
    for (size_t d = axis; d-- > 0; o[d] = 0)
      if (++o[d] != s.out[d]) break;
  }
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_pool") return refused("not a max_pool");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  Shape s;
  s.type = n.in(0)->type.dtype;
  if (s.type != DType::kF32 && s.type != DType::kF64 && s.type != DType::kU8 && s.type != DType::kI8)
    return refused("elements of %s", dtype_name(s.type).data());
  if (n.outputs.size() < 2 && s.type == DType::kF32) return refused("asks for no places");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 8) return refused("takes one to six spatial dimensions");
  s.window = ops::window_of(n);
  s.in.assign(x.begin() + 2, x.end());
  s.out.assign(y.begin() + 2, y.end());
  s.planes = x[0] * x[1];
  for (const int64_t d : s.in) s.in_size *= d;
  for (const int64_t d : s.out) s.out_size *= d;
  if (s.planes * s.in_size * s.out_size == 0) return refused("an empty tensor");
  s.columns = n.i("storage_order") != 0;
  s.values = output_index(*p.graph, n.outputs[0]);
  s.places = n.outputs.size() > 1 ? output_index(*p.graph, n.outputs[1]) : -1;
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  if (s.in_size < std::numeric_limits<int32_t>::max()) {
    const auto run = s.type == DType::kF32   ? run_image<float>
                     : s.type == DType::kF64 ? run_image<double>
                     : s.type == DType::kU8  ? run_image<uint8_t>
                                             : run_image<int8_t>;
    return TaskInstance::make(s.planes, 0, [=](int64_t plane, const Args& args) { run(s, x.data(args), args, plane); });
  }
  const auto run = s.type == DType::kF32   ? run_plane<float>
                   : s.type == DType::kF64 ? run_plane<double>
                   : s.type == DType::kU8  ? run_plane<uint8_t>
                                           : run_plane<int8_t>;
  return TaskInstance::make(s.planes, 0, [=](int64_t plane, const Args& args) { run(s, x.data(args), args, plane); });
}
}  // namespace

extern const Entry max_pool_typed_entry;
const Entry max_pool_typed_entry{{
    .name = "max_pool_typed",
    .version = 3,
    .provider = "peri",
    .takes = "max pooling of 8-bit integers and f64, and of f32 with the places of the maxima",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,9,30,31]; v, i = max_pool(x) {kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, "
         "1]}; output v; output i }",
         "graph { input x: f32[2,3,30,150]; v, i = max_pool(x) {kernel_shape=[2, 2], strides=[2, 2]}; output v; output "
         "i "
         "}",
         "graph { input x: f32[2,3,30,150]; v, i = max_pool(x) {kernel_shape=[3, 4], strides=[1, 3], dilations=[2, 3], "
         "pads=[2, 5, 3, 4], storage_order=1}; output v; output i }",
         "graph { input x: u8[2,9,30,31]; y = max_pool(x) {kernel_shape=[2, 2], strides=[2, 2]}; output y }",
         "graph { input x: f64[2,9,30,31]; v, i = max_pool(x) {kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, "
         "1]}; "
         "output v; output i }",
         "graph { input x: f64[2,3,9,11,7]; y = max_pool(x) {kernel_shape=[2, 2, 3], strides=[2, 2, 1]}; output y }",
         "graph { input x: f64[2,3,9,11,150]; v, i = max_pool(x) {kernel_shape=[3, 2, 3], strides=[2, 1, 2], "
         "dilations=[1, 3, 2], pads=[1, 2, 2, 1, 0, 3], storage_order=1}; output v; output i }",
         "graph { input x: u8[2,9,301]; y = max_pool(x) {kernel_shape=[4], strides=[3], pads=[2, 1]}; output y }",
         "graph { input x: i8[2,9,30,31]; y = max_pool(x) {kernel_shape=[2, 2], strides=[2, 2]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
