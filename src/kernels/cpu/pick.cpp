// Kernel pick: elements and slices selected by indices or by their position (gather_elements, gather_nd,
// reverse_sequence, one_hot, trilu), of any byte-sized type; an index out of range is an error of the run.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexed.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kTaskBytes = 64 * 1024;

using Phase = IndexedInstance::Phase;

// `rows` rows of about `row_bytes` each, so many a task that it is worth one.
Phase by_rows(int64_t rows, int64_t row_bytes, std::function<bool(int64_t begin, int64_t end, const Args&)> run) {
  const int64_t each = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, row_bytes));
  return {(rows + each - 1) / each,
          [=](int64_t task, const Args& args) { return run(task * each, std::min(rows, (task + 1) * each), args); }};
}

template <class F>
auto by_width(int bytes, F f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& dims) {
  std::vector<int64_t> out(dims.size(), 1);
  for (size_t k = dims.size(); k-- > 1;) out[k - 1] = out[k] * dims[k];
  return out;
}
int64_t product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t k = begin; k < end; ++k) n *= dims[k];
  return n;
}
std::string range_text(int64_t extent) {
  return format("indices in [%lld, %lld]", static_cast<long long>(-extent), static_cast<long long>(extent) - 1);
}

struct Plan {
  Phase phase;
  std::string expected = "nothing";
};

// y[c] = x[c with the index in place of its coordinate along an axis], a row of the last axis at a time.
struct Elements {
  std::vector<int64_t> dims, steps;  // of the indices; of x
  size_t axis;
  int64_t extent;
  bool wide;
  // Elements of one row, whose first lies at x[0] but for the index: kLast where the axis is the last.
  template <bool kLast, class T, class Index>
  bool run_row(const T* x, const Index* indices, T* y) const {
    const int64_t n = dims.back(), end = extent, step = steps[axis];
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = indices[i];
      at += at < 0 ? end : 0;
      if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(end)) return false;
      y[i] = kLast ? x[at] : x[at * step + i];
    }
    return true;
  }
  template <class T, class Index>
  bool run_rows(const T* x, const Index* indices, T* y, int64_t begin, int64_t end) const {
    const size_t last = dims.size() - 1;
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row, base = 0;
      for (size_t d = last; d-- > 0; rest /= dims[d])
        if (d != axis) base += rest % dims[d] * steps[d];
      const Index* const own = indices + row * dims[last];
      T* const to = y + row * dims[last];
      if (!(axis == last ? run_row<true>(x + base, own, to) : run_row<false>(x + base, own, to))) return false;
    }
    return true;
  }
  template <class T>
  bool run(const T* x, const void* indices, T* y, int64_t begin, int64_t end) const {
    if (wide) return run_rows(x, static_cast<const int64_t*>(indices), y, begin, end);
    return run_rows(x, static_cast<const int32_t*>(indices), y, begin, end);
  }
};

Result<size_t> axis_of(const ir::Node& n, size_t rank, int64_t fallback) {
  int64_t axis = n.i("axis", fallback);
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return refused("a bad axis");
  return static_cast<size_t>(axis);
}

Result<Plan> elements(const ir::Node& n, int bytes, const Source& x, const Source& indices) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  Elements e;
  PERI_ASSIGN(e.axis, axis_of(n, d.size(), 0));
  e.dims = dims_of(*n.in(1));
  e.steps = strides_of(d);
  e.extent = d[e.axis];
  e.wide = n.in(1)->type.dtype == DType::kI64;
  const int64_t row = e.dims.back(), rows = product(e.dims, 0, e.dims.size() - 1);
  return Plan{by_rows(rows, row * (bytes + (e.wide ? 8 : 4)),
                      [=](int64_t begin, int64_t end, const Args& args) {
                        return by_width(bytes, [&](auto t) {
                          using T = decltype(t);
                          return e.run(static_cast<const T*>(x.data(args)), indices.data(args),
                                       static_cast<T*>(args.out[0]), begin, end);
                        });
                      }),
              range_text(e.extent)};
}

// Slices named by tuples of indices.
struct Tuples {
  std::vector<int64_t> extents;
  int64_t batches = 1, tuples = 1, batch_size = 1,
          slice = 1;  // tuples of a batch; elements of x in a batch, in a slice
  bool wide = true;
  // The place of the slice that tuple t names; -1: out of range.
  int64_t place(const void* indices, int64_t t) const {
    int64_t at = 0;
    const int64_t depth = static_cast<int64_t>(extents.size());
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = extents[static_cast<size_t>(k)];
      int64_t index = index_at(indices, wide, t * depth + k);
      index += index < 0 ? extent : 0;
      if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) return -1;
      at = at * extent + index;
    }
    return t / tuples * batch_size + at * slice;
  }
  // Rows of kSlice elements by one index each, so that the loop knows their size.
  template <int kSlice, class T, class Index>
  bool run_rows(const T* x, const Index* indices, T* y, int64_t begin, int64_t end) const {
    const int64_t extent = extents[0];
    if (extent == 0) return false;
    bool within = true;
    for (int64_t t = begin; t < end; ++t) {
      int64_t at = indices[t];
      at += at < 0 ? extent : 0;
      const bool own = static_cast<uint64_t>(at) < static_cast<uint64_t>(extent);
      within = within && own;
      std::memcpy(y + t * kSlice, x + (own ? at : 0) * kSlice, kSlice * sizeof(T));
    }
    return within;
  }
  template <int kSlice, class T>
  bool run_rows(const T* x, const void* indices, T* y, int64_t begin, int64_t end) const {
    if (wide) return run_rows<kSlice>(x, static_cast<const int64_t*>(indices), y, begin, end);
    return run_rows<kSlice>(x, static_cast<const int32_t*>(indices), y, begin, end);
  }
  template <class T>
  bool run(const T* x, const void* indices, T* y, int64_t begin, int64_t end) const {
    if (extents.size() == 1 && batches == 1 && slice == 1) return run_rows<1>(x, indices, y, begin, end);
    if (extents.size() == 1 && batches == 1 && slice == 4) return run_rows<4>(x, indices, y, begin, end);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at = place(indices, t);
      if (at < 0) return false;
      if (slice == 1)
        y[t] = x[at];
      else
        std::memcpy(y + t * slice, x + at, static_cast<size_t>(slice) * sizeof(T));
    }
    return true;
  }
};

Result<Plan> tuples(const ir::Node& n, int bytes, const Source& x, const Source& indices) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), i = dims_of(*n.in(1));
  const size_t batch = static_cast<size_t>(n.i("batch_dims", 0)), depth = static_cast<size_t>(i.back());
  if (batch + depth > d.size() || batch >= i.size()) return refused("bad indices");
  Tuples t;
  t.extents.assign(d.begin() + static_cast<std::ptrdiff_t>(batch),
                   d.begin() + static_cast<std::ptrdiff_t>(batch + depth));
  t.batches = product(i, 0, batch);
  t.tuples = product(i, batch, i.size() - 1);
  t.batch_size = product(d, batch, d.size());
  t.slice = product(d, batch + depth, d.size());
  t.wide = n.in(1)->type.dtype == DType::kI64;
  return Plan{by_rows(product(i, 0, i.size() - 1), t.slice * bytes,
                      [=](int64_t begin, int64_t end, const Args& args) {
                        return by_width(bytes, [&](auto v) {
                          using T = decltype(v);
                          return t.run(static_cast<const T*>(x.data(args)), indices.data(args),
                                       static_cast<T*>(args.out[0]), begin, end);
                        });
                      }),
              "each index in the range of its axis"};
}

// Rows (time, batch) of all further axes.
Result<Plan> reversed(const ir::Node& n, int bytes, const Source& x, const Source& lengths) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const bool time_first = n.i("time_axis", 0) == 0;
  const int64_t row = product(d, 2, d.size()) * bytes, steps = time_first ? d[0] : d[1];
  const int64_t second = d[1];
  return Plan{by_rows(d[0] * d[1], row,
                      [=](int64_t begin, int64_t end, const Args& args) {
                        const auto* from = static_cast<const std::byte*>(x.data(args));
                        auto* to = static_cast<std::byte*>(args.out[0]);
                        const auto* length = static_cast<const int64_t*>(lengths.data(args));
                        for (int64_t r = begin; r < end; ++r) {
                          const int64_t t = time_first ? r / second : r % second,
                                        b = time_first ? r % second : r / second;
                          if (length[b] < 0 || length[b] > steps) return false;
                          const int64_t moved = t < length[b] ? length[b] - 1 - 2 * t : 0;
                          const int64_t source = r + moved * (time_first ? second : 1);
                          std::memcpy(to + r * row, from + source * row, static_cast<size_t>(row));
                        }
                        return true;
                      }),
              format("lengths in [0, %lld]", static_cast<long long>(steps))};
}

// [outer, depth, inner]: first the value of all others, then those that the indices name.
Result<Plan> one_hot(const ir::Node& n, int bytes, const Source& indices, const Source& values) {
  const std::vector<int64_t> y = dims_of(*n.out());
  PERI_ASSIGN(const size_t axis, axis_of(n, y.size(), -1));
  const DType type = n.in(0)->type.dtype;
  if (type != DType::kI64 && type != DType::kI32) return refused("indices of %s", dtype_name(type).data());
  const bool wide = type == DType::kI64;
  const int64_t outer = product(y, 0, axis), depth = y[axis], inner = product(y, axis + 1, y.size());
  return Plan{by_rows(outer, depth * inner * bytes, [=](int64_t begin, int64_t end, const Args& args) {
    return by_width(bytes, [&](auto t) {
      using T = decltype(t);
      const T *value = static_cast<const T*>(values.data(args)), off = value[0], on = value[1];
      for (int64_t o = begin; o < end; ++o) {
        T* to = static_cast<T*>(args.out[0]) + o * depth * inner;
        std::fill_n(to, depth * inner, off);
        for (int64_t i = 0; i < inner; ++i) {
          int64_t at = index_at(indices.data(args), wide, o * inner + i);
          at += at < 0 ? depth : 0;
          if (static_cast<uint64_t>(at) < static_cast<uint64_t>(depth)) to[at * inner + i] = on;
        }
      }
      return true;
    });
  })};
}

Result<Plan> triangle(const ir::Node& n, int bytes, const Source& x) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t k = 0;
  if (n.in(1)) {
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_ASSIGN(const std::vector<int64_t> given, context.constants(1, "the diagonal"));
    if (given.size() != 1) return refused("a bad diagonal");
    k = given[0];
  }
  const bool upper = n.i("upper", 1) != 0;
  const int64_t columns = d.back(), lines = d[d.size() - 2], rows = product(d, 0, d.size() - 1);
  k = std::clamp<int64_t>(k, -lines - 1, columns + 1);
  return Plan{by_rows(rows, columns * bytes, [=](int64_t begin, int64_t end, const Args& args) {
    for (int64_t r = begin; r < end; ++r) {
      // The first column of the upper part; what is before it is the lower part of the diagonal above.
      const int64_t first = std::clamp<int64_t>(r % lines + k + (upper ? 0 : 1), 0, columns);
      const auto* from = static_cast<const std::byte*>(x.data(args)) + r * columns * bytes;
      auto* to = static_cast<std::byte*>(args.out[0]) + r * columns * bytes;
      const size_t left = static_cast<size_t>(first * bytes), right = static_cast<size_t>((columns - first) * bytes);
      if (upper) {
        std::memset(to, 0, left);
        std::memcpy(to + left, from + left, right);
      } else {
        std::memcpy(to, from, left);
        std::memset(to + left, 0, right);
      }
    }
    return true;
  })};
}

Result<Plan> read(const Problem& p, const Constants& constants) {
  const ir::Node& n = p.anchor();
  const bool known = n.op == "gather_elements" || n.op == "gather_nd" || n.op == "reverse_sequence" ||
                     n.op == "one_hot" || n.op == "trilu";
  if (!known) return refused("picks no elements");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const DType type = n.out()->type.dtype;
  const int bytes = dtype_size(type);
  if (bytes == 0 || bytes > 8) return refused("elements of %s", dtype_name(type).data());
  const std::vector<int64_t> y = dims_of(*n.out()), d = dims_of(*n.in(0));
  if (product(y, 0, y.size()) == 0) return refused("an empty result");
  if (d.empty() && n.op != "one_hot") return refused("a scalar");
  const Source first = Source::of(p, n.in(0), constants);
  const Source second = Source::of(p, n.in(n.op == "one_hot" ? 2 : 1), constants);
  if (!first.known() || (n.op != "trilu" && !second.known())) return refused("reads a value made inside the region");
  if (n.op == "gather_elements") return elements(n, bytes, first, second);
  if (n.op == "gather_nd") return tuples(n, bytes, first, second);
  if (n.op == "reverse_sequence") return reversed(n, bytes, first, second);
  if (n.op == "one_hot") return one_hot(n, bytes, first, second);
  return triangle(n, bytes, first);
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p, {}));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Plan plan, read(p, c.constants));
  return IndexedInstance::make({std::move(plan.phase)}, std::move(plan.expected));
}
}  // namespace

extern const Entry pick_entry;
const Entry pick_entry{{
    .name = "pick",
    .version = 1,
    .provider = "peri",
    .takes = "gather_elements, gather_nd, reverse_sequence, one_hot and trilu, elements of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
