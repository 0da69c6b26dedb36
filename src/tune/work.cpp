// Costs of the nodes, summed for a region.
#include "tune/work.hpp"

#include <algorithm>
#include <set>

#include "kernels/entry.hpp"

namespace peri::tune {

namespace {
double bytes_of(const ir::Value& v) {
  double n = dtype_bits(v.type.dtype) / 8.0;
  for (const Dim& d : *v.type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1.0;
  return n;
}

// What a node sums products of, of which no algorithm leaves one out: its first two arguments but scales and zero
// points. A window's maximum, by contrast, takes fewer comparisons than the definition counts.
enum class Products : uint8_t { kNone, kFloats, kBytes };
Products products_of(const ir::Node& node) {
  const ops::OpDef* op = ops::find(node.op);
  if (!op || op->elementwise || !op->cost) return Products::kNone;
  const ir::Value* factors[2] = {};
  size_t count = 0;
  for (size_t k = 0; k < node.inputs.size() && count < 2; ++k) {
    const ops::Role role = ops::role_of(node, k);
    const bool scales = k < op->inputs.size() && (role == ops::Role::kScale || op->inputs[k].same_type_as >= 0);
    if (node.inputs[k] && !(scales && dtype_bits(node.inputs[0]->type.dtype) == 8)) factors[count++] = node.inputs[k];
  }
  if (count < 2) return Products::kNone;
  const DType a = factors[0]->type.dtype, b = factors[1]->type.dtype;
  if (is_float(a) && is_float(b)) return Products::kFloats;
  return is_integer(a) && is_integer(b) && dtype_bits(a) == 8 && dtype_bits(b) == 8 && op->anchor ? Products::kBytes
                                                                                                  : Products::kNone;
}
// Whether the node reads the elements that indices name, which may be few of its argument's, or the same again.
bool picks(const ir::Node& node, const ops::Cost& cost) {
  const ops::OpDef* op = ops::find(node.op);
  const auto by_index = [](const ops::Port& p) { return p.role == ops::Role::kIndex; };
  return op && std::any_of(op->inputs.begin(), op->inputs.end(), by_index) && cost.bytes_read <= cost.bytes_written;
}
}  // namespace

RegionWork work_of(const ir::Graph& region, double offer_flops) {
  RegionWork w;
  std::set<const ir::Value*> inside;  // made by a node, or already counted
  const std::vector<bool> constant(region.inputs.size());
  const ir::Node* anchor = region.nodes.empty() ? nullptr : &kernels::Problem{&region, constant}.anchor();
  for (const ir::Node* n : region.nodes) {
    const ops::Cost cost = ops::cost_of(*n);
    const double own = n == anchor && offer_flops > 0 ? offer_flops : cost.flops;
    w.flops += cost.flops;
    w.algorithm_flops += own;
    const Products products = products_of(*n);
    if (products != Products::kNone) w.least.flops += own;
    if (products == Products::kBytes) w.byte_flops += own;
    // Arguments that are read in whole, and not before; what picks some of their elements may pick the same again.
    double all = 0, fresh = 0;
    for (const ir::Value* v : n->inputs) {
      if (!v) continue;
      all += bytes_of(*v);
      if (inside.insert(v).second) fresh += bytes_of(*v);
    }
    if (cost.bytes_read >= all && !picks(*n, cost)) w.bytes += fresh;
    for (const ir::Value* v : n->outputs) inside.insert(v);
  }
  for (const ir::Value* v : region.outputs) w.bytes += bytes_of(*v);
  for (const ir::Value* v : region.inputs) w.least.narrow = w.least.narrow || dtype_bits(v->type.dtype) < 32;
  w.least.bytes = w.bytes;
  return w;
}

void write_work(JsonWriter& w, const RegionWork& work) {
  w.begin_object()
      .field("flops", work.flops)
      .field("algorithm_flops", work.algorithm_flops)
      .field("least_flops", work.least.flops)
      .field("byte_flops", work.byte_flops)
      .field("narrow", work.least.narrow)
      .field("bytes", work.bytes)
      .end_object();
}

Result<RegionWork> read_work(const Json& json) {
  RegionWork w;
  PERI_ASSIGN(w.flops, json.get_double("flops"));
  PERI_ASSIGN(w.algorithm_flops, json.get_double("algorithm_flops"));
  PERI_ASSIGN(w.least.flops, json.get_double("least_flops"));
  PERI_ASSIGN(w.least.narrow, json.get_bool("narrow"));
  if (const Json* of_bytes = json.find("byte_flops")) {  // proofs of earlier versions have none
    PERI_ASSIGN(w.byte_flops, of_bytes->as_double());
  }
  PERI_ASSIGN(w.bytes, json.get_double("bytes"));
  for (const double n : {w.flops, w.algorithm_flops, w.least.flops, w.byte_flops, w.bytes})
    if (!(n >= 0)) return invalid("work of %g", n);
  w.least.bytes = w.bytes;
  return w;
}

}  // namespace peri::tune
