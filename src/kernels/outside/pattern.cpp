// A region matches if both graphs, traversed from the outputs to the inputs, have the same nodes. Where the pattern
// computes in 16 bits, the region may compute in float32 between casts, as set_precision leaves sums and softmax: its
// inputs and outputs are the pattern's, and what the kernel computes between them is held to the region.
#include "kernels/outside/pattern.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "kernels/weights/narrow.hpp"

namespace peri::kernels::outside {

namespace {
// What a missing attribute means, where the op states a number.
std::optional<ir::Attr> attr_of(const ir::Node& n, const std::string& key) {
  if (const auto it = n.attrs.find(key); it != n.attrs.end()) return it->second;
  const ops::OpDef* const op = ops::find(n.op);
  if (!op) return std::nullopt;
  for (const ops::AttrSpec& spec : op->attrs) {
    if (spec.name != key || spec.fallback.empty()) continue;
    const auto is = [&]<class T>(T* out) {
      const char* const stop = spec.fallback.data() + spec.fallback.size();
      const auto [end, code] = std::from_chars(spec.fallback.data(), stop, *out);
      return code == std::errc() && end == stop;
    };
    int64_t i = 0;
    double f = 0;
    if (spec.kind == ops::AttrKind::kInt && is(&i)) return ir::Attr(i);
    if (spec.kind == ops::AttrKind::kFloat && is(&f)) return ir::Attr(f);
    if (spec.kind == ops::AttrKind::kString) return ir::Attr(std::string(spec.fallback));
  }
  return std::nullopt;
}

// An axis from behind is the one from before.
std::optional<ir::Attr> plain_attr(const ir::Node& n, const std::string& key) {
  std::optional<ir::Attr> out = attr_of(n, key);
  if (key != "axis" || !out || !n.in(0) || !n.in(0)->type.shape) return out;
  if (int64_t* const axis = std::get_if<int64_t>(&*out); axis && *axis < 0)
    *axis += static_cast<int64_t>(n.in(0)->type.rank());
  return out;
}

bool same_attrs(const ir::Node& a, const ir::Node& b) {
  std::set<std::string> keys;
  for (const ir::Node* n : {&a, &b})
    for (const auto& [key, value] : n->attrs) keys.insert(key);
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const auto x = plain_attr(a, key), y = plain_attr(b, key);
    return x && y ? ir::same_attr(*x, *y) : !x && !y;
  });
}

// The conversion between a narrow type and float32 that made the value; null: none.
const ir::Node* precision_cast(const ir::Value& v, DType narrow) {
  const ir::Node* const n = v.producer;
  if (!n || n->op != "cast" || !is_narrow_float(narrow)) return nullptr;
  const DType from = n->in(0)->type.dtype, to = v.type.dtype;
  return (from == narrow && to == DType::kF32) || (from == DType::kF32 && to == narrow) ? n : nullptr;
}

struct Matcher {
  const ir::Graph& problem;
  std::map<const ir::Value*, const ir::Value*> seen = {};  // of the pattern's
  std::set<const ir::Node*> nodes = {};
  DimBinding sizes = {};
  std::vector<std::pair<Dim, int64_t>> later = {};  // expressions, when all names are known

  Status type(const ir::Value& p, const ir::Value& a) {
    if (!a.type.known() || p.type.dtype != a.type.dtype || !a.type.layout.row_major() || p.type.rank() != a.type.rank())
      return refused("another type").expecting(ir::type_text(p.type)).but_found(ir::type_text(a.type));
    for (size_t k = 0; k < p.type.rank(); ++k) {
      const Dim& d = (*p.type.shape)[k];
      if (!(*a.type.shape)[k].is_const()) return refused("a size that is not known");
      const int64_t size = (*a.type.shape)[k].value();
      if (!d.is_symbol())
        later.emplace_back(d, size);
      else if (sizes.emplace(d.symbol_name(), size).first->second != size)
        return refused("sizes that differ").at_node(d.symbol_name());
    }
    return Ok{};
  }

  Status value(const ir::Value* p, const ir::Value* a) {
    if (!p || !a) return p == a ? Status(Ok{}) : Status(refused("another number of operands"));
    if (!p->producer || p->producer->op != "cast")
      while (const ir::Node* const cast = precision_cast(*a, p->type.dtype)) {
        nodes.insert(cast);
        a = cast->in(0);
      }
    if (const auto [it, fresh] = seen.emplace(p, a); !fresh)
      return it->second == a ? Status(Ok{}) : Status(refused("other operands"));
    if (p->constant) {
      if (a->constant && a->constant->same_content(*p->constant)) return Ok{};
      return refused("another constant");
    }
    if (!p->producer) return a->is_input ? type(*p, *a) : Status(refused("an operand that is made in the region"));
    return a->producer && p->output_index == a->output_index ? node(*p->producer, *a->producer)
                                                             : Status(refused("not the same nodes"));
  }

  Status node(const ir::Node& p, const ir::Node& a) {
    if (p.op != a.op || !same_attrs(p, a)) return refused("another node").expecting(p.op).but_found(a.op);
    nodes.insert(&a);
    for (size_t k = 0; k < std::max(p.inputs.size(), a.inputs.size()); ++k) PERI_TRY(value(p.in(k), a.in(k)));
    return Ok{};
  }
};
}  // namespace

Result<Match> match(const ir::Graph& pattern, const Problem& problem) {
  const ir::Graph& g = *problem.graph;
  if (g.nodes.size() < pattern.nodes.size() || g.outputs.size() != pattern.outputs.size())
    return refused("not the pattern's number of nodes and outputs");
  Matcher m{g};
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    if (!g.outputs[k]->type.layout.row_major()) return refused("a result that is not row-major");
    if (g.outputs[k]->type.dtype != pattern.outputs[k]->type.dtype)
      return refused("a result of another type")
          .expecting(dtype_name(pattern.outputs[k]->type.dtype))
          .but_found(dtype_name(g.outputs[k]->type.dtype));
    PERI_TRY(m.value(pattern.outputs[k], g.outputs[k]));
  }
  if (m.nodes.size() != g.nodes.size()) return refused("not the same nodes");
  for (const auto& [d, size] : m.later) {
    const auto made = d.eval(m.sizes);
    if (!made.ok() || *made != size) return refused("another size").expecting(d.text()).but_found(std::to_string(size));
  }
  Match out{std::move(m.sizes), {}};
  for (const ir::Value* v : pattern.inputs) {
    const auto it = m.seen.find(v);
    if (it == m.seen.end()) return refused("an input of the pattern that nothing reads");
    const auto at = std::find(g.inputs.begin(), g.inputs.end(), it->second);
    out.inputs.push_back(static_cast<size_t>(at - g.inputs.begin()));
  }
  for (size_t k = 0; k < g.inputs.size(); ++k)
    if (std::find(out.inputs.begin(), out.inputs.end(), k) == out.inputs.end())
      return refused("an input beside the pattern's");
  return out;
}

}  // namespace peri::kernels::outside
