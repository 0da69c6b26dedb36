// Sizes by every name that a user may give them; two names of one dimension must have the same size.
#include <algorithm>
#include <cctype>
#include <set>

#include "base/shell_word.hpp"
#include "base/spelling.hpp"
#include "compile/compile.hpp"
#include "compile/fit_dims.hpp"
#include "exec/region/region_payload.hpp"

namespace peri::compile {

namespace {
// An axis that is given though it follows from dimensions.
struct Follows {
  std::string key;
  Dim dim;
  int64_t value = 0;
};

struct Sizes {
  const ir::Graph& graph;
  DimBinding binding = {};
  std::set<std::string> batch_like = {}, sequence_like = {};  // what "batch" and "sequence" mean, where it is one
  std::string known = "";                                     // for messages
  std::map<std::string, std::string> by = {};                 // dimension -> the name by which it was given
  std::vector<Follows> follows = {};                          // in their order, for settle()

  void begin();
  void shrink();
  Status set(const std::string& dimension, const std::string& key, int64_t value);
  Status take_axis(const std::string& key, const Dim& dim, int64_t value);
  Status take_name(const std::string& key, int64_t value);
  Status take(const std::string& key, int64_t value);
  Result<bool> settled(const Follows& axis);
  Status settle();
  Status check_zeros(bool built) const;
};

// A name of the model, not one made of an input's name and an axis, that says what the dimension is.
bool called_batch(const std::string& name, const ir::Value& input, size_t axis) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("batch") != std::string::npos && !name.starts_with(input.name + "_dim_" + std::to_string(axis));
}

// Batches are what the model calls so, on any axis (recurrent nets have it second); where it calls none so, the leading
// axes.
void Sizes::begin() {
  std::set<std::string> called, leading, behind;  // behind: of an input that begins with another
  for (const ir::Value* v : graph.inputs)
    for (size_t axis = 0; axis < v->type.rank(); ++axis) {
      const Dim& d = (*v->type.shape)[axis];
      if (!d.is_symbol()) continue;
      if (called_batch(d.symbol_name(), *v, axis)) called.insert(d.symbol_name());
      if (axis == 0) leading.insert(d.symbol_name());
      if (axis > 0 && !((*v->type.shape)[0] == d)) behind.insert(d.symbol_name());
    }
  std::vector<std::string> names;  // in their order, each with its axes
  std::map<std::string, std::string> axes;
  batch_like = called.empty() ? leading : called;
  for (const ir::Value* v : graph.inputs)
    for (size_t axis = 0; axis < v->type.rank(); ++axis) {
      const Dim& d = (*v->type.shape)[axis];
      if (!d.is_symbol()) continue;
      const std::string name = d.symbol_name();
      if (axis == 1 && v->type.rank() == 2 && is_integer(v->type.dtype) && !called.contains(name))
        sequence_like.insert(name);
      const bool leads = called.empty() && leading.contains(name) && !behind.contains(name);
      binding.emplace(name, called.contains(name) || leads ? 1 : 128);
      std::string& list = axes[name];
      if (list.empty()) names.push_back(name);
      list += (list.empty() ? "" : ", ") + v->name + "." + std::to_string(axis);
    }
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name + " (" + axes[name] + ")";
}

// A guess is judged at three sizes in float64, about 0.4 us an element of one input (x86-64, two processors, one
// `relu`): up to here that takes less than two seconds, while 2^26 of four unknown axes took half a minute. Rests on:
// tests/build/guessed_sizes_test.cpp (AGuessIsCheapToTry).
constexpr double kMaxGuessedElements = 1 << 22;

// A size nobody stated is tried as 128, and as less where an input of that size is too large to try.
void Sizes::shrink() {
  for (const ir::Value* v : graph.inputs) {
    auto elements = [&] {
      double n = 1;
      for (const Dim& d : *v->type.shape)
        if (auto size = d.eval(binding); size.ok()) n *= static_cast<double>(*size);
      return n;
    };
    while (elements() > kMaxGuessedElements) {
      bool smaller = false;
      for (const Dim& d : *v->type.shape)
        if (d.is_symbol() && binding[d.symbol_name()] > 1) {
          binding[d.symbol_name()] /= 2;
          smaller = true;
        }
      if (!smaller) break;
    }
  }
}

Status Sizes::set(const std::string& dimension, const std::string& key, int64_t value) {
  const auto [at, fresh] = by.emplace(dimension, key);
  if (!fresh && binding[dimension] != value)
    return usage("'%s' and '%s' are the same dimension and are given different sizes", at->second.c_str(), key.c_str())
        .expecting(at->second + "=" + std::to_string(binding[dimension]))
        .but_found(key + "=" + std::to_string(value));
  binding[dimension] = value;
  return Ok{};
}

Status Sizes::take_axis(const std::string& key, const Dim& dim, int64_t value) {
  if (dim.is_symbol()) return set(dim.symbol_name(), key, value);
  if (!dim.is_const()) follows.push_back({key, dim, value});
  if (!dim.is_const() || dim.value() == value) return Ok{};
  return usage("axis '%s' is fixed", key.c_str()).expecting(dim.text()).but_found(std::to_string(value));
}

// The size of `unknown` at which `dim`, in which it is the only name, is `value`, where two of its sizes tell.
std::optional<int64_t> solved(const Dim& dim, const std::string& unknown, int64_t value) {
  const auto at = [&](int64_t size) { return dim.eval({{unknown, size}}); };
  const auto one = at(1), two = at(2);
  if (!one.ok() || !two.ok() || *one == *two || (value - *one) % (*two - *one) != 0) return std::nullopt;
  const int64_t size = 1 + (value - *one) / (*two - *one);
  if (size < (provably_at_least(dim, *one) ? 1 : 0)) return std::nullopt;
  const auto again = at(size);
  return again.ok() && *again == value ? std::optional(size) : std::nullopt;
}

// An axis that follows must have the size that its dimensions give it; where one of them is not given, that size gives
// it. False: more than one is not given yet.
Result<bool> Sizes::settled(const Follows& axis) {
  std::set<std::string> names;
  axis.dim.collect_symbols(names);
  DimBinding given;
  std::vector<std::string> open;
  std::string at;
  for (const std::string& name : names) {
    if (!by.contains(name)) {
      open.push_back(name);
      continue;
    }
    given[name] = binding[name];
    at += (at.empty() ? " at " : ", ") + name + "=" + std::to_string(binding[name]);
  }
  if (open.size() > 1) return false;
  if (open.empty()) {
    PERI_ASSIGN(const int64_t size, axis.dim.eval(given));
    if (size == axis.value) return true;
    return usage("axis '%s' follows from other dimensions", axis.key.c_str())
        .expecting(axis.dim.text() + " = " + std::to_string(size) + at)
        .but_found(std::to_string(axis.value));
  }
  const auto size = solved(axis.dim.substitute(given), open[0], axis.value);
  if (!size)
    return usage("axis '%s' follows from other dimensions, and is given a size that no '%s' leads to", axis.key.c_str(),
                 open[0].c_str())
        .expecting(axis.dim.text() + at)
        .but_found(std::to_string(axis.value))
        .advise("give '" + open[0] + "' instead");
  PERI_TRY(set(open[0], axis.key, *size));
  return true;
}

// One that is settled may leave another with one unknown.
Status Sizes::settle() {
  for (size_t before = 0; before != follows.size();) {
    before = follows.size();
    std::vector<Follows> left;
    for (const Follows& axis : follows) {
      PERI_ASSIGN(const bool done, settled(axis));
      if (!done) left.push_back(axis);
    }
    follows = std::move(left);
  }
  if (follows.empty()) return Ok{};
  return usage("axis '%s' follows from dimensions that are not given", follows[0].key.c_str())
      .expecting(follows[0].dim.text())
      .but_found(std::to_string(follows[0].value))
      .advise("give all but one of them too");
}

Status Sizes::take_name(const std::string& key, int64_t value) {
  if (binding.contains(key)) return set(key, key, value);
  const std::set<std::string>* alias = key == "batch" ? &batch_like : key == "sequence" ? &sequence_like : nullptr;
  if (alias && alias->size() == 1) return set(*alias->begin(), key, value);
  if (const size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0 && dot + 1 < key.size() &&
                                         key.find_first_not_of("0123456789", dot + 1) == std::string::npos) {
    const std::string input = key.substr(0, dot);
    std::vector<std::string_view> names;
    for (const ir::Value* v : graph.inputs) names.push_back(v->name);
    if (std::find(names.begin(), names.end(), input) == names.end() && !names.empty()) {
      const std::string near = nearest(input, names);
      std::string all;
      for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
      return usage("the model has no input '%s'", input.c_str())
          .advise(near.empty() ? "its inputs are " + all : "did you mean '" + near + "'?");
    }
  }
  return usage("the model has no dimension '%s'", key.c_str())
      .advise(known.empty() ? "all its dimensions are fixed" : "its dimensions are " + known);
}

// Only a dimension that the model was imported with as one that may be 0 is 0; of a folder none is.
Status Sizes::check_zeros(bool built) const {
  for (const ir::Value* v : graph.inputs)
    for (const Dim& d : *v->type.shape) {
      if (!d.is_symbol() || !provably_at_least(d, 1)) continue;
      const auto given = by.find(d.symbol_name());
      if (given != by.end() && binding.find(d.symbol_name())->second == 0)
        return usage("dimension '%s' is 0", given->second.c_str())
            .expecting("at least 1")
            .advise(built ? "build it for values without elements: --dims " + shell_word(given->second + "=0") : "");
    }
  return Ok{};
}

// By a dimension's name or as INPUT.AXIS.
Status Sizes::take(const std::string& key, int64_t value) {
  for (const ir::Value* v : graph.inputs) {
    if (!key.starts_with(v->name + ".")) continue;
    const std::string axis = key.substr(v->name.size() + 1);
    for (size_t k = 0; k <= v->type.rank(); ++k) {
      if (axis != std::to_string(k)) continue;
      if (value == kShapeEnds && k == v->type.rank()) return Ok{};
      if (value != kShapeEnds && k < v->type.rank()) return take_axis(key, (*v->type.shape)[k], value);
    }
    if (value != kShapeEnds) continue;
    return usage("the shape given to input '%s' has the wrong number of axes", v->name.c_str())
        .expecting(format("%zu: %s", v->type.rank(), ir::type_text(v->type).c_str()))
        .but_found(axis);
  }
  if (value == kShapeEnds) return Ok{};  // of no input: its axes have said so
  return take_name(key, value);
}
}  // namespace

namespace {
Result<Sizes> resolved(const ir::Graph& graph, const std::map<std::string, int64_t>& given, const DimBinding& otherwise,
                       bool built = false) {
  Sizes sizes{graph};
  sizes.begin();
  sizes.shrink();
  for (const auto& [name, value] : otherwise)
    if (sizes.binding.contains(name)) sizes.binding[name] = value;
  // Ends first: a shape of the wrong rank is told as that.
  for (const bool ends : {true, false})
    for (const auto& [key, value] : given) {
      if ((value == kShapeEnds) != ends) continue;
      if (value < 0 && value != kShapeEnds)
        return usage("dimension '%s' is %lld", key.c_str(), static_cast<long long>(value)).expecting("at least 0");
      PERI_TRY(sizes.take(key, value));
    }
  PERI_TRY(sizes.settle());
  PERI_TRY(sizes.check_zeros(built));
  return sizes;
}

}  // namespace

// Of the inputs that a run will have: by name, else by place.
DimBinding sizes_of(const ir::Graph& graph, const std::vector<InputShape>& at_hand) {
  DimBinding out;
  const auto named = [&](const std::string& name) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Value* v) { return v->name == name; });
  };
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const ir::Value& v = *graph.inputs[k];
    auto it = std::find_if(at_hand.begin(), at_hand.end(), [&](const InputShape& s) { return s.name == v.name; });
    if (it == at_hand.end() && k < at_hand.size() && !named(at_hand[k].name))
      it = at_hand.begin() + static_cast<std::ptrdiff_t>(k);
    if (it == at_hand.end() || it->dims.size() != v.type.rank()) continue;
    for (size_t axis = 0; axis < it->dims.size(); ++axis)
      if (const Dim& d = (*v.type.shape)[axis]; d.is_symbol() && it->dims[axis] >= 1)
        out.emplace(d.symbol_name(), it->dims[axis]);
  }
  return out;
}

std::optional<std::string> dimension_of(const ir::Graph& graph, const std::string& key) {
  Sizes sizes{graph};
  sizes.begin();
  if (!sizes.take(key, 0).ok() || sizes.by.empty()) return std::nullopt;
  return sizes.by.begin()->first;
}

Result<DimBinding> resolve_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                const DimBinding& otherwise) {
  PERI_ASSIGN(Sizes sizes, resolved(graph, given, otherwise));
  return std::move(sizes.binding);
}

Result<DimBinding> engine_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                               const DimBinding& otherwise) {
  PERI_ASSIGN(Sizes sizes, resolved(graph, given, otherwise, true));
  return std::move(sizes.binding);
}

Result<DimBinding> stated_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given) {
  PERI_ASSIGN(const Sizes sizes, resolved(graph, given, {}));
  DimBinding out;
  for (const auto& [name, key] : sizes.by) out.emplace(name, sizes.binding.at(name));
  return out;
}

Status check_possible(const ir::Graph& graph, const DimBinding& sizes) {
  const auto bound = exec::bind_region(graph, sizes, true);
  if (bound.ok() || bound.error().kind != ErrorKind::kInvalid) return Ok{};
  std::string text;
  for (const auto& [name, value] : sizes) text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return usage("the model does not run at %s: %s", text.c_str(), bound.error().message.c_str())
      .at_node(bound.error().node)
      .expecting(bound.error().expected.empty() ? "sizes within its limits" : bound.error().expected)
      .but_found(bound.error().found)
      .advise(kOtherSizes);
}

DimBinding fitted_dims(const ir::Graph& graph, const DimBinding& sizes, const std::set<std::string>& fixed) {
  ir::Graph apart = graph.clone();  // nodes that one of the model was replaced by have its name
  for (size_t k = 0; k < apart.nodes.size(); ++k) apart.nodes[k]->name = "node " + std::to_string(k);
  return fit_dims(apart, sizes, fixed, [&](const DimBinding& at) { return check_possible(apart, at); });
}

Result<DimBinding> possible_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                 const std::vector<InputShape>& at_hand) {
  PERI_ASSIGN(Sizes first, resolved(graph, given, sizes_of(graph, at_hand)));
  const Status possible = check_possible(graph, first.binding);
  if (possible.ok()) return std::move(first.binding);
  std::set<std::string> fixed;
  for (const auto& [name, key] : first.by) fixed.insert(name);
  DimBinding less = fitted_dims(graph, first.binding, fixed);
  while (!check_possible(graph, less).ok()) {
    if (std::all_of(less.begin(), less.end(),
                    [&](const auto& size) { return size.second == 1 || fixed.contains(size.first); }))
      return possible.error();
    for (auto& [name, value] : less)
      if (!fixed.contains(name)) value = std::max<int64_t>(1, value / 2);
  }
  return less;
}

}  // namespace peri::compile
