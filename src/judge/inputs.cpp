// Inputs by what reads them.
#include "judge/inputs.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/rng.hpp"

namespace peri::judge {
namespace {

// Ops through which an index stays an index.
bool passes_on(const ir::Node& n) {
  static const std::set<std::string_view> kSame = {"cast",   "identity",  "reshape", "squeeze", "unsqueeze", "flatten",
                                                   "expand", "transpose", "slice",   "gather",  "concat",    "tile",
                                                   "split",  "where",     "clip",    "min",     "max"};
  return kSame.contains(n.op);
}

// Rows of what `index` points into as an argument of `n`; none: it is no index there.
std::optional<int64_t> rows_of(const ir::Node& n, const ir::Value* index, const DimBinding& sizes) {
  if (n.in(1) != index || !n.in(0) || !n.in(0)->type.known() || n.in(0)->type.rank() == 0) return std::nullopt;
  const Shape& data = *n.in(0)->type.shape;
  if (n.op == "gather" || n.op == "gather_elements") {
    int64_t axis = n.i("axis");
    if (axis < 0) axis += static_cast<int64_t>(data.size());
    if (axis < 0 || axis >= static_cast<int64_t>(data.size())) return std::nullopt;
    const auto rows = data[static_cast<size_t>(axis)].eval(sizes);
    return rows.ok() ? std::optional(*rows) : std::nullopt;
  }
  if (n.op != "gather_nd" && n.op != "scatter_nd" && n.op != "scatter_elements") return std::nullopt;
  int64_t least = INT64_MAX;
  for (const Dim& d : data)
    if (const auto rows = d.eval(sizes); rows.ok()) least = std::min(least, *rows);
  return least;
}

// The rows of the smallest table an input indexes, directly or through ops that only move it; none: it indexes nothing.
std::optional<int64_t> indexed_rows(const ir::Value* input, const DimBinding& sizes) {
  std::optional<int64_t> least;
  std::unordered_set<const ir::Value*> seen = {input};
  std::vector<const ir::Value*> work = {input};
  while (!work.empty()) {
    const ir::Value* v = work.back();
    work.pop_back();
    for (const ir::Node* n : v->users) {
      if (const auto rows = rows_of(*n, v, sizes)) {
        least = std::min(least.value_or(*rows), *rows);
        continue;
      }
      if (!passes_on(*n)) continue;
      for (const ir::Value* out : n->outputs)
        if (!is_float(out->type.dtype) && seen.insert(out).second) work.push_back(out);
    }
  }
  return least;
}

int64_t integer(Rng& rng, Integers how, std::optional<int64_t> rows) {
  if (how == Integers::kZero) return 0;
  if (how == Integers::kOne) return 1;
  if (rows) return rng.below(std::max<int64_t>(1, *rows));
  return rng.below(8) != 0;
}
}  // namespace

Result<std::vector<Tensor>> make_inputs(const ir::Graph& graph, const DimBinding& sizes, uint64_t seed, Integers how) {
  std::vector<Tensor> out;
  for (const ir::Value* v : graph.inputs) {
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, sizes));
    PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
    Rng rng(seed++);
    if (v->type.dtype == DType::kF32) {
      float* data = t.mutable_as<float>();
      for (int64_t k = 0; k < t.numel(); ++k) data[k] = static_cast<float>(rng.normal());
    } else if (is_float(v->type.dtype)) {
      for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.normal());
    } else if (v->type.dtype != DType::kString) {
      const std::optional<int64_t> rows = v->type.dtype == DType::kBool ? std::nullopt : indexed_rows(v, sizes);
      for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, integer(rng, how, rows));
    }
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace peri::judge
