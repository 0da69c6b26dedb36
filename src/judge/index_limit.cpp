// The indices alone are computed, by the reference.
#include "judge/index_limit.hpp"

#include <algorithm>
#include <set>

#include "compile/compile.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/engine.hpp"
#include "judge/inputs.hpp"
#include "judge/seeded.hpp"
#include "judge/told_sizes.hpp"
#include "ops/entry.hpp"

namespace peri::judge {
namespace {
constexpr double kMaxElements = 1 << 22;  // of the inputs, and of what is computed from them
constexpr size_t kMaxNodes = 200;         // that compute indices
constexpr size_t kMaxIndices = 16;        // values that are looked at
constexpr uint64_t kSeed = 1;             // any: floats decide no index here

// Whether an index that no row has is always an error, and a negative one counts from the end: a loss may leave such a
// class out, and a ring of a cache wraps its place.
bool needs_rows(const ir::Node& n) {
  constexpr std::string_view kOps[] = {"gather", "gather_elements", "scatter_elements"};
  return std::find(std::begin(kOps), std::end(kOps), n.op) != std::end(kOps);  // By name: three of those with indices
}

struct Indexed {
  const ir::Node* node;
  size_t port;
};

// Whether it computes integers of integers: what a float is rounded to may be anything.
bool computes_places(const ir::Node& n) {
  return ops::control_of(n) == ops::Control::kNone && !ops::is_anchor(n) &&
         std::all_of(n.outputs.begin(), n.outputs.end(), [](const ir::Value* v) { return !is_float(v->type.dtype); });
}

// What a few nodes compute the value from, all by integers; none: more, other nodes, or one is an input itself.
std::optional<Places> computed_from(const ir::Value* v) {
  std::set<const ir::Node*> seen;
  std::vector<const ir::Node*> work;
  bool of_input = false;
  const auto add = [&](const ir::Value* arg) {
    if (!arg || arg->constant) return;
    of_input = of_input || arg->is_input;
    if (arg->producer && seen.insert(arg->producer).second) work.push_back(arg->producer);
  };
  add(v);
  while (!work.empty()) {
    const ir::Node* const n = work.back();
    work.pop_back();
    if (!computes_places(*n) || seen.size() > kMaxNodes) return std::nullopt;
    for (const ir::Value* arg : n->inputs) add(arg);
  }
  if (v->is_input || seen.empty()) return std::nullopt;
  return of_input ? Places::kOfInputs : Places::kOfSizes;
}

std::vector<Indexed> indexed(const ir::Graph& graph, Places of) {
  std::vector<Indexed> out;
  std::set<const ir::Value*> seen;
  for (const ir::Node* n : graph.nodes)
    for (size_t port = needs_rows(*n) ? 0 : n->inputs.size(); port < n->inputs.size() && out.size() < kMaxIndices;
         ++port) {
      const ir::Value* const v = n->inputs[port];
      if (!v || v->constant || is_float(v->type.dtype) || ops::index_ends_of(*n, port).size() != 1) continue;
      if (computed_from(v) == of && seen.insert(v).second) out.push_back({n, port});
    }
  return out;
}

double elements(const std::vector<ir::Value*>& values, const DimBinding& sizes) {
  double out = 0;
  for (const ir::Value* v : values) {
    const auto dims =
        v->type.shape ? eval(*v->type.shape, sizes) : Result<std::vector<int64_t>>(std::vector<int64_t>());
    double count = 1;
    for (const int64_t d : dims.ok() ? *dims : std::vector<int64_t>()) count *= static_cast<double>(d);
    out += count;
  }
  return out;
}

// The graph with these indices as its outputs.
ir::Graph only(const ir::Graph& graph, const std::vector<Indexed>& places) {
  ir::Graph out = graph.clone();
  out.outputs.clear();
  out.output_names.clear();
  for (const Indexed& at : places) {
    const ir::Value* const v = at.node->inputs[at.port];
    out.mark_output(out.find(v->name), v->name);
  }
  out.erase_dead();
  std::erase_if(out.inputs, [](const ir::Value* v) { return v->users.empty(); });
  return out;
}

struct Found {
  size_t place = 0;  // of `places`
  int64_t index = 0, rows = 0;
};

// What inputs are given that are no floats, tell no size and are not random.
struct Fill {
  int64_t other;  // masks, and what else is no index; a single number is 0
  bool last;      // an index is the last of its table, which is no id of padding
};
// With one of them all counts, as in a text without padding.
constexpr Fill kFills[] = {{1, false}, {1, true}, {0, true}};

// Of the inputs of `indices`.
Result<std::vector<ops::RefTensor>> filled(const ir::Graph& graph, const ir::Graph& indices, const DimBinding& sizes,
                                           const Fill& fill) {
  if (indices.inputs.empty()) return std::vector<ops::RefTensor>();
  PERI_ASSIGN(std::vector<Tensor> inputs, make_inputs(graph, sizes, kSeed));
  const Told told = told_sizes(graph, sizes);
  std::vector<ops::RefTensor> out;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const ir::Value& v = *graph.inputs[k];
    const auto& read = indices.inputs;
    if (std::none_of(read.begin(), read.end(), [&](const ir::Value* i) { return i->name == v.name; })) continue;
    if (counts(v.type.dtype) && !told.values.contains(v.name) && !told.largest.contains(v.name)) {
      const std::optional<int64_t> rows = indexed_rows(&v, sizes);
      const int64_t value = rows ? *rows - 1 : v.type.rank() > 0 ? fill.other : 0;
      for (int64_t e = 0; e < inputs[k].numel() && (fill.last || !rows); ++e) inputs[k].set_i64(e, value);
    }
    out.push_back(ops::to_ref(inputs[k]));
  }
  return out;
}

// The first index out of range at these sizes; none: all are in range. Errors: they cannot be computed.
Result<std::optional<Found>> out_of_range(const ir::Graph& graph, const ir::Graph& indices,
                                          const std::vector<Indexed>& places, const DimBinding& sizes) {
  double work = indices.inputs.empty() ? 0 : elements(graph.inputs, sizes);
  for (const ir::Node* n : indices.nodes) work += elements(n->outputs, sizes);
  if (work > kMaxElements) return Error(ErrorKind::kMemory, "too many elements");
  PERI_ASSIGN(const ir::Graph here, exec::bind_region(indices, sizes, true));  // no input may say the sizes
  for (const Fill& fill : kFills) {
    PERI_ASSIGN(const std::vector<ops::RefTensor> inputs, filled(graph, indices, sizes, fill));
    PERI_ASSIGN(const std::vector<ops::RefTensor> values, ops::run_reference(here, inputs));
    for (size_t k = 0; k < places.size(); ++k) {
      PERI_ASSIGN(const int64_t rows, ops::index_ends_of(*places[k].node, places[k].port)[0].eval(sizes));
      for (const int64_t index : values[k].i)
        if (index >= rows || index < -rows) return std::optional<Found>({k, index, rows});
    }
  }
  return std::optional<Found>();
}
}  // namespace

std::string IndexLimit::text() const {
  std::string out =
      format("'%s' is given index %lld of a table of %lld rows%s", node.c_str(), static_cast<long long>(index),
             static_cast<long long>(rows), places == Places::kOfInputs ? " with made-up inputs" : "");
  if (!symbol.empty())
    out += format(": %s=%lld is the largest that fits", symbol.c_str(), static_cast<long long>(most));
  return out;
}

std::optional<IndexLimit> index_limit(const ir::Graph& graph, const DimBinding& sizes, Places of) {
  const std::vector<Indexed> places = indexed(graph, of);
  if (places.empty()) return {};
  const ir::Graph indices = only(graph, places);
  const auto found = out_of_range(graph, indices, places, sizes);
  if (!found.ok() || !*found) return {};
  const ir::Node& node = *places[(*found)->place].node;
  IndexLimit out{
      .places = of, .node = node.name.empty() ? node.op : node.name, .rows = (*found)->rows, .index = (*found)->index};
  for (const auto& [name, size] : sizes) {
    const auto fits = [&](int64_t n) {
      DimBinding other = sizes;
      other[name] = n;
      const auto beyond = out_of_range(graph, indices, places, other);
      return beyond.ok() && !*beyond;
    };
    if (size < 2 || !fits(1)) continue;
    int64_t low = 1, high = size;  // fits, does not
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    out.symbol = name;
    out.most = low;
    return out;
  }
  return out;
}

Status check_places(const ir::Graph& graph, const DimBinding& sizes, std::span<const DimBinding> bounds) {
  const auto check = [&](const DimBinding& at, std::string_view remedy) -> Status {
    const auto limit = index_limit(graph, at, Places::kOfSizes);
    if (!limit) return Ok{};
    return usage("the model does not run at %s: %s", sizes_text(at).c_str(), limit->text().c_str())
        .advise(at.empty() ? "" : std::string(remedy));
  };
  PERI_TRY(check(sizes, compile::kOtherSizes));
  for (const DimBinding& bound : bounds)
    PERI_TRY(check(bound, "give sizes that it can have: --min-shapes and --max-shapes"));
  return Ok{};
}

}  // namespace peri::judge
