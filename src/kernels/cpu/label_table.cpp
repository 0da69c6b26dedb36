// Kernel label_table: label_encoder between numbers: by a table where the keys are dense, by searching the sorted keys
// where they are not.
#include <algorithm>
#include <numeric>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskElements = 1 << 13, kMaxTable = 1 << 20;

// Keys in order, each with the bits of its value.
struct Labels {
  std::vector<int64_t> keys;
  std::vector<uint64_t> values;
  std::vector<uint64_t> table;  // from keys[0] on; empty: they are searched
  uint64_t otherwise = 0;
  int64_t elements = 1;
  bool wide = true;  // values of eight bytes
};

uint64_t bits_of(int64_t v) { return static_cast<uint64_t>(v); }
uint64_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }

Result<Labels> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "label_encoder") return refused("not a label encoder");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kI64 || !n.has("keys_int64s")) return refused("keys that are not i64");
  for (const char* other : {"keys_tensor", "values_tensor", "default_tensor"})
    if (n.has(other)) return refused("keys or values in a tensor");
  Labels out;
  const std::vector<int64_t> keys = n.ints("keys_int64s");
  std::vector<uint64_t> values;
  if (n.out()->type.dtype == DType::kI64) {
    for (const int64_t v : n.ints("values_int64s")) values.push_back(bits_of(v));
    out.otherwise = bits_of(n.i("default_int64", -1));
  } else if (n.out()->type.dtype == DType::kF32) {
    for (const double v : n.floats("values_floats")) values.push_back(bits_of(static_cast<float>(v)));
    out.otherwise = bits_of(static_cast<float>(n.f("default_float", -0.0)));
    out.wide = false;
  } else {
    return refused("labels of %s", dtype_name(n.out()->type.dtype).data());
  }
  if (keys.empty() || values.size() != keys.size()) return refused("no keys");
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  for (const size_t k : order) {  // of a key that stands twice the first counts
    if (!out.keys.empty() && out.keys.back() == keys[k]) continue;
    out.keys.push_back(keys[k]);
    out.values.push_back(values[k]);
  }
  const uint64_t span = static_cast<uint64_t>(out.keys.back()) - static_cast<uint64_t>(out.keys[0]);
  if (span < static_cast<uint64_t>(std::min<int64_t>(kMaxTable, 1024 + 16 * std::ssize(out.keys)))) {
    out.table.assign(static_cast<size_t>(span) + 1, out.otherwise);
    for (size_t k = 0; k < out.keys.size(); ++k)
      out.table[static_cast<size_t>(out.keys[k] - out.keys[0])] = out.values[k];
  }
  for (const int64_t d : dims_of(*n.in(0))) out.elements *= d;
  if (out.elements == 0) return refused("an empty tensor");
  return out;
}

template <class T>
void run_task(const Labels& l, int64_t task, const int64_t* x, T* y) {
  const int64_t begin = task * kTaskElements, end = std::min(l.elements, begin + kTaskElements);
  if (l.table.empty()) {
    for (int64_t k = begin; k < end; ++k) {
      const auto it = std::lower_bound(l.keys.begin(), l.keys.end(), x[k]);
      const bool found = it != l.keys.end() && *it == x[k];
      y[k] = static_cast<T>(found ? l.values[static_cast<size_t>(it - l.keys.begin())] : l.otherwise);
    }
    return;
  }
  const uint64_t first = static_cast<uint64_t>(l.keys[0]), size = l.table.size();
  for (int64_t k = begin; k < end; ++k) {
    const uint64_t at = static_cast<uint64_t>(x[k]) - first;
    y[k] = static_cast<T>(at < size ? l.table[at] : l.otherwise);
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Labels made, read(p));
  const auto labels = std::make_shared<const Labels>(std::move(made));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return TaskInstance::make((labels->elements + kTaskElements - 1) / kTaskElements, 0,
                            [labels, x](int64_t task, const Args& args) {
                              const auto* from = static_cast<const int64_t*>(x.data(args));
                              if (labels->wide)
                                run_task(*labels, task, from, static_cast<uint64_t*>(args.out[0]));
                              else
                                run_task(*labels, task, from, static_cast<uint32_t*>(args.out[0]));
                            });
}
}  // namespace

extern const Entry label_table_entry;
const Entry label_table_entry{{
    .name = "label_table",
    .version = 1,
    .provider = "peri",
    .takes = "label_encoder from i64 to i64 or f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: i64[20000]; y = label_encoder(x) {keys_int64s=[0, 1, 2, 3, 4, 5, 6, 7], "
                "values_int64s=[7, 6, 5, 4, 3, 2, 1, 0]}; output y }",
                "graph { input x: i64[9,3]; y = label_encoder(x) {keys_int64s=[5], values_int64s=[-1]}; output y }",
                "graph { input x: i64[30,7]; y = label_encoder(x) {keys_int64s=[0, 3, 1, 3], values_int64s=[5, 9, -2, "
                "8], default_int64=77}; output y }",
                "graph { input x: i64[30,7]; y = label_encoder(x) {keys_int64s=[1, -9000000000, 2], values_int64s=[1, "
                "2, 3]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
