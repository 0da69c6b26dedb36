// Counted in slices, which are the same for any number of threads; then written.
#include "exec/sized/selection.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "exec/sized/suppress.hpp"
#include "ops/reference/elements.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/kept.hpp"
#include "ops/shape/range_length.hpp"

namespace peri::exec {

std::vector<int64_t> dims_at(const ir::Node& node, size_t port) { return ops::concrete(*node.in(port)); }
int64_t count_of(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

namespace {
constexpr int64_t kSlice = int64_t{1} << 15;  // elements: as kTaskElements of kernels/cpu/task_elements.hpp

int64_t slices_of(int64_t n) { return (n + kSlice - 1) / kSlice; }

// ---- NonZero
// Writes k - origin for each k in [k, end) that is not zero to y[at], y[at + 1], ..., y[last - 1] at most; the next
// `at`. Without a branch for an element: which ones are zero cannot be foretold.
template <class T, T kMask>
int64_t places(const T* x, int64_t k, int64_t end, int64_t origin, int64_t last, int64_t at, int64_t* y) {
  for (; k < end && at < last; ++k) {
    y[at] = k - origin;
    at += (x[k] & kMask) != 0;
  }
  return at;
}

template <class T, T kMask>
Status non_zero(const SelectionCall& c) {
  const ir::Node& node = c.node;
  const std::vector<int64_t> dims = dims_at(node, 0);
  const int64_t n = count_of(dims), slices = slices_of(n), rank = static_cast<int64_t>(dims.size());
  const T* x = static_cast<const T*>(c.in[0]);
  std::vector<int64_t> first(static_cast<size_t>(slices) + 1);
  c.run.run_tasks(slices, [&](int64_t s, int) {
    const int64_t end = std::min(n, (s + 1) * kSlice);
    int64_t found = 0;
    for (int64_t k = s * kSlice; k < end; ++k) found += (x[k] & kMask) != 0;
    first[static_cast<size_t>(s) + 1] = found;
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  const int64_t total = first.back();
  PERI_ASSIGN(void* const to, c.result(0, std::array{rank, total}));
  int64_t* y = static_cast<int64_t*>(to);
  if (rank == 0) return Ok{};
  const int64_t row = dims.back();
  c.run.run_tasks(slices, [&](int64_t s, int) {
    const int64_t end = std::min(n, (s + 1) * kSlice), last = first[static_cast<size_t>(s) + 1];
    for (int64_t k = s * kSlice, at = first[static_cast<size_t>(s)]; k < end && at < last;) {
      const int64_t own = k / row, begin = at;
      at = places<T, kMask>(x, k, std::min(end, (own + 1) * row), own * row, last, at, y + (rank - 1) * total);
      k = (own + 1) * row;
      for (int64_t a = rank - 1, rest = own; a-- > 0; rest /= dims[static_cast<size_t>(a)])
        std::fill(y + a * total + begin, y + a * total + at, rest % dims[static_cast<size_t>(a)]);
    }
  });
  return Ok{};
}

Selection non_zero_of(const ir::Node& node) {
  switch (node.in(0)->type.dtype) {
    case DType::kF32: return non_zero<uint32_t, 0x7fffffff>;
    case DType::kF64: return non_zero<uint64_t, 0x7fffffffffffffff>;
    case DType::kF16:
    case DType::kBF16: return non_zero<uint16_t, 0x7fff>;
    case DType::kI64:
    case DType::kU64: return non_zero<uint64_t, ~uint64_t{0}>;
    case DType::kI32:
    case DType::kU32: return non_zero<uint32_t, ~uint32_t{0}>;
    case DType::kI16:
    case DType::kU16: return non_zero<uint16_t, 0xffff>;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool: return non_zero<uint8_t, 0xff>;
    default: return nullptr;
  }
}

// ---- Compress
Status compress(const SelectionCall& c) {
  const ir::Node& node = c.node;
  std::vector<int64_t> dims = dims_at(node, 0);
  if (!node.has("axis")) dims = {count_of(dims)};
  PERI_ASSIGN(const int64_t axis, ops::normalize_axis(node.i("axis", 0), dims.size()));
  const auto a = static_cast<size_t>(axis);
  const int64_t length = dims[a], asked = count_of(dims_at(node, 1));
  const auto* condition = static_cast<const uint8_t*>(c.in[1]);
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < asked; ++k)
    if (condition[k]) kept.push_back(k);
  if (!kept.empty()) PERI_TRY(ops::check_kept(kept.back(), length));
  const int64_t outer = count_of(std::span(dims).first(a)), inner = count_of(std::span(dims).subspan(a + 1));
  const auto bytes = static_cast<size_t>(inner) * static_cast<size_t>(dtype_bits(node.in(0)->type.dtype)) / 8;
  dims[a] = static_cast<int64_t>(kept.size());
  PERI_ASSIGN(void* const to, c.result(0, dims));
  const auto* x = static_cast<const std::byte*>(c.in[0]);
  auto* y = static_cast<std::byte*>(to);
  for (int64_t o = 0; o < outer && bytes > 0; ++o)
    for (const int64_t k : kept) {
      std::memcpy(y, x + static_cast<size_t>(o * length + k) * bytes, bytes);
      y += bytes;
    }
  return Ok{};
}

// ---- Unique of a list
template <class T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a < b;
}

// Bits that are the same for equal elements, and for all NaN.
template <class T>
uint64_t bits_of(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return ~uint64_t{0};
    return std::bit_cast<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(v == 0 ? T(0) : v);
  }
  return static_cast<uint64_t>(v);
}

struct Group {
  int64_t first, count;
};
// Equal elements as groups, by their first ones; `of`: which group each element is in.
template <class T>
std::vector<Group> groups_of(const T* x, std::vector<int64_t>* of) {
  const auto n = static_cast<int64_t>(of->size());
  const uint64_t room = std::bit_ceil(static_cast<uint64_t>(2 * n + 1));
  std::vector<int64_t> at(room, -1);  // which group has a place of the table; the next free one is taken
  std::vector<Group> groups;
  for (int64_t k = 0; k < n; ++k) {
    const uint64_t bits = bits_of(x[k]);
    uint64_t place = (bits * 0x9e3779b97f4a7c15U) >> (64 - std::countr_zero(room));
    while (at[place] >= 0 && bits_of(x[groups[static_cast<size_t>(at[place])].first]) != bits)
      place = (place + 1) & (room - 1);
    if (at[place] < 0) {
      at[place] = static_cast<int64_t>(groups.size());
      groups.push_back({k, 0});
    }
    ++groups[static_cast<size_t>(at[place])].count;
    (*of)[static_cast<size_t>(k)] = at[place];
  }
  return groups;
}

template <class T>
Status unique(const SelectionCall& c) {
  const ir::Node& node = c.node;
  const int64_t n = count_of(dims_at(node, 0));
  const T* x = static_cast<const T*>(c.in[0]);
  std::vector<int64_t> of(static_cast<size_t>(n));
  const std::vector<Group> groups = groups_of(x, &of);
  std::vector<int64_t> shown(groups.size()), place(groups.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (node.i("sorted", 1) != 0)
    std::sort(shown.begin(), shown.end(), [&](int64_t a, int64_t b) {
      return before(x[groups[static_cast<size_t>(a)].first], x[groups[static_cast<size_t>(b)].first]);
    });
  for (size_t k = 0; k < shown.size(); ++k) place[static_cast<size_t>(shown[k])] = static_cast<int64_t>(k);
  const std::array size = {static_cast<int64_t>(groups.size())};
  std::array<void*, 4> to = {};
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const std::array whole = {n};
    PERI_ASSIGN(to[k], c.result(k, k == 2 ? whole : size));
  }
  for (size_t k = 0; k < shown.size(); ++k) {
    const Group& g = groups[static_cast<size_t>(shown[k])];
    if (to[0]) static_cast<T*>(to[0])[k] = x[g.first];
    if (to[1]) static_cast<int64_t*>(to[1])[k] = g.first;
    if (to[3]) static_cast<int64_t*>(to[3])[k] = g.count;
  }
  for (size_t k = 0; to[2] && k < of.size(); ++k) static_cast<int64_t*>(to[2])[k] = place[static_cast<size_t>(of[k])];
  return Ok{};
}

// ---- Range
template <class T>
Status range(const SelectionCall& c) {
  const T start = *static_cast<const T*>(c.in[0]), limit = *static_cast<const T*>(c.in[1]),
          delta = *static_cast<const T*>(c.in[2]);
  double length = 0;
  if constexpr (std::is_floating_point_v<T>) {
    length = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
  } else if (delta != 0) {  // exact where a double is not
    const __int128 span = delta > 0 ? static_cast<__int128>(limit) - start : static_cast<__int128>(start) - limit;
    const __int128 by = delta > 0 ? static_cast<__int128>(delta) : -static_cast<__int128>(delta);
    const __int128 steps = span <= 0 ? 0 : (span + by - 1) / by;
    length = static_cast<double>(steps);
  }
  PERI_TRY(ops::check_range_length(static_cast<double>(delta), length));
  const auto n = static_cast<int64_t>(std::max(length, 0.0));
  PERI_ASSIGN(void* const to, c.result(0, std::array{n}));
  T* y = static_cast<T*>(to);
  for (int64_t k = 0; k < n; ++k)
    if constexpr (std::is_floating_point_v<T>)
      y[k] = static_cast<T>(static_cast<double>(start) + static_cast<double>(k) * static_cast<double>(delta));
    else
      y[k] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(k) * static_cast<uint64_t>(delta));
  return Ok{};
}

Selection range_of(const ir::Node& node) {
  switch (node.in(0)->type.dtype) {
    case DType::kF32: return range<float>;
    case DType::kI32: return range<int32_t>;
    case DType::kI64: return range<int64_t>;
    default: return nullptr;
  }
}

// ---- Shape, Size and dims_constant: what sizes of the run tell, without a look at an element
Status told_by_sizes(const SelectionCall& c) {
  const ir::Value& y = *c.node.out();
  PERI_ASSIGN(const std::vector<int64_t> values, eval(*y.content, {}));
  PERI_ASSIGN(void* const to, c.result(0, ops::concrete(y)));
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(to));
  return Ok{};
}
// What is computed from sizes may be less than 0, as a difference is.
Status stated_sizes(const SelectionCall& c) {
  const ir::Value& y = *c.node.out();
  std::vector<int64_t> values;
  for (const Dim& d : *y.content) {
    PERI_ASSIGN(values.emplace_back(), d.eval({}));
  }
  PERI_ASSIGN(void* const to, c.result(0, ops::concrete(y)));
  const auto bytes = static_cast<size_t>(dtype_bits(y.type.dtype) / 8);
  for (size_t k = 0; k < values.size(); ++k) {
    if (ops::wrap(y.type.dtype, values[k]) != values[k])
      return invalid("a size does not fit its type")
          .expecting(std::string(dtype_name(y.type.dtype)))
          .but_found(std::to_string(values[k]));
    std::memcpy(static_cast<std::byte*>(to) + k * bytes, &values[k], bytes);  // the low bytes stand first
  }
  return Ok{};
}
Selection told_of(const ir::Node& node) { return node.in(0)->type.dtype == DType::kString ? nullptr : told_by_sizes; }

Selection unique_of(const ir::Node& node) {
  if (node.has("axis")) return nullptr;
  switch (node.in(0)->type.dtype) {
    case DType::kF32: return unique<float>;
    case DType::kF64: return unique<double>;
    case DType::kI32: return unique<int32_t>;
    case DType::kI64: return unique<int64_t>;
    default: return nullptr;
  }
}
Selection compress_of(const ir::Node& node) {
  const DType t = node.in(0)->type.dtype;
  return t != DType::kString && dtype_bits(t) % 8 == 0 ? compress : nullptr;
}

// The operators that are implemented here, and what runs a node of each: null where nothing does.
struct Own {
  std::string_view op;
  Selection (*selection)(const ir::Node& node);
};
constexpr Own kOwn[] = {
    {"compress", compress_of}, {"non_max_suppression", [](const ir::Node&) -> Selection { return suppress; }},
    {"non_zero", non_zero_of}, {"range", range_of},
    {"shape", told_of},        {"size", told_of},
    {"unique", unique_of},     {"dims_constant", [](const ir::Node&) -> Selection { return stated_sizes; }},
};
}  // namespace

Selection selection_of(const ir::Graph& region) {
  if (region.nodes.size() != 1) return nullptr;
  const ir::Node& node = *region.nodes[0];
  for (const ir::Value* v : region.outputs)
    if (v->producer != &node) return nullptr;
  const auto own = std::find_if(std::begin(kOwn), std::end(kOwn), [&](const Own& o) { return o.op == node.op; });
  return own == std::end(kOwn) ? nullptr : own->selection(node);
}

SelectionCall call_of(const ir::Graph& region, const runtime::RunContext& context) {
  const ir::Node& node = *region.nodes[0];
  SelectionCall call{node, {}, {}, context};
  for (const ir::Value* v : node.inputs) {
    const auto it = std::find(region.inputs.begin(), region.inputs.end(), v);
    call.in.push_back(!v                          ? nullptr
                      : it == region.inputs.end() ? static_cast<const void*>(v->constant->data())
                                                  : context.reads[static_cast<size_t>(it - region.inputs.begin())]);
  }
  for (const ir::Value* v : node.outputs) {
    const auto it = std::find(region.outputs.begin(), region.outputs.end(), v);
    call.out.push_back(it == region.outputs.end() ? -1 : static_cast<int>(it - region.outputs.begin()));
  }
  return call;
}

}  // namespace peri::exec
