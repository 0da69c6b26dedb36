// Kernel scatter: scatter_elements and scatter_nd with every reduction: a copy of the data, unless the result shares
// its memory, then the updates in ascending order, each element's by one task.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexed.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kCopyBytes = 64 * 1024;  // of the data, a task
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kParts = 16;  // tasks that share the columns of the updates

enum class Join { kNone, kAdd, kMul, kMax, kMin };

Result<Join> join_of(const ir::Node& n) {
  const std::string word = n.s("reduction", "none");
  if (word == "none") return Join::kNone;
  if (word == "add") return Join::kAdd;
  if (word == "mul") return Join::kMul;
  if (word == "max") return Join::kMax;
  if (word == "min") return Join::kMin;
  return refused("reduction %s", word.c_str());
}

template <Join kHow, class T>
T joined(T y, T v) {
  switch (kHow) {
    case Join::kNone: return v;
    case Join::kAdd:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(y) + static_cast<uint64_t>(v));
      return y + v;
    case Join::kMul:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(y) * static_cast<uint64_t>(v));
      return y * v;
    case Join::kMax: return v != v || (y == y && v > y) ? v : y;
    case Join::kMin: return v != v || (y == y && v < y) ? v : y;
  }
  return v;
}

template <class F>
auto by_type(DType type, Join how, F f) {
  if (how == Join::kNone) {  // only the width counts
    switch (dtype_size(type)) {
      case 1: return f(uint8_t{});
      case 2: return f(uint16_t{});
      case 4: return f(uint32_t{});
      default: return f(uint64_t{});
    }
  }
  switch (type) {
    case DType::kF32: return f(float{});
    case DType::kF64: return f(double{});
    case DType::kI8: return f(int8_t{});
    case DType::kI16: return f(int16_t{});
    case DType::kI32: return f(int32_t{});
    case DType::kI64: return f(int64_t{});
    case DType::kU8: return f(uint8_t{});
    case DType::kU16: return f(uint16_t{});
    case DType::kU32: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}
// f with the reduction as a constant, so that no loop asks for it.
template <class F>
auto by_join(Join how, F f) {
  switch (how) {
    case Join::kAdd: return f(std::integral_constant<Join, Join::kAdd>());
    case Join::kMul: return f(std::integral_constant<Join, Join::kMul>());
    case Join::kMax: return f(std::integral_constant<Join, Join::kMax>());
    case Join::kMin: return f(std::integral_constant<Join, Join::kMin>());
    default: return f(std::integral_constant<Join, Join::kNone>());
  }
}
// Of truths, which are bytes 0 and 1, a sum is the larger one and a product the smaller.
void as_bytes(Join* how, DType* type) {
  if (*type != DType::kBool || *how == Join::kNone) return;
  *type = DType::kU8;
  *how = *how == Join::kAdd ? Join::kMax : *how == Join::kMul ? Join::kMin : *how;
}
bool has_arithmetic(DType type) {
  return type == DType::kF32 || type == DType::kF64 || (is_integer(type) && dtype_size(type) > 0);
}

int64_t product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t k = begin; k < end; ++k) n *= dims[k];
  return n;
}

struct Shape {
  Join how = Join::kNone;
  DType type = DType::kInvalid;
  bool wide = true, by_element = false;
  // scatter_elements: dims of the indices, steps of the data, the axis.
  std::vector<int64_t> dims, steps;
  size_t axis = 0;
  // scatter_nd: extents that a tuple points into, elements it names.
  std::vector<int64_t> extents;
  int64_t slice = 1, updates = 0, elements = 0;  // tuples, or elements of scatter_elements; of the data
  int64_t tasks = 1;
};

// Update p of scatter_elements goes to its own line: lines are divided among the tasks by the coordinates of the axes
// before `axis`, or of those after it if there are more of these.
template <Join kHow, class T>
bool by_lines(const Shape& s, const T* updates, const void* indices, T* y, int64_t task) {
  const int64_t before = product(s.dims, 0, s.axis), along = s.dims[s.axis],
                behind = product(s.dims, s.axis + 1, s.dims.size());
  const bool split_before = before >= behind;
  const int64_t lines = split_before ? before : behind, first = lines * task / s.tasks,
                end = lines * (task + 1) / s.tasks;
  const int64_t extent = s.extents[0], step = s.steps[s.axis];
  for (int64_t b = split_before ? first : 0; b < (split_before ? end : before); ++b) {
    int64_t base = 0, rest = b;
    for (size_t d = s.axis; d-- > 0; rest /= s.dims[d]) base += rest % s.dims[d] * s.steps[d];
    for (int64_t k = 0; k < along; ++k) {
      for (int64_t i = split_before ? 0 : first; i < (split_before ? behind : end); ++i) {
        const int64_t p = (b * along + k) * behind + i;
        int64_t at = index_at(indices, s.wide, p), offset = 0, inner = i;
        at += at < 0 ? extent : 0;
        if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(extent)) return false;
        for (size_t d = s.dims.size(); d-- > s.axis + 1; inner /= s.dims[d]) offset += inner % s.dims[d] * s.steps[d];
        T& to = y[base + at * step + offset];
        to = joined<kHow>(to, updates[p]);
      }
    }
  }
  return true;
}

// The tasks share the columns of the slices.
template <Join kHow, class T>
bool by_tuples(const Shape& s, const T* updates, const void* indices, T* y, int64_t task) {
  const int64_t first = s.slice * task / s.tasks, end = s.slice * (task + 1) / s.tasks,
                depth = static_cast<int64_t>(s.extents.size());
  for (int64_t t = 0; t < s.updates; ++t) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = s.extents[static_cast<size_t>(k)];
      int64_t index = index_at(indices, s.wide, t * depth + k);
      index += index < 0 ? extent : 0;
      if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) return false;
      at = at * extent + index;
    }
    T* to = y + at * s.slice;
    const T* from = updates + t * s.slice;
    if constexpr (kHow == Join::kNone)
      std::memcpy(to + first, from + first, static_cast<size_t>(end - first) * sizeof(T));
    else
      for (int64_t e = first; e < end; ++e) to[e] = joined<kHow>(to[e], from[e]);
  }
  return true;
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "scatter_elements" && n.op != "scatter_nd") return refused("not a scatter");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  Shape s;
  PERI_ASSIGN(s.how, join_of(n));
  s.type = n.in(0)->type.dtype;
  as_bytes(&s.how, &s.type);
  const int bytes = dtype_size(s.type);
  if (bytes == 0 || bytes > 8 || (s.how != Join::kNone && !has_arithmetic(s.type)))
    return refused("elements of %s", dtype_name(s.type).data());
  const std::vector<int64_t> d = dims_of(*n.in(0)), i = dims_of(*n.in(1));
  s.wide = n.in(1)->type.dtype == DType::kI64;
  s.elements = product(d, 0, d.size());
  if (s.elements == 0) return refused("an empty result");
  s.by_element = n.op == "scatter_elements";
  if (s.by_element) {
    int64_t axis = n.i("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(d.size());
    if (axis < 0 || axis >= static_cast<int64_t>(d.size()) || i.size() != d.size()) return refused("a bad axis");
    s.axis = static_cast<size_t>(axis);
    s.dims = i;
    s.steps.assign(d.size(), 1);
    for (size_t k = d.size(); k-- > 1;) s.steps[k - 1] = s.steps[k] * d[k];
    s.extents = {d[s.axis]};
    s.updates = product(i, 0, i.size());
    s.tasks = std::clamp<int64_t>(std::max(product(i, 0, s.axis), product(i, s.axis + 1, i.size())), 1, kParts);
  } else {
    const size_t depth = static_cast<size_t>(i.back());
    if (depth > d.size()) return refused("bad indices");
    s.extents.assign(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(depth));
    s.slice = product(d, depth, d.size());
    s.updates = product(i, 0, i.size() - 1);
    s.tasks = std::clamp<int64_t>(s.slice / 16, 1, kParts);
  }
  return s;
}

// The input whose memory the result may take: the data, where nothing else reads it.
int taken(const Problem& p) {
  const ir::Value* data = p.anchor().in(0);
  const int k = input_index(*p.graph, data);
  return k >= 0 && !p.constant[static_cast<size_t>(k)] && data->users.size() == 1 ? k : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  Offer o = row_major_offer(p, target);
  o.in_place = {taken(p)};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = p.anchor();
  const Source data = Source::of(p, n.in(0), c.constants), indices = Source::of(p, n.in(1), c.constants),
               updates = Source::of(p, n.in(2), c.constants);
  if (!data.known() || !indices.known() || !updates.known()) return refused("reads a value made inside the region");
  const int64_t bytes = s.elements * dtype_size(s.type);
  const auto copy = [=](int64_t task, const Args& args) {
    const int64_t begin = task * kCopyBytes, count = std::min(bytes - begin, kCopyBytes);
    const auto* from = static_cast<const std::byte*>(data.data(args));
    auto* to = static_cast<std::byte*>(args.out[0]);
    if (from != to) std::memcpy(to + begin, from + begin, static_cast<size_t>(count));
    return true;
  };
  const auto apply = [=](int64_t task, const Args& args) {
    return by_type(s.type, s.how, [&](auto t) {
      using T = decltype(t);
      const T* from = static_cast<const T*>(updates.data(args));
      T* to = static_cast<T*>(args.out[0]);
      return by_join(s.how, [&](auto how) {
        return s.by_element ? by_lines<how.value>(s, from, indices.data(args), to, task)
                            : by_tuples<how.value>(s, from, indices.data(args), to, task);
      });
    });
  };
  std::vector<IndexedInstance::Phase> phases = {{(bytes + kCopyBytes - 1) / kCopyBytes, copy}};
  if (s.updates * s.slice > 0) phases.push_back({s.tasks, apply});
  return IndexedInstance::make(std::move(phases), "each index in the range of its axis", taken(p));
}
}  // namespace

extern const Entry scatter_entry;
const Entry scatter_entry{{
    .name = "scatter",
    .version = 2,
    .provider = "peri",
    .takes = "scatter_elements and scatter_nd with every reduction, elements of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input data: f32[40,3,70]; input i: i64[40,2,70]; input u: f32[40,2,70]; y = "
                "scatter_elements(data, i, u) {axis=1, reduction=\"add\"}; output y }",
                "graph { input data: bool[40,3,70]; input i: i64[40,2,70]; input u: bool[40,2,70]; y = "
                "scatter_elements(data, i, u) {axis=1, reduction=\"add\"}; output y }",
                "graph { input data: bool[40,3,70]; input i: i64[9,2]; input u: bool[9,70]; y = scatter_nd(data, i, u) "
                "{reduction=\"mul\"}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
