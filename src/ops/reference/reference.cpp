// Evaluation of a graph in the reference: floats in double with error radii, all else exact.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <unordered_map>

#include "base/fault.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "base/stop.hpp"
#include "ops/entry.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/size_chain.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/followed.hpp"

namespace peri::ops {

int64_t RefTensor::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

RefTensor make_ref(DType dtype, std::vector<int64_t> dims) {
  RefTensor t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  const size_t n = static_cast<size_t>(t.numel());
  if (dtype == DType::kString) {
    t.s.resize(n);
  } else if (is_float(dtype)) {
    t.f.resize(n);
  } else {
    t.i.resize(n);
  }
  return t;
}

namespace {
template <typename T>
void take_integers(const Tensor& t, RefTensor* r) {
  const std::span<const T> from = t.as<T>();
  r->i.assign(from.begin(), from.end());
}
}  // namespace

RefTensor to_ref(const Tensor& t) {
  if (t.dtype() == DType::kF32) {
    RefTensor r;
    r.dtype = t.dtype();
    r.dims = t.dims();
    const std::span<const float> from = t.as<float>();
    r.f.assign(from.begin(), from.end());
    return r;
  }
  RefTensor r = make_ref(t.dtype(), t.dims());
  if (t.dtype() == DType::kF16 || t.dtype() == DType::kBF16) {
    const uint16_t* from = t.as<uint16_t>().data();
    const auto wide = t.dtype() == DType::kF16 ? f16_to_f32 : bf16_to_f32;
    for (double& to : r.f) to = wide(*from++);
    return r;
  }
  const bool floating = r.floating();
  switch (t.dtype()) {
    case DType::kI8: take_integers<int8_t>(t, &r); return r;
    case DType::kU8: take_integers<uint8_t>(t, &r); return r;
    case DType::kI32: take_integers<int32_t>(t, &r); return r;
    default: break;
  }
  for (int64_t k = 0; k < t.numel(); ++k) {
    const size_t at = static_cast<size_t>(k);
    if (t.dtype() == DType::kString) {
      r.s[at] = t.string_values()[at];
    } else if (floating) {
      r.f[at] = t.f64(k);
    } else {
      r.i[at] = t.i64(k);
    }
  }
  return r;
}

Tensor from_ref(const RefTensor& r) {
  auto t = Tensor::zeros(r.dtype, r.dims);
  PERI_CHECK(t.ok(), "a reference tensor has a valid size");
  if (r.dtype == DType::kF32) {
    float* to = t->mutable_as<float>();
    for (const double v : r.f) *to++ = static_cast<float>(v);
    return std::move(t).value();
  }
  if (r.dtype == DType::kI64) {
    std::copy(r.i.begin(), r.i.end(), t->mutable_as<int64_t>());
    return std::move(t).value();
  }
  for (int64_t k = 0; k < r.numel(); ++k) {
    const size_t at = static_cast<size_t>(k);
    if (r.dtype == DType::kString) {
      t->mutable_strings()[at] = r.s[at];
    } else if (r.floating()) {
      t->set_f64(k, r.f[at]);
    } else {
      t->set_i64(k, r.i[at]);
    }
  }
  return std::move(t).value();
}

double sum_radius(double u, int64_t k, double sum_of_magnitudes) {
  return u == 0 ? 0 : 4.0 * std::sqrt(static_cast<double>(k < 1 ? 1 : k)) * u * sum_of_magnitudes;
}

namespace {
// What is wanted of each value: nothing stored for a value means all of it.
using Wanted = std::unordered_map<const ir::Value*, std::vector<int64_t>>;

// The output of which the node may be asked for some positions: its only one, or the only one that is used at all, of
// an op that takes positions of any. -1: it has to make everything.
int asked_in_part(const ir::Graph& graph, const ir::Node& n, const Wanted& wanted) {
  const OpDef* const op = find(n.op);
  if (n.outputs.size() > 1 && !(op && op->line_axes)) return -1;
  int only = -1;
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    const ir::Value* const v = n.outputs[k];
    if (n.outputs.size() > 1 && v->users.empty() && v != graph.outputs[0]) continue;
    if (only >= 0) return -1;
    only = static_cast<int>(k);
  }
  return only >= 0 && wanted.contains(n.outputs[static_cast<size_t>(only)]) ? only : -1;
}

// Whether all shapes of the node are numbers, as positions in them require.
bool has_sizes(const ir::Node& n) {
  const auto sized = [](const ir::Value* v) { return !v || (v->type.shape && is_const(*v->type.shape)); };
  return std::all_of(n.inputs.begin(), n.inputs.end(), sized) && std::all_of(n.outputs.begin(), n.outputs.end(), sized);
}

// Pulls positions of the only output back through the graph, last node first.
Wanted pull_positions(const ir::Graph& graph, const std::vector<int64_t>& positions) {
  Wanted wanted;
  std::unordered_map<const ir::Value*, bool> whole;
  wanted[graph.outputs[0]] = positions;
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    const ir::Node& n = *graph.nodes[k];
    const OpDef* op = find(n.op);
    const int asked = asked_in_part(graph, n, wanted);
    const ir::Value* const from = asked < 0 ? nullptr : n.outputs[static_cast<size_t>(asked)];
    const bool some = from && !whole[from];
    for (size_t port = 0; port < n.inputs.size(); ++port) {
      const ir::Value* v = n.inputs[port];
      if (!v || !v->producer || whole[v]) continue;  // what is given is there as a whole
      std::vector<int64_t> needed;
      if (!some || !op || !op->pull || !has_sizes(n) || !op->pull(n, port, wanted.at(from), &needed)) {
        whole[v] = true;
        wanted.erase(v);
        continue;
      }
      std::vector<int64_t>& have = wanted[v];
      std::vector<int64_t> both;
      std::set_union(have.begin(), have.end(), needed.begin(), needed.end(), std::back_inserter(both));
      have = std::move(both);
    }
  }
  for (const ir::Value* v : graph.outputs)
    if (whole[v]) wanted.erase(v);
  return wanted;
}

// What stands for each value: the caller's inputs where they lie, the rest made here.
class Environment {
 public:
  void borrow(const ir::Value* v, const RefTensor* t) { at_[v] = {t, nullptr}; }
  void put(const ir::Value* v, RefTensor t) {
    auto own = std::make_unique<RefTensor>(std::move(t));
    const RefTensor* there = own.get();
    at_[v] = {there, std::move(own)};
  }
  bool contains(const ir::Value* v) const { return at_.contains(v); }
  const RefTensor& at(const ir::Value* v) const { return *at_.at(v).first; }
  void erase(const ir::Value* v) { at_.erase(v); }
  RefTensor take(const ir::Value* v, bool last) {
    auto& [there, own] = at_.at(v);
    if (own && last) return std::move(*own);
    return *there;
  }

 private:
  std::unordered_map<const ir::Value*, std::pair<const RefTensor*, std::unique_ptr<RefTensor>>> at_;
};

// Shapes of a node for the concrete inputs at hand: a one-node graph with constant contents, inferred anew.
Status concrete_types(const ir::Node& node, const Environment& env, const DimBinding& binding, ir::Graph* scratch,
                      ir::Node** out) {
  std::vector<ir::Value*> ins;
  for (const ir::Value* v : node.inputs) {
    if (!v) {
      ins.push_back(nullptr);
      continue;
    }
    const auto same = std::find(node.inputs.begin(), node.inputs.end(), v) - node.inputs.begin();
    if (static_cast<size_t>(same) < ins.size()) {
      ins.push_back(ins[static_cast<size_t>(same)]);
      continue;
    }
    const RefTensor& t = env.at(v);
    ir::Value* in = scratch->add_input(v->name, ir::Type(t.dtype, Shape(t.dims.begin(), t.dims.end())));
    if (!t.floating() && t.dtype != DType::kString && t.dims.size() <= 1 && std::ssize(t.i) <= most_followed(node))
      in->content = std::vector<Dim>(t.i.begin(), t.i.end());
    ins.push_back(in);
  }
  ir::Node* n = scratch->add(node.op, ins, node.attrs, "", 0);
  for (const ir::Value* v : node.outputs) scratch->add_output_value(n, v->name);
  n->name = node.name;
  for (auto& [key, attr] : n->attrs)
    if (auto* dims = std::get_if<std::vector<Dim>>(&attr)) *dims = substitute(*dims, binding);
  int64_t fresh = 0;
  PERI_TRY(infer_node(*n, &fresh));
  *out = n;
  return Ok{};
}

// Named dimensions of a value's shape take the sizes at hand.
void bind_dims(const ir::Value& v, const RefTensor& t, DimBinding* binding) {
  if (!v.type.shape || v.type.shape->size() != t.dims.size()) return;
  for (size_t k = 0; k < t.dims.size(); ++k)
    if (const Dim& d = (*v.type.shape)[k]; d.is_symbol()) binding->emplace(d.symbol_name(), t.dims[k]);
}

// What arithmetic that errs in no direction at random gives: 0 where the error reaches it, as where equal terms cancel,
// or for another seed a multiple of a power of two of about the error, so that what is close to another is equal to it.
double round_number(uint64_t seed, double v, double radius) {
  if (seed % 8 == 4) return std::fabs(v) <= radius ? 0 : v;
  const double step = std::exp2(std::floor(std::log2(radius)));
  return step > 0 && std::isfinite(v / step) ? std::nearbyint(v / step) * step : v;
}

// Perturbs each float within its radius: at random, or for every fourth seed to a round number. The random numbers
// depend on the values, so that the same computation done twice has the same errors, and what cancels it in exact
// arithmetic only has others.
void shake(uint64_t seed, RefTensor* t) {
  if (!t->floating() || t->radius.empty()) return;
  Rng rng(hash_bytes(t->f.data(), t->f.size() * sizeof(double), seed * 1000003));
  for (size_t k = 0; k < t->f.size(); ++k) {
    const double at = 2 * rng.uniform() - 1, v = t->f[k], r = t->radius[k];
    if (!std::isfinite(r) || !std::isfinite(v) || r <= 0) continue;
    t->f[k] = round_to(t->dtype, seed % 4 == 0 ? round_number(seed, v, r) : v + r * at);
  }
}

// To its own type, and to `narrowest` where that is narrower; what is finite stays so there.
void round_values(DType narrowest, RefTensor* t) {
  if (!t->floating()) return;
  const bool narrower = narrowest != DType::kInvalid && unit_roundoff(narrowest) > unit_roundoff(t->dtype);
  const double most = narrowest == DType::kF16 ? 65504 : 0x1.fep127;
  if (t->dtype == DType::kF32 && !narrower) {
    for (double& v : t->f) v = static_cast<double>(static_cast<float>(v));
    return;
  }
  for (double& v : t->f) {
    v = round_to(t->dtype, v);
    if (narrower) v = std::isfinite(v) ? std::clamp(round_to(narrowest, v), -most, most) : v;
  }
}

// Whether an operand is rounded to its type before the node reads it (OpDef::reads_stored): one element-wise node of
// the graph computes it from what is given.
bool reads_stored(const OpDef& op, const ir::Node& node, size_t port, const RefOptions& options) {
  const ir::Value* const v = node.inputs[port];
  if (op.reads_stored != static_cast<int>(port) || !v || !v->producer || options.u == 0 || options.round_each)
    return false;
  const auto given = [](const ir::Value* in) { return !in || !in->producer; };
  return is_float(v->type.dtype) && unit_roundoff(v->type.dtype) > options.u &&
         ops::is(*v->producer, &OpDef::elementwise) &&
         std::all_of(v->producer->inputs.begin(), v->producer->inputs.end(), given);
}
// What is stored of it: exact where all values within the radius round alike, else with what they differ by.
RefTensor stored_value(const RefTensor& t) {
  RefTensor out = t;
  for (size_t k = 0; k < t.f.size(); ++k) {
    const double v = out.f[k] = round_to(t.dtype, t.f[k]);
    if (t.radius.empty() || t.radius[k] == 0) continue;
    const double low = round_to(t.dtype, t.f[k] - t.radius[k]), high = round_to(t.dtype, t.f[k] + t.radius[k]);
    out.radius[k] = low == high ? 0 : std::max(high - v, v - low);
  }
  return out;
}

Status eval_node(const ir::Graph& graph, const ir::Node& node, Environment& env, DimBinding* binding,
                 const RefOptions& options, const Wanted& wanted, const std::unordered_set<const ir::Value*>& sizes) {
  ir::Graph scratch;
  ir::Node* shaped = nullptr;
  PERI_TRY(concrete_types(node, env, *binding, &scratch, &shaped));
  const OpDef* op = find(node.op);
  if (!op->reference) return unsupported("%s has no reference", node.op.c_str()).at_node(node.name);
  RefCall call{*shaped, {}, {}, {}, options.u, options.threads};
  if (const int asked = asked_in_part(graph, node, wanted); asked >= 0) {
    call.positions_of = static_cast<size_t>(asked);
    call.positions = wanted.at(node.outputs[call.positions_of]);
  }
  const DType made = shaped->out()->type.dtype;
  call.options = &options;
  if (!op->stores.empty() && options.u > 0 && unit_roundoff(made) > options.u) call.stored = made;
  RefTensor stored;
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const ir::Value* const v = node.inputs[port];
    call.in.push_back(v ? &env.at(v) : nullptr);
    if (reads_stored(*op, node, port, options)) call.in.back() = &(stored = stored_value(*call.in.back()));
  }
  bool nothing = true;  // is asked for: an op need not know that one of several long axes may have no elements
  for (const ir::Value* v : shaped->outputs) {
    std::vector<int64_t> dims;
    for (const Dim& d : *v->type.shape) dims.push_back(d.is_const() ? d.value() : 0);  // data-dependent: the op resizes
    nothing = nothing && is_const(*v->type.shape) && std::find(dims.begin(), dims.end(), 0) != dims.end();
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    if (n > options.most_elements) return too_many_elements(n, options.most_elements).at_node(node.name);
    call.out.push_back(make_ref(v->type.dtype, dims));
    call.out.back().most_elements = options.most_elements;
    call.out.back().radius.assign(call.out.back().f.size(), 0.0);
  }
  Status done = nothing ? Status(Ok{}) : named([&] { return node.name; }, [&] { return op->reference(call); });
  if (!done.ok()) return std::move(done).error().at_node(node.name);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    RefTensor& t = call.out[k];
    // Arithmetic of round-off `u` in a type that is coarser leaves values unrounded, as far as no cast rounds them.
    const bool kept = options.u > 0 && unit_roundoff(t.dtype) > options.u;
    if (options.round_each && kept && t.floating())
      for (double& v : t.f) v = static_cast<double>(static_cast<float>(v));
    const bool size = sizes.contains(node.outputs[k]) && t.numel() <= kMaxContent;
    if ((options.round_each && !kept) || size) round_values(options.narrowest, &t);
    if (options.shake != 0) shake(options.shake, &t);
    if (options.u == 0 || options.shake != 0) t.radius.clear();
    bind_dims(*node.outputs[k], t, binding);
    env.put(node.outputs[k], std::move(t));
  }
  return Ok{};
}
}  // namespace

Result<std::vector<RefTensor>> run_reference(const ir::Graph& graph, std::span<const RefTensor> inputs,
                                             const RefOptions& options) {
  if (inputs.size() != graph.inputs.size())
    return internal_error("the reference got %zu inputs for %zu", inputs.size(), graph.inputs.size());
  Wanted wanted;
  if (!options.positions.empty()) {
    PERI_CHECK(graph.outputs.size() == 1, "positions are asked of one output");
    wanted = pull_positions(graph, options.positions);
  }
  Environment env;
  std::unordered_map<const ir::Value*, size_t> uses;
  DimBinding binding;
  const bool narrow = options.round_each && options.narrowest != DType::kInvalid;
  const auto put_constant = [&](const ir::Value* v) {
    RefTensor t = to_ref(*v->constant);
    if (narrow) round_values(options.narrowest, &t);
    env.put(v, std::move(t));
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (narrow) {
      RefTensor rounded = inputs[k];
      round_values(options.narrowest, &rounded);
      env.put(graph.inputs[k], std::move(rounded));
    } else {
      env.borrow(graph.inputs[k], &inputs[k]);
    }
    bind_dims(*graph.inputs[k], inputs[k], &binding);
  }
  const std::unordered_set<const ir::Value*> sizes = size_chain(graph);
  for (const ir::Value* v : graph.outputs) ++uses[v];
  for (const ir::Node* n : graph.nodes)
    for (const ir::Value* v : n->inputs)
      if (v) ++uses[v];
  for (const ir::Node* n : graph.nodes) {
    for (const ir::Value* v : n->inputs)
      if (v && v->constant && !env.contains(v)) put_constant(v);
    PERI_TRY(eval_node(graph, *n, env, &binding, options, wanted, sizes));
    if (stop_asked()) return Error(ErrorKind::kCancelled, "the reference was stopped").at_node(n->name);
    for (const ir::Value* v : n->inputs)
      if (v && --uses[v] == 0) env.erase(v);
  }
  std::vector<RefTensor> out;
  for (const ir::Value* v : graph.outputs) {
    if (v->constant && !env.contains(v)) put_constant(v);
    out.push_back(env.take(v, --uses[v] == 0));
  }
  return out;
}

}  // namespace peri::ops
