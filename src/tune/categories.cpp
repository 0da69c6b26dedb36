// Each element of an input is numbered, the numbers are sent through the graph, and where one arrives at an encoder its
// element becomes a category.
#include "tune/categories.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::tune {
namespace {
constexpr int64_t kMaxNumber = int64_t{1} << 24;  // float32 holds all whole numbers up to it

const ops::OpDef* encoder(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && op->categories && n.in(0) ? op : nullptr;
}

// Ops that cost about a visit of each element.
bool is_followed(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && (op->moves || op->view || op->converts || op->elementwise);
}

// Whether everything that `v` is computed from can be followed.
bool is_followed(const ir::Value* v) {
  std::set<const ir::Value*> seen = {v};
  std::vector<const ir::Value*> work = {v};
  while (!work.empty()) {
    const ir::Node* n = work.back()->producer;
    work.pop_back();
    if (!n) continue;
    if (!is_followed(*n)) return false;
    for (const ir::Value* in : n->inputs)
      if (in && seen.insert(in).second) work.push_back(in);
  }
  return true;
}

// The inputs' elements numbered in their order, from 0.
std::optional<std::vector<ops::RefTensor>> numbered(const std::vector<Tensor>& inputs) {
  int64_t next = 0;
  std::vector<ops::RefTensor> out;
  for (const Tensor& t : inputs) {
    if (t.numel() > kMaxNumber - next) return std::nullopt;
    ops::RefTensor r = ops::make_ref(t.dtype(), t.dims());
    for (size_t k = 0; k < static_cast<size_t>(t.numel()); ++k, ++next) {
      if (r.dtype == DType::kString)
        r.s[k] = std::to_string(next);
      else if (r.floating())
        r.f[k] = static_cast<double>(next);
      else
        r.i[k] = next;
    }
    out.push_back(std::move(r));
  }
  return out;
}

std::optional<int64_t> whole(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

std::optional<int64_t> number_at(const ops::RefTensor& t, size_t at) {
  if (t.dtype == DType::kString) return whole(t.s[at]);
  if (!t.floating()) return t.i[at];
  if (!(std::fabs(t.f[at]) < double{kMaxNumber})) return std::nullopt;
  return static_cast<int64_t>(t.f[at]);
}

// Element `at` becomes category `k`, in its own type.
void set(Tensor* t, int64_t at, const Tensor& categories, int64_t k) {
  const bool named = categories.dtype() == DType::kString;
  if (t->dtype() == DType::kString) {
    t->mutable_strings()[static_cast<size_t>(at)] = named ? categories.string_values()[static_cast<size_t>(k)]
                                                    : is_float(categories.dtype()) ? std::to_string(categories.f64(k))
                                                                                   : std::to_string(categories.i64(k));
  } else if (named) {
    if (const auto v = whole(categories.string_values()[static_cast<size_t>(k)])) t->set_i64(at, *v);
  } else if (is_float(t->dtype())) {
    t->set_f64(at, is_float(categories.dtype()) ? categories.f64(k) : static_cast<double>(categories.i64(k)));
  } else {
    t->set_i64(at, is_float(categories.dtype()) ? std::llround(categories.f64(k)) : categories.i64(k));
  }
}

struct Choice {
  const std::vector<int64_t>& first;  // number of each input's first element
  std::set<int64_t>* taken;           // numbers of elements chosen before
  std::vector<Tensor>* inputs;

  void choose(const ops::OpDef& op, const Tensor& categories, const ops::RefTensor& reached, Rng& rng) const {
    const auto count = static_cast<size_t>(reached.numel());
    for (size_t k = 0; k < count; ++k) {
      const std::optional<int64_t> number = number_at(reached, k);
      if (!number || *number < 0 || *number >= first.back()) continue;
      if (!op.knows_all && rng.below(4) == 0) continue;
      const int64_t category = rng.below(categories.numel());
      if (!taken->insert(*number).second) continue;
      const auto input = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), *number) - first.begin()) - 1;
      set(&(*inputs)[input], *number - first[input], categories, category);
    }
  }
};
}  // namespace

bool names_categories(std::string_view graph_text) {
  const std::vector<const ops::OpDef*> all = ops::all();
  return std::any_of(all.begin(), all.end(), [&](const ops::OpDef* op) {
    return op->categories && graph_text.find(op->name) != std::string_view::npos;
  });
}

void choose_categories(const ir::Graph& graph, uint64_t seed, std::vector<Tensor>* inputs) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node* n) { return encoder(*n); })) return;
  const auto numbers = numbered(*inputs);
  if (!numbers) return;
  ir::Graph part = graph.clone();
  std::vector<ir::Node*> encoders;
  for (ir::Node* n : part.nodes)
    if (encoder(*n) && is_followed(n->in(0))) encoders.push_back(n);
  // An error to one is no more than an unknown category to another.
  std::stable_partition(encoders.begin(), encoders.end(), [](ir::Node* n) { return encoder(*n)->knows_all; });
  part.outputs.clear();
  part.output_names.clear();
  std::vector<std::pair<const ops::OpDef*, Tensor>> known;
  for (ir::Node* n : encoders) {
    auto categories = encoder(*n)->categories(*n);
    if (!categories.ok() || categories->numel() == 0) continue;
    part.mark_output(n->in(0), "reached" + std::to_string(known.size()));
    known.emplace_back(encoder(*n), std::move(*categories));
  }
  part.erase_dead();
  ops::RefOptions options;
  options.most_elements = kMaxNumber;
  const auto reached = ops::run_reference(part, *numbers, options);
  if (!reached.ok()) return;
  std::vector<int64_t> first = {0};
  for (const Tensor& t : *inputs) first.push_back(first.back() + t.numel());
  std::set<int64_t> taken;
  Rng rng(seed);
  for (size_t k = 0; k < known.size(); ++k)
    Choice{first, &taken, inputs}.choose(*known[k].first, known[k].second, (*reached)[k], rng);
}

}  // namespace peri::tune
