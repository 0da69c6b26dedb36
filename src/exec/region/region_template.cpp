// Binding by substitution. Whatever does not come out as inference with symbols has it is left to bind_region(), which
// infers the whole region and says what is wrong.
#include "exec/region/region_template.hpp"

#include <algorithm>
#include <map>

#include "exec/region/region_payload.hpp"
#include "ops/entry.hpp"
#include "ops/shape/any_size.hpp"

namespace peri::exec {

namespace {
bool expression(const Dim& d) { return !d.is_const(); }

// As checked_numel(): kernels multiply sizes without a check, those of an empty tensor too.
bool countable(const Shape& shape) {
  int64_t count = 1;
  return std::all_of(shape.begin(), shape.end(), [&](const Dim& d) {
    return !__builtin_mul_overflow(count, d.value() == 0 ? 1 : d.value(), &count);
  });
}
}  // namespace

std::shared_ptr<RegionTemplate> RegionTemplate::create(ir::Graph region, ModelNames names) {
  std::shared_ptr<RegionTemplate> t(new RegionTemplate(std::move(region), names));
  if (t->infer()) t->compile();
  return t;
}

// Into known_, where every value gets a type, every output the element type that the region states.
bool RegionTemplate::infer() {
  auto g = std::make_unique<ir::Graph>(region_.clone());
  for (const ir::Value* v : g->outputs)
    if (!v->type.known()) return false;
  std::vector<ir::Type> stated;
  for (const ir::Value* v : g->outputs) stated.push_back(v->type);
  if (!ops::infer_graph(*g).ok()) return false;
  for (const auto& v : g->values())
    if (!v->type.known() || (is_const(*v->type.shape) && !countable(*v->type.shape))) return false;
  for (size_t k = 0; k < stated.size(); ++k) {
    const ir::Type& made = g->outputs[k]->type;
    if (made.dtype != stated[k].dtype || made.rank() != stated[k].rank()) return false;
    made_.push_back(sizes_.add(*made.shape));
    stated_.push_back(sizes_.add(*stated[k].shape));
  }
  known_ = std::move(g);
  return true;
}

void RegionTemplate::compile() {
  std::map<const ir::Value*, bool> sized;  // by inference at each size
  for (size_t k = 0; k < known_->nodes.size(); ++k) {
    const ir::Node& n = *known_->nodes[k];
    if (!ops::holds_at_any_size(n)) {
      inferred_.push_back(k);
      for (const ir::Value* v : n.outputs) sized[v] = true;
    }
    for (const auto& [key, attr] : n.attrs)
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
        for (size_t i = 0; i < dims->size(); ++i)
          if (expression((*dims)[i])) attributes_.push_back({k, i, sizes_.add((*dims)[i]), key});
  }
  for (size_t k = 0; k < known_->values().size(); ++k) {
    const ir::Value& v = *known_->values()[k];
    const size_t before = shapes_.size();
    for (size_t i = 0; i < v.type.shape->size(); ++i)
      if (const Dim& d = (*v.type.shape)[i]; expression(d)) shapes_.push_back({k, i, sizes_.add(d)});
    if (shapes_.size() != before) grown_.push_back(k);
    for (size_t i = 0; v.content && !sized[&v] && i < v.content->size(); ++i)
      if (const Dim& d = (*v.content)[i]; expression(d)) contents_.push_back({k, i, sizes_.add(d)});
  }
}

std::unique_ptr<ir::Graph> RegionTemplate::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      auto g = std::move(idle_.back());
      idle_.pop_back();
      return g;
    }
    idle_.reserve(++lent_);  // so that give_back() cannot fail
  }
  return std::make_unique<ir::Graph>(known_->clone());
}

void RegionTemplate::give_back(std::unique_ptr<ir::Graph> graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(graph));
}

// False: a size is not bound, overflows or is negative.
bool RegionTemplate::put_sizes(ir::Graph* g, std::span<const int64_t> values) const {
  const auto size_of = [&](const Place& p) {
    const auto v = sizes_.eval(p.size, values);
    return v.ok() ? std::optional(*v) : std::nullopt;
  };
  for (const Place& p : shapes_) {
    const auto v = size_of(p);
    if (!v || *v < 0) return false;
    Shape& shape = *g->values()[p.index]->type.shape;
    if (p.element >= shape.size()) return false;
    shape[p.element] = *v;
  }
  for (const Place& p : contents_) {
    const auto v = size_of(p);
    if (!v) return false;
    (*g->values()[p.index]->content)[p.element] = *v;
  }
  for (const Place& p : attributes_) {
    const auto v = size_of(p);
    if (!v) return false;
    std::get<std::vector<Dim>>(g->nodes[p.index]->attrs.find(p.attribute)->second)[p.element] = *v;
  }
  return std::all_of(grown_.begin(), grown_.end(), [&](size_t k) { return countable(*g->values()[k]->type.shape); });
}

// False: a node is refused, or its types are not those that the symbols gave.
bool RegionTemplate::infer_rest(ir::Graph* g, std::span<const int64_t> values) const {
  int64_t fresh = 0;
  for (const size_t k : inferred_) {
    ir::Node& n = *g->nodes[k];
    std::vector<ir::Type> expected;
    for (const ir::Value* v : n.outputs) expected.push_back(v->type);
    if (!ops::infer_node(n, &fresh).ok()) return false;
    for (size_t j = 0; j < expected.size(); ++j)
      if (!(n.outputs[j]->type == expected[j])) return false;
  }
  for (size_t k = 0; k < made_.size(); ++k)
    for (size_t axis = 0; axis < made_[k].size(); ++axis) {
      if (made_[k][axis] == stated_[k][axis]) continue;
      const auto made = sizes_.eval(made_[k][axis], values), stated = sizes_.eval(stated_[k][axis], values);
      if (!made.ok() || !stated.ok() || *made != *stated) return false;
    }
  return true;
}

Result<BoundRegion> RegionTemplate::bind(const DimBinding& binding, bool partial) {
  if (known_) {
    const std::vector<int64_t> values = sizes_.values_of(binding);
    auto g = take();
    if (put_sizes(g.get(), values) && infer_rest(g.get(), values)) return BoundRegion(std::move(g), shared_from_this());
    const std::lock_guard<std::mutex> lock(mutex_);
    --lent_;  // this copy has types that are not those of the symbols: it goes
  }
  auto g = bind_region(region_, binding, partial);
  if (!g.ok()) return named(std::move(g).error());
  return BoundRegion(std::make_unique<ir::Graph>(std::move(g).value()), nullptr);
}

BoundRegion::~BoundRegion() {
  if (graph_ && owner_) owner_->give_back(std::move(graph_));
}

}  // namespace peri::exec
