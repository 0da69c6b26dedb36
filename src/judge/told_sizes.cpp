// Follows the integer to the size that it tells, and that size to one of an input.
#include "judge/told_sizes.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "exec/region/region_payload.hpp"
#include "ops/entry.hpp"

namespace peri::judge {
namespace {
constexpr int64_t kMaxElements = 64;  // of an input that is followed by its values

std::optional<int64_t> elements_of(const ir::Value& v) {
  int64_t n = 1;
  for (const Dim& d : *v.type.shape) {
    if (!d.is_const()) return std::nullopt;
    n *= d.value();
  }
  return n;
}

// Whether it is left out, or all its elements are constants of this value.
bool is_all(const ir::Value* v, int64_t value) {
  if (!v) return true;
  if (!v->constant || !is_integer(v->constant->dtype())) return false;
  for (int64_t k = 0; k < v->constant->numel(); ++k)
    if (v->constant->i64(k) != value) return false;
  return true;
}

// Where a list that holds `v` as one of its elements does so; none: it does not, or that is not known.
std::optional<size_t> place_in(const ir::Node& concat, const ir::Value* v) {
  size_t at = 0;
  for (const ir::Value* in : concat.inputs) {
    if (in == v) return at;
    const auto n = elements_of(*in);
    if (!n) return std::nullopt;
    at += static_cast<size_t>(*n);
  }
  return std::nullopt;
}

const Dim* at_axis(const ir::Value& v, int64_t axis) {
  const Shape& shape = *v.type.shape;
  if (axis < 0) axis += std::ssize(shape);
  return axis >= 0 && axis < std::ssize(shape) ? &shape[static_cast<size_t>(axis)] : nullptr;
}

class Sizes {
 public:
  Sizes(const ir::Graph& graph, const DimBinding& bound) : graph_(graph), bound_(bound) {}

  // Names of dimensions that are as large as `v` says.
  void follow(const ir::Value* v) {
    for (const ir::Node* n : v->users) {
      if (n->op == "max") grow(*n, v);     // By name: a cache is larger
      if (n->op == "equal") equal(*n, v);  // By name: no cache is larger
      if (!n->out() || !n->out()->type.shape) continue;
      const ops::OpDef* const op = ops::find(n->op);
      if (n->op == "concat") {  // By name: a list of sizes
        if (const auto place = place_in(*n, v)) follow_list(n->out(), *place);
      } else if (op && op->moves && n->in(0) == v && elements_of(*n->out()) == 1) {
        follow(n->out());
      } else if (n->op == "slice") {  // By name: where it ends
        const bool ends = n->in(2) == v && is_all(n->in(1), 0) && is_all(n->in(4), 1);
        const ir::Value* const axes = n->in(3);
        if (ends && (!axes || (axes->constant && axes->constant->numel() == 1)))
          add(at_axis(*n->out(), axes ? axes->constant->i64(0) : 0));
      } else if (n->op == "range") {  // By name: the same
        if (n->in(1) == v && is_all(n->in(0), 0) && is_all(n->in(2), 1)) add(at_axis(*n->out(), 0));
      } else {
        follow_list(v, 0);
      }
    }
  }

  // The same of the largest element of `v`.
  void follow_largest(const ir::Value* v) {
    for (const ir::Node* n : v->users) {
      if (!n->out() || !n->out()->type.shape || n->in(0) != v) continue;
      const ops::OpDef* const op = ops::find(n->op);
      if (n->op == "reduce_max" && elements_of(*n->out()) == 1) follow(n->out());  // By name: the largest
      if ((op && op->moves) || n->op == "cast") follow_largest(n->out());          // By name: as another integer
    }
  }

  // What the names must be, by values that they stand beside.
  std::optional<int64_t> value() {
    for (size_t before = 0; before != names_.size() && !value_;) {
      before = names_.size();
      for (const ir::Node* n : graph_.nodes) {
        if (std::any_of(n->inputs.begin(), n->inputs.end(), [](auto* v) { return v && !v->type.shape; })) continue;
        if (ops::is(*n, &ops::OpDef::elementwise)) broadcast(*n, 1);
        if (n->op == "matmul") product(*n);  // By name: its sum
      }
    }
    return value_ ? value_ : room_ ? room_ : equal_;
  }

  // What the names are for that value.
  void bind(int64_t value, DimBinding* sizes) const {
    for (const std::string& name : names_) sizes->emplace(name, value);
    if (room_ == value) sizes->insert(grown_.begin(), grown_.end());
  }

 private:
  // The size that a value of one element is.
  static const Dim* size_in(const ir::Value* v) {
    return v && v->producer && v->content && v->content->size() == 1 ? &(*v->content)[0] : nullptr;
  }

  // Where a cache of `had` places gets those that `v` counts more, there is room for the new ones behind them.
  void grow(const ir::Node& larger, const ir::Value* v) {
    const Dim* const had = larger.inputs.size() == 2 ? size_in(larger.in(larger.in(0) == v ? 1 : 0)) : nullptr;
    for (const ir::Node* n : larger.out()->users) {
      const Dim* const less =
          n->op == "sub" && n->in(0) == larger.out() ? size_in(n->in(1)) : nullptr;  // By name: how much
      if (!had || !less || !(*less == *had)) continue;
      Sizes more(graph_, bound_);
      more.follow(n->out());
      for (const std::string& name : more.names_) find_room(*had, name);
    }
  }
  void find_room(const Dim& had, const std::string& more) {
    for (const ir::Node* n : graph_.nodes) {
      if (n->op != "tensor_scatter" || !n->in(0)->type.shape || !n->in(1)->type.shape) continue;  // By name: a cache
      const Dim *cache = at_axis(*n->in(0), n->i("axis", -2)), *now = at_axis(*n->in(1), n->i("axis", -2));
      if (!cache || !now || !(*cache == had + Dim::symbol(more))) continue;
      const auto before = had.eval(bound_), size = now->eval(bound_);
      if (!before.ok() || !size.ok()) continue;
      grown_.emplace(more, *size);
      if (!room_) room_ = *before + *size;
    }
  }
  void equal(const ir::Node& n, const ir::Value* v) {
    const Dim* const other = size_in(n.in(n.in(0) == v ? 1 : 0));
    const auto size = other ? other->eval(bound_) : Result<int64_t>(int64_t{0});
    if (other && size.ok() && !equal_) equal_ = *size;
  }

  // `list` says a shape, in which this place is its.
  void follow_list(const ir::Value* list, size_t place) {
    for (const ir::Node* n : list->users) {
      const bool shapes = (n->in(1) == list && (n->op == "expand" || n->op == "reshape")) ||  // By name: a shape
                          (n->in(0) == list && n->op == "constant_of_shape");
      if (shapes) add(at_axis(*n->out(), static_cast<int64_t>(place)));
    }
  }

  void add(const Dim* d) {
    if (d && d->is_symbol() && !bound_.contains(d->symbol_name())) names_.insert(d->symbol_name());
  }

  void equal(const Dim& a, const Dim& b) {
    for (const auto& [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      if (!one->is_symbol() || !names_.contains(one->symbol_name())) continue;
      add(other);
      if (const auto size = other->eval(bound_); size.ok() && *size != 1 && !value_) value_ = *size;  // 1 is broadcast
    }
  }

  void broadcast(const ir::Node& n, size_t first) {
    for (const ir::Value* a : n.inputs)
      for (const ir::Value* b : n.inputs)
        for (size_t k = first; a && b && a != b && k <= std::min(a->type.rank(), b->type.rank()); ++k)
          equal((*a->type.shape)[a->type.rank() - k], (*b->type.shape)[b->type.rank() - k]);
  }

  void product(const ir::Node& n) {
    const Shape &a = *n.in(0)->type.shape, &b = *n.in(1)->type.shape;
    if (!a.empty() && !b.empty()) equal(a.back(), b[b.size() - std::min<size_t>(2, b.size())]);
    broadcast(n, 3);
  }

  const ir::Graph& graph_;
  const DimBinding& bound_;
  std::set<std::string, std::less<>> names_;
  DimBinding grown_;  // by how much
  std::optional<int64_t> value_, room_, equal_;
};
}  // namespace

Told told_sizes(const ir::Graph& graph, const DimBinding& sizes) {
  Told out;
  out.sizes = sizes;
  for (const ir::Value* input : graph.inputs) {
    if (!is_integer(input->type.dtype) || !input->type.shape) continue;
    const bool one = elements_of(*input) == 1;
    Sizes told(graph, sizes);
    if (one) told.follow(input);
    told.follow_largest(input);
    const auto value = told.value();
    if (!value) continue;
    (one ? out.values : out.largest).emplace(input->name, *value);
    told.bind(*value, &out.sizes);
  }
  return out;
}

void fill_lengths(int64_t largest, uint64_t seed, Tensor* lengths) {
  Rng rng(seed);
  for (int64_t k = 0; k < lengths->numel(); ++k)
    lengths->set_i64(k, k == 0 ? largest : 1 + rng.below(std::max<int64_t>(1, largest)));
}

namespace {
// The number of places that `v` counts, from 0 on; none: it does not.
std::optional<int64_t> count_of(const ir::Value* v, const DimBinding& sizes) {
  for (const ir::Node* n = v->producer; n; n = v->producer) {
    const ops::OpDef* const op = ops::find(n->op);
    if (n->op == "range") {  // By name: it counts
      if (!is_all(n->in(0), 0) || !is_all(n->in(2), 1)) return std::nullopt;
      const auto count = (*v->type.shape)[0].eval(sizes);
      return count.ok() ? std::optional(*count) : std::nullopt;
    }
    if (!op || !op->moves) return std::nullopt;
    v = n->in(0);
  }
  return std::nullopt;
}

bool compares(const ir::Node& n) {
  for (const char* relation : {"less", "less_or_equal", "greater", "greater_or_equal"})
    if (n.op == relation) return true;  // By name: the relations of order
  return false;
}

// Each node that reads integers computed from the elements of `input`, element by element, and what it reads.
void for_each_reader(const ir::Value* input, const std::function<void(const ir::Node&, const ir::Value*)>& visit) {
  std::set<const ir::Value*> seen = {input};
  for (std::vector<const ir::Value*> work = {input}; !work.empty();) {
    const ir::Value* const v = work.back();
    work.pop_back();
    for (const ir::Node* n : v->users) {
      visit(*n, v);
      const ops::OpDef* const op = ops::find(n->op);
      if (!op || !(op->elementwise || op->moves)) continue;
      for (const ir::Value* out : n->outputs)
        if (is_integer(out->type.dtype) && seen.insert(out).second) work.push_back(out);
    }
  }
}
}  // namespace

bool tells_places(const ir::Value* input) {
  bool out = false;
  if (is_integer(input->type.dtype))
    for_each_reader(input, [&](const ir::Node& n, const ir::Value* v) {
      out = out || (n.op == "tensor_scatter" && n.in(2) == v);  // By name: it writes to a cache
    });
  return out;
}

std::optional<int64_t> counted_places(const ir::Value* input, const Told& told) {
  std::optional<int64_t> least;
  if (input->type.dtype == DType::kI32 || input->type.dtype == DType::kI64)
    for_each_reader(input, [&](const ir::Node& n, const ir::Value* v) {
      const auto count = compares(n) ? count_of(n.in(n.in(0) == v ? 1 : 0), told.sizes) : std::nullopt;
      if (count) least = std::min(least.value_or(*count), *count);
    });
  return least && *least > 0 ? least : std::nullopt;
}

bool places_fit(const ir::Graph& graph, const ir::Value* input, const Told& told, int64_t value) {
  if (!tells_places(input)) return true;
  auto bound = exec::bind_region(graph, told.sizes, true);
  if (!bound.ok()) return false;
  for (ir::Value* v : bound->inputs) {
    const auto said = told.values.find(v->name);
    if (v->name != input->name && said == told.values.end()) continue;
    if (const auto count = elements_of(*v); count && *count <= kMaxElements)
      v->content = std::vector<Dim>(static_cast<size_t>(*count), Dim(v->name == input->name ? value : said->second));
  }
  if (!ops::infer_graph(*bound).ok()) return false;
  return std::all_of(bound->nodes.begin(), bound->nodes.end(), [](const ir::Node* n) {
    if (n->op != "tensor_scatter" || !n->in(2)) return true;  // By name: it writes to a cache
    const Dim *cache = at_axis(*n->in(0), n->i("axis", -2)), *now = at_axis(*n->in(1), n->i("axis", -2));
    const auto& places = n->in(2)->content;
    return cache && now && places && std::all_of(places->begin(), places->end(), [&](const Dim& place) {
             return provably_at_least(place, 0) && provably_at_least(*cache - *now - place, 0);
           });
  });
}

bool has_places(std::string_view text) {
  if (text.find("= reduce_max(") != text.npos) return true;
  if (text.find("= range(") != text.npos)
    for (const std::string_view relation : {"= less", "= greater"})
      if (text.find(relation) != text.npos) return true;
  return text.find("= tensor_scatter(") != text.npos;
}

}  // namespace peri::judge
