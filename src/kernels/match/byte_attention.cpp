// From the softmax back to one product and on to the other; transposes become strides.
#include "kernels/match/byte_attention.hpp"

#include <algorithm>
#include <unordered_set>

#include "kernels/match/epilogue_match.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::kernels {

namespace {
constexpr const char* kNone = "no attention of bytes";
constexpr size_t kLeft = 0, kRight = 3;  // ports of qlinear_matmul

bool is_elementwise(const ir::Node& n) { return ops::is(n, &ops::OpDef::elementwise) && n.outputs.size() == 1; }

std::vector<int64_t> perm_of(const ir::Node& transpose, size_t rank) {
  std::vector<int64_t> reversed;
  for (size_t d = rank; d-- > 0;) reversed.push_back(static_cast<int64_t>(d));
  return transpose.ints("perm", reversed);
}

// Extents and strides by batch, head and two more of a value of dims `d`, whose axes lie at `strides`.
HeadView view_of(const std::vector<int64_t>& d, const std::vector<int64_t>& strides, bool depth_first) {
  HeadView out;
  const size_t missing = 4 - d.size();
  for (size_t k = 0; k < d.size(); ++k) {
    size_t letter = k + missing;
    if (depth_first && letter >= 2) letter = 5 - letter;
    out.extent[letter] = d[k];
    out.stride[letter] = d[k] == 1 ? 0 : strides[k];
  }
  if (out.extent[3] == 1) out.stride[3] = 1;
  return out;
}

// What an operand of a product is read from, and its strides there.
Result<HeadView> operand(const Problem& p, const ir::Value* v, bool depth_first, const ir::Value** from) {
  const std::vector<int64_t> d = dims_of(*v);
  std::vector<int64_t> strides = ops::strides_of(d);
  *from = v;
  if (const ir::Node* t = v->producer; t && t->op == "transpose") {
    *from = t->in(0);
    const std::vector<int64_t> own = ops::strides_of(dims_of(*t->in(0))), perm = perm_of(*t, d.size());
    for (size_t k = 0; k < d.size(); ++k) strides[k] = own[static_cast<size_t>(perm[k])];
  }
  const int input = input_index(*p.graph, *from);
  if (input < 0 || p.constant[static_cast<size_t>(input)]) return refused("an operand that is not an argument");
  return view_of(d, strides, depth_first);
}

// Strides of the second product's result in what the region gives back.
Result<HeadView> result(const ir::Value& y, const ir::Value& out) {
  const std::vector<int64_t> d = dims_of(y);
  std::vector<int64_t> strides = ops::strides_of(d);
  if (const ir::Node* t = out.producer; &out != &y) {
    if (t->op != "transpose" || t->in(0) != &y) return refused(kNone);
    const std::vector<int64_t> made = ops::strides_of(dims_of(out)), perm = perm_of(*t, d.size());
    for (size_t k = 0; k < d.size(); ++k) strides[static_cast<size_t>(perm[k])] = made[k];
  }
  return view_of(d, strides, false);
}

const ir::Node* the_softmax(const ir::Graph& g) {
  const ir::Node* out = nullptr;
  for (const ir::Node* n : g.nodes)
    if (n->op == "softmax") {
      if (out) return nullptr;
      out = n;
    }
  return out;
}

// The nodes that `v` is computed by, without transposes and products.
void collect_chain(const ir::Value* v, std::unordered_set<const ir::Node*>* out) {
  const ir::Node* n = v ? v->producer : nullptr;
  if (!n || !is_elementwise(*n) || !out->insert(n).second) return;
  for (const ir::Value* input : n->inputs) collect_chain(input, out);
}
}  // namespace

Result<ByteAttention> match_byte_attention(const Problem& p) {
  const ir::Graph& g = *p.graph;
  ByteAttention out;
  out.softmax = the_softmax(g);
  if (!out.softmax || g.outputs.size() != 1) return refused(kNone);
  std::vector<const ir::Node*> products;
  for (const ir::Node* n : g.nodes)
    if (n->op == "qlinear_matmul") products.push_back(n);
  if (products.size() != 2) return refused(kNone);
  out.scores = products[0];
  out.values = products[1];
  const size_t rank = out.scores->out()->type.rank();
  if (rank < 3 || rank > 4) return refused("other ranks than 3 and 4");
  const int64_t axis = out.softmax->i("axis", -1);
  if (axis != -1 && axis != static_cast<int64_t>(rank) - 1) return refused("a softmax over another axis");
  std::unordered_set<const ir::Node*> before, between;
  collect_chain(out.softmax->in(0), &before);
  collect_chain(out.values->in(kLeft), &between);
  // Scores that another chain reads, too, would have to be stored.
  const auto within = [](const ir::Value* v, const std::unordered_set<const ir::Node*>& chain) {
    return v->users.size() == 1 && chain.contains(v->users[0]);
  };
  const ir::Value* first = out.scores->out();
  if (first->users.size() == 1 && first->users[0]->op == "byte_table") {
    out.table = first->users[0];
    first = out.table->out();
  }
  if (!within(first, before) || !within(out.softmax->out(), between)) return refused(kNone);
  // A transpose of anything else, such as a mask, is none of ours.
  const auto turns = [&](const ir::Node* n) {
    const ir::Value* y = n->out();
    return n->op == "transpose" && (y == out.scores->in(kLeft) || y == out.scores->in(kRight) ||
                                    y == out.values->in(kRight) || n->in(0) == out.values->out());
  };
  size_t others = out.table ? 4 : 3;
  for (const ir::Node* n : g.nodes) {
    if (before.contains(n)) out.before.push_back(n);
    if (between.contains(n)) out.between.push_back(n);
    if (turns(n) || ops::states_sizes(*n)) ++others;
  }
  const size_t counted = out.before.size() + out.between.size() + others;
  if (counted != g.nodes.size()) return refused(kNone);
  const std::vector<int64_t> d = dims_of(*out.scores->out());
  for (const ir::Value* v : {out.softmax->in(0), out.values->in(kLeft)})
    if (dims_of(*v) != d) return refused("a chain that changes the shape of the scores");
  PERI_ASSIGN(out.q, operand(p, out.scores->in(kLeft), false, &out.q_from));
  PERI_ASSIGN(out.k, operand(p, out.scores->in(kRight), true, &out.k_from));
  PERI_ASSIGN(out.v, operand(p, out.values->in(kRight), false, &out.v_from));
  PERI_ASSIGN(out.y, result(*out.values->out(), *g.outputs[0]));
  return out;
}

}  // namespace peri::kernels
