// Inputs by the ops that read them.
#include "judge/inputs.hpp"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "base/rng.hpp"
#include "ir/bodies.hpp"
#include "judge/told_sizes.hpp"
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

// A body that is being followed, and where its node stands; null: the graph itself.
struct Inside {
  const ir::Node* node;
  const ir::Graph* body;
  std::shared_ptr<const Inside> around;
};

// What holds an integer, in a graph and its bodies.
struct Held {
  std::unordered_set<const ir::Value*> seen = {};
  std::vector<std::pair<const ir::Value*, std::shared_ptr<const Inside>>> work = {};

  void add(const ir::Value* v, const std::shared_ptr<const Inside>& where) {
    if (!is_float(v->type.dtype) && seen.insert(v).second) work.emplace_back(v, where);
  }
  // As an argument of `n` it may be an input of its bodies.
  void enter(const ir::Node& n, const ir::Value* v, const std::shared_ptr<const Inside>& where) {
    const size_t first = ops::control_of(n) == ops::Control::kBranch ? 1 : 0;
    for (const auto& [key, body] : ir::bodies_of(n))
      for (size_t k = first; k < n.inputs.size(); ++k)
        if (n.inputs[k] == v && k - first < body->inputs.size())
          add(body->inputs[k - first], std::make_shared<Inside>(Inside{&n, body.get(), where}));
  }
  // As a result of a body it is one of the node, and where it is carried what the next iteration takes.
  void leave(const ir::Value* v, const std::shared_ptr<const Inside>& where) {
    if (!where) return;
    const bool loop = ops::control_of(*where->node) == ops::Control::kLoop;
    const auto carried = static_cast<size_t>(loop ? where->node->i("carried") : 0);
    for (size_t k = loop ? 1 : 0; k < where->body->outputs.size(); ++k) {
      const size_t result = k - (loop ? 1 : 0);
      if (where->body->outputs[k] != v || result >= where->node->outputs.size()) continue;
      if (result < carried) add(where->body->inputs[2 + result], where);
      add(where->node->outputs[result], where->around);
    }
  }
};

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
  Held held;
  held.add(input, nullptr);
  while (!held.work.empty()) {
    const auto [v, where] = held.work.back();
    held.work.pop_back();
    if (moved) moved->push_back(v);
    held.leave(v, where);
    for (const ir::Node* n : v->users) {
      if (const auto rows = rows_of(*n, v, sizes)) {
        least = std::min(least.value_or(*rows), *rows);
        continue;
      }
      held.enter(*n, v, where);
      if (!passes_on(*n)) continue;
      for (const ir::Value* out : n->outputs) held.add(out, where);
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

namespace {
// Whether elements of an input of floats are made integers, as the image that a box lies in: they may be indices.
bool makes_integers(const ir::Value* input) {
  std::vector<const ir::Value*> held = {input};
  std::unordered_set<const ir::Value*> seen = {input};
  while (!held.empty()) {
    const ir::Value* const v = held.back();
    held.pop_back();
    for (const ir::Node* n : v->users) {
      if (ops::is(*n, &ops::OpDef::converts) && is_integer(n->out()->type.dtype)) return true;
      for (const ir::Value* out : passes_on(*n) ? n->outputs : std::vector<ir::Value*>())
        if (seen.insert(out).second) held.push_back(out);
    }
  }
  return false;
}
}  // namespace

Result<std::vector<Tensor>> make_inputs(const ir::Graph& graph, const DimBinding& sizes, uint64_t seed, Integers how) {
  std::vector<Tensor> out;
  const Told all = how == Integers::kIndices ? told_sizes(graph, sizes) : Told();
  for (const ir::Value* v : graph.inputs) {
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, sizes));
    PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
    Rng rng(seed_of_part(seed, out.size()));
    if (tune::fill_regions(*v, sizes, rng.below(INT64_MAX), &t)) {
      out.push_back(std::move(t));
      continue;
    }
    if (how != Integers::kIndices && is_float(v->type.dtype) && makes_integers(v)) {
      for (int64_t k = 0; k < t.numel(); ++k) t.set_f64(k, how == Integers::kOne);
    } else if (v->type.dtype == DType::kF32) {
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
      if (const auto told = all.values.find(v->name); told != all.values.end()) {
        t.set_i64(0, told->second);
        out.push_back(std::move(t));
        continue;
      }
      if (const auto told = all.largest.find(v->name); told != all.largest.end()) {
        fill_lengths(told->second, rng.below(INT64_MAX), &t);
        out.push_back(std::move(t));
        continue;
      }
      const std::optional<int64_t> rows = v->type.dtype == DType::kBool ? std::nullopt : indexed_rows(v, sizes);
      for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, integer(rng, how, rows));
    }
    out.push_back(std::move(t));
  }
  tune::choose_categories(graph, seed, &out);
  return out;
}

}  // namespace peri::judge
