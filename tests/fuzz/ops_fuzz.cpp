// A sample of any op with inputs of other extents and other elements: refused by inference or the reference, or read
// within what is there.
// links: ops ir base
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::fuzz {
namespace {

// Every sample of every op, in the order of the table.
const std::vector<std::string_view>& samples() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> out;
    for (const ops::Entry* e : ops::entries())
      for (const ops::OpDef& op : e->ops) out.insert(out.end(), op.samples.begin(), op.samples.end());
    return out;
  }();
  return all;
}

struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
  uint8_t next() { return at < end ? *at++ : 0; }
};

// Each change: which input, which axis (past the last: an axis more, or one less), what extent.
void change_shapes(ir::Graph& g, Bytes& bytes) {
  for (int left = bytes.next() % 4; left > 0 && !g.inputs.empty(); --left) {
    ir::Type& type = g.inputs[bytes.next() % g.inputs.size()]->type;
    if (!type.shape) continue;
    const size_t axis = bytes.next() % (type.shape->size() + 2);
    const Dim extent(bytes.next() % 9);
    if (axis < type.shape->size()) {
      (*type.shape)[axis] = extent;
    } else if (axis == type.shape->size()) {
      type.shape->push_back(extent);
    } else if (!type.shape->empty()) {
      type.shape->pop_back();
    }
  }
  for (const auto& n : g.nodes)
    for (ir::Value* v : n->outputs) v->type.shape.reset();
}

ops::RefTensor make_input(const ir::Value& v, Rng& rng, int64_t span) {
  std::vector<int64_t> dims;
  for (const Dim& d : *v.type.shape) dims.push_back(d.is_const() ? d.value() : 3);
  ops::RefTensor t = ops::make_ref(v.type.dtype, dims);
  for (double& x : t.f) x = 4 * rng.uniform() - 2;
  for (int64_t& x : t.i)
    x = v.type.dtype == DType::kBool ? static_cast<int64_t>(rng.below(2))
                                     : static_cast<int64_t>(rng.below(2 * span + 1)) - span;
  return t;
}

void infer_and_run(Bytes bytes) {
  const size_t which = static_cast<size_t>(bytes.next()) * 256 + bytes.next();
  auto g = ir::parse_graph(samples()[which % samples().size()]);
  if (!g.ok()) __builtin_trap();
  const uint64_t seed = bytes.next();
  const int64_t span = bytes.next() % 12;
  change_shapes(*g, bytes);
  if (!ops::infer_graph(*g).ok()) return;
  Rng rng(seed);
  std::vector<ops::RefTensor> in;
  for (const ir::Value* v : g->inputs) in.push_back(make_input(*v, rng, span));
  ops::RefOptions options;
  options.u = 6e-8;
  options.most_elements = int64_t{1} << 16;
  (void)ops::run_reference(*g, in, options).ok();
}
}  // namespace
}  // namespace peri::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  peri::fuzz::infer_and_run({data, data + size});
  return 0;
}
