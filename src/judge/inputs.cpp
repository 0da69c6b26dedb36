// Inputs by the ops that read them.
#include "judge/inputs.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/rng.hpp"
#include "ops/entry.hpp"
#include "tune/arguments.hpp"
#include "tune/categories.hpp"

namespace peri::judge {
namespace {

// Ops through which an index stays an index.
bool passes_on(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && op->moves;
}

// The least size that `index` stays below as an argument of `n`; none: it is no index there.
std::optional<int64_t> rows_of(const ir::Node& n, const ir::Value* index, const DimBinding& sizes) {
  std::optional<int64_t> least;
  for (size_t port = 0; port < n.inputs.size(); ++port) {
    if (n.inputs[port] != index) continue;
    for (const Dim& end : ops::index_ends_of(n, port))
      if (const auto rows = end.eval(sizes); rows.ok()) least = std::min(least.value_or(*rows), *rows);
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

bool reads_numbers(const ir::Node& n) {
  if (n.op != "cast") return false;  // By name: the only op that reads them so
  return n.inputs[0]->type.dtype == DType::kString && n.out()->type.dtype != DType::kString;
}

bool are_numbers(std::span<const ir::Value* const> held) {
  return std::any_of(held.begin(), held.end(), [](const ir::Value* v) {
    return std::any_of(v->users.begin(), v->users.end(), [](const ir::Node* n) { return reads_numbers(*n); });
  });
}

std::optional<int64_t> indexed_rows(const ir::Value* input, const DimBinding& sizes,
                                    std::vector<const ir::Value*>* moved) {
  std::optional<int64_t> least;
  std::unordered_set<const ir::Value*> seen = {input};
  std::vector<const ir::Value*> work = {input};
  while (!work.empty()) {
    const ir::Value* v = work.back();
    work.pop_back();
    if (moved) moved->push_back(v);
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

std::string random_text(Rng& rng) {
  static constexpr std::string_view kWords[] = {"a",  "Cat",    "the", "NAPS",      "z\xc3\xbcrich", "\xce\xa9mega",
                                                "42", "-7.5",   "I",   "mat.",      "re-run",        "x_y",
                                                "No", "Sleeps", "of",  "e\xcc\x81", "\xe7\x8c\xab",  "b2"};
  std::string out;
  for (int64_t count = rng.below(8) == 0 ? 0 : 1 + rng.below(3); count > 0; --count) {
    if (!out.empty()) out += ' ';
    out += kWords[rng.below(std::ssize(kWords))];
  }
  return out;
}

Result<std::vector<Tensor>> make_inputs(const ir::Graph& graph, const DimBinding& sizes, uint64_t seed, Integers how) {
  std::vector<Tensor> out;
  const uint64_t first = seed;
  for (const ir::Value* v : graph.inputs) {
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, sizes));
    PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
    Rng rng(seed++);
    if (tune::fill_regions(*v, sizes, rng.below(INT64_MAX), &t)) {
      out.push_back(std::move(t));
      continue;
    }
    if (v->type.dtype == DType::kF32) {
      float* data = t.mutable_as<float>();
      for (int64_t k = 0; k < t.numel(); ++k) data[k] = static_cast<float>(rng.normal());
    } else if (is_float(v->type.dtype)) {
      for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, rng.normal());
    } else if (v->type.dtype == DType::kString) {
      std::vector<const ir::Value*> held;
      indexed_rows(v, sizes, &held);
      const bool numbers = are_numbers(held);
      for (std::string& s : t.mutable_strings()) s = numbers ? std::to_string(rng.below(100)) : random_text(rng);
    } else {
      const std::optional<int64_t> rows = v->type.dtype == DType::kBool ? std::nullopt : indexed_rows(v, sizes);
      for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, integer(rng, how, rows));
    }
    out.push_back(std::move(t));
  }
  tune::choose_categories(graph, first, &out);
  return out;
}

}  // namespace peri::judge
