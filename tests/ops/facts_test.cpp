// What an op states about itself for others is what its reference does on its samples: integers that must lie in a
// range are indices with that range, views keep every element in its place, ops that move make no new element, inner
// values are stored in 16 bits where it is stated, made-up weights leave results of the size of their inputs, and
// conversions, channels, bodies and sizes are where the definition says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.hpp"
#include "ops/entry.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

struct World {
  ir::Graph graph;
  std::vector<RefTensor> values;  // one for each input of the node
  const ir::Node& node() const { return *graph.nodes[0]; }
};

RefTensor random_values(const ir::Value& v, Rng& rng) {
  RefTensor t = make_ref(v.type.dtype, concrete(v));
  for (double& x : t.f) x = round_to(v.type.dtype, rng.normal());
  for (int64_t& x : t.i) x = v.type.dtype == DType::kBool ? rng.below(2) : 1 + rng.below(3);
  for (std::string& x : t.s) x = std::string(1, static_cast<char>('a' + rng.below(4)));
  return t;
}

std::optional<World> world_of(std::string_view text, Rng& rng) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || !infer_graph(*g).ok() || g->nodes.size() != 1) return std::nullopt;
  for (const ir::Value* v : g->nodes[0]->outputs)
    if (!is_const(*v->type.shape)) return std::nullopt;
  World w{*std::move(g), {}};
  for (size_t port = 0; port < w.node().inputs.size(); ++port) {
    const ir::Value* v = w.node().inputs[port];
    w.values.push_back(!v ? RefTensor{} : v->constant ? to_ref(*v->constant) : random_values(*v, rng));
    if (v && !v->constant)
      for (const Dim& end : index_ends_of(w.node(), port))
        for (int64_t& x : w.values.back().i) x = rng.below(std::max<int64_t>(1, std::min(end.value(), x + 1)));
  }
  return w;
}

Status evaluate(const World& w, const std::vector<RefTensor>& values, std::vector<RefTensor>* out = nullptr) {
  RefCall call{w.node(), {}, {}, {}, 0, 1};
  for (size_t k = 0; k < values.size(); ++k) call.in.push_back(w.node().inputs[k] ? &values[k] : nullptr);
  for (const ir::Value* v : w.node().outputs) {
    call.out.push_back(make_ref(v->type.dtype, concrete(*v)));
    call.out.back().radius.assign(call.out.back().f.size(), 0.0);
  }
  PERI_TRY(find(w.node().op)->reference(call));
  if (out) *out = std::move(call.out);
  return Ok{};
}

// Whether the port's contents decide shapes: as an input whose contents are not known it leaves other shapes, or none.
bool decides_shapes(const World& w, size_t port) {
  if (!w.node().inputs[port]->constant) return false;
  ir::Graph g = w.graph.clone();
  ir::Node* n = g.nodes[0];
  g.set_input(n, port, g.add_input("contents", n->inputs[port]->type));
  for (ir::Value* v : n->outputs) v->type.shape = std::nullopt;
  if (!infer_graph(g).ok()) return true;
  for (size_t k = 0; k < n->outputs.size(); ++k)
    if (!(*n->outputs[k]->type.shape == *w.node().outputs[k]->type.shape)) return true;
  return false;
}

class Facts : public testing::TestWithParam<const OpDef*> {};

TEST_P(Facts, IntegersThatMustLieInARangeAreIndices) {
  const OpDef& op = *GetParam();
  if (!op.reference) GTEST_SKIP() << "no reference";
  Rng rng(17);
  for (std::string_view text : op.samples) {
    SCOPED_TRACE(text);
    auto w = world_of(text, rng);
    if (!w || !evaluate(*w, w->values).ok()) continue;
    for (size_t port = 0; port < w->values.size(); ++port) {
      const ir::Value* v = w->node().inputs[port];
      if (!v || !contains(kIndex, v->type.dtype) || w->values[port].i.empty() || decides_shapes(*w, port)) continue;
      const std::vector<Dim> ends = index_ends_of(w->node(), port);
      std::vector<RefTensor> values = w->values;
      values[port].i.assign(values[port].i.size(), int64_t{1} << 30);
      if (!evaluate(*w, values).ok())
        EXPECT_TRUE(!ends.empty() || (port == 0 && op.knows_all))
            << "input " << port << " must lie in a range that the op does not state";
      if (ends.empty()) continue;
      int64_t end = INT64_MAX;
      for (const Dim& d : ends) end = std::min(end, d.value());
      for (int64_t& x : values[port].i) x = rng.below(std::max<int64_t>(1, end));
      EXPECT_TRUE(evaluate(*w, values).ok()) << "input " << port << " below " << end;
      values[port].i.assign(values[port].i.size(), std::max<int64_t>(0, end - 1));
      EXPECT_TRUE(evaluate(*w, values).ok()) << "input " << port << " at the last place before " << end;
    }
  }
}

bool same_in_order(const RefTensor& a, const RefTensor& b) {
  return a.dtype == b.dtype && a.f == b.f && a.i == b.i && a.s == b.s;
}

TEST_P(Facts, ViewsKeepEveryElementInItsPlace) {
  const OpDef& op = *GetParam();
  if (!op.reference) GTEST_SKIP() << "no reference";
  Rng rng(19);
  int same = 0, others = 0;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    std::vector<RefTensor> out;
    if (!w || w->values.empty() || !evaluate(*w, w->values, &out).ok() || out[0].numel() < 2) continue;
    (same_in_order(w->values[0], out[0]) && out.size() == 1 ? same : others)++;
  }
  if (op.view)
    EXPECT_TRUE(same > 0 && others == 0) << "it says that it is a view";
  else
    EXPECT_FALSE(same > 1 && others == 0) << "it is a view and does not say so";
}

std::optional<bool> only_moved(const World& w, const std::vector<RefTensor>& out) {
  if (!out[0].floating() || out[0].numel() < 2) return std::nullopt;
  std::set<double> known;
  for (const RefTensor& in : w.values)
    if (in.dtype == out[0].dtype) known.insert(in.f.begin(), in.f.end());
  if (known.size() < 2) return std::nullopt;
  return std::all_of(out[0].f.begin(), out[0].f.end(), [&](double x) { return known.contains(x); });
}

TEST_P(Facts, MovesMakeNoNewElement) {
  const OpDef& op = *GetParam();
  if (!op.reference) GTEST_SKIP() << "no reference";
  Rng rng(23);
  int moved = 0, others = 0;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    std::vector<RefTensor> out;
    if (!w || !evaluate(*w, w->values, &out).ok()) continue;
    if (const auto only = only_moved(*w, out)) (*only ? moved : others)++;
  }
  if (op.moves)
    EXPECT_EQ(others, 0) << "it says that it only moves";
  else
    EXPECT_FALSE(moved > 1 && others == 0) << "it only moves and does not say so";
}

// In 16 bits the radii of an op that may store inner values are wider than those of the same numbers in float32; those
// of others are not.
TEST_P(Facts, InnerValuesAreStoredWhereTheOpSaysSo) {
  const OpDef& op = *GetParam();
  if (!op.reference) GTEST_SKIP() << "no reference";
  Rng rng(29);
  int wider = 0, others = 0;
  for (std::string_view sample : op.samples) {
    std::string text(sample);
    const auto replace = [&](std::string_view from, std::string_view to) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
        text.replace(at, from.size(), to);
    };
    replace("f16[", "f32[");
    const auto wide = world_of(text, rng);
    replace("f32[", "f16[");
    auto narrow = world_of(text, rng);
    if (!wide || !narrow) continue;
    std::vector<RefTensor> in;
    for (size_t k = 0; k < narrow->graph.inputs.size(); ++k) in.push_back(random_values(*narrow->graph.inputs[k], rng));
    auto small = run_reference(narrow->graph, in, {0x1p-24, 1});
    for (RefTensor& t : in) t.dtype = t.dtype == DType::kF16 ? DType::kF32 : t.dtype;
    auto large = run_reference(wide->graph, in, {0x1p-24, 1});
    if (!small.ok() || !large.ok() || (*small)[0].dtype != DType::kF16 || (*large)[0].dtype != DType::kF32) continue;
    for (int64_t k = 0; k < (*small)[0].numel(); ++k)
      ((*small)[0].r(k) > 2 * (*large)[0].r(k) + 0x1p-20 ? wider : others)++;
  }
  if (op.stores.empty())
    EXPECT_EQ(wider, 0) << "it says that it stores none";
  else
    EXPECT_GT(wider, others) << "it says that it stores " << op.stores;
}

TEST_P(Facts, RolesHaveWhatTheyNeed) {
  const OpDef& op = *GetParam();
  const auto has = [&](Role role) {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Port& p) { return p.role == role; });
  };
  EXPECT_EQ(has(Role::kWeight), op.fan_in != nullptr);
  EXPECT_EQ(has(Role::kIndex), op.index_ends != nullptr);
  EXPECT_TRUE(!op.view || op.moves) << "a view moves nothing else";
  for (const Port& p : op.inputs) {
    if (p.name == "w" || p.name == "weight") EXPECT_EQ(p.role, Role::kWeight) << p.name;
    if (p.name == "bias") EXPECT_EQ(p.role, Role::kBias) << p.name;
    if (p.name == "scale") EXPECT_EQ(p.role, Role::kScale) << p.name;
    if (p.name == "var") EXPECT_EQ(p.role, Role::kVariance) << p.name;
  }
}

size_t at(int64_t position) { return static_cast<size_t>(position); }

// A conversion gives the numbers of its first input, whatever the others hold; nothing else that gives another type
// does.
TEST_P(Facts, ConversionsKeepNumbers) {
  const OpDef& op = *GetParam();
  if (!op.reference) GTEST_SKIP() << "no reference";
  Rng rng(31);
  int kept = 0, others = 0;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    if (!w || w->values.empty()) continue;
    RefTensor& from = w->values[0];
    const DType made = w->node().out()->type.dtype;
    const auto of_numbers = [](DType t) { return t != DType::kString && t != DType::kBool; };
    if (made == from.dtype || !of_numbers(made) || !of_numbers(from.dtype) || from.numel() < 2) continue;
    for (size_t k = 0; k < from.f.size(); ++k) from.f[k] = k % 2 ? 1 : 2;
    for (size_t k = 0; k < from.i.size(); ++k) from.i[k] = k % 2 ? 1 : 2;
    std::vector<RefTensor> out;
    bool same = evaluate(*w, w->values, &out).ok() && out[0].numel() == from.numel();
    for (int64_t k = 0; same && k < from.numel(); ++k)
      same = (out[0].floating() ? out[0].f[at(k)] : static_cast<double>(out[0].i[at(k)])) == (k % 2 ? 1 : 2);
    (same ? kept : others)++;
  }
  if (op.converts)
    EXPECT_TRUE(kept > 0 && others == 0 && op.elementwise && op.moves) << "it says that it converts";
  else
    EXPECT_FALSE(kept > 0 && others == 0) << "it converts and does not say so";
}

// The index of a position along an axis.
int64_t index_along(const RefTensor& t, size_t axis, int64_t position) {
  for (size_t k = t.dims.size() - 1; k > axis; --k) position /= t.dims[k];
  return position % t.dims[axis];
}

// A bias of one anchor adds to the elements of one channel: along axis 1 where the op says so, else not.
TEST_P(Facts, ChannelsLieWhereABiasAdds) {
  const OpDef& op = *GetParam();
  const auto bias = std::ranges::find(op.inputs, Role::kBias, &Port::role);
  if (!op.anchor || !op.fan_in || bias == op.inputs.end()) {
    EXPECT_FALSE(op.channels_second);
    GTEST_SKIP() << "no anchor with weights and a bias";
  }
  const auto port = static_cast<size_t>(bias - op.inputs.begin());
  Rng rng(37);
  int second = 0, others = 0;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    std::vector<RefTensor> before, after;
    if (!w || w->values.size() <= port || w->values[port].dims.size() != 1 || w->values[port].f.size() < 2) continue;
    if (!evaluate(*w, w->values, &before).ok() || before[0].dims.size() < 3) continue;
    w->values[port].f[0] += 1;
    ASSERT_TRUE(evaluate(*w, w->values, &after).ok());
    bool only = true;
    for (int64_t k = 0; k < before[0].numel(); ++k)
      only = only && (before[0].f[at(k)] != after[0].f[at(k)]) == (index_along(before[0], 1, k) == 0);
    (only ? second : others)++;
  }
  EXPECT_EQ(op.channels_second, second > 0 && others == 0);
}

TEST_P(Facts, StructureIsStated) {
  const OpDef& op = *GetParam();
  const auto has = [&](auto which) { return std::ranges::any_of(op.attrs, which); };
  const bool dims = has([](const AttrSpec& a) { return a.kind == AttrKind::kDims; });
  EXPECT_EQ(op.states_sizes, dims && op.inputs.empty());
  const bool bodies = has([](const AttrSpec& a) { return a.kind == AttrKind::kGraph; });
  const bool branches = has([](const AttrSpec& a) { return a.name == "then_branch"; });
  if (op.reference)  // others are rewritten at import
    EXPECT_EQ(op.control, branches ? Control::kBranch : bodies ? Control::kLoop : Control::kNone);
  constexpr TypeSet kOfBytes = types({DType::kI8, DType::kU8});
  const bool bytes = op.elementwise && !op.inputs.empty() && (op.inputs[0].types & ~kOfBytes) == 0;
  Rng rng(41);
  bool wider = bytes, same = true, known = false;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    if (!w) continue;
    wider = wider && w->node().out()->type.dtype == DType::kF32;
    std::vector<RefTensor> out;
    if (!op.reference || w->values.empty() || !evaluate(*w, w->values, &out).ok()) continue;
    known = true;
    same = same && same_in_order(w->values[0], out[0]);
  }
  EXPECT_EQ(op.widens, wider);
  EXPECT_EQ(op.changes_layout, op.domain == "peri" && !op.view && known && same);
}

// Inputs of size one, weights as the op wants them: results are of size one, however long the sums are.
TEST_P(Facts, WeightsKeepTheSizeOfResults) {
  const OpDef& op = *GetParam();
  if (!op.fan_in) GTEST_SKIP() << "no weights";
  Rng rng(29);
  double squares = 0, count = 0;
  for (std::string_view text : op.samples) {
    auto w = world_of(text, rng);
    if (!w) continue;
    for (size_t port = 0; port < w->values.size(); ++port) {
      if (!w->node().inputs[port] || !w->values[port].floating()) continue;
      const Role role = op.inputs[port].role;
      const double size = role == Role::kBias     ? 0
                          : role != Role::kWeight ? 1
                                                  : 1 / std::sqrt(op.fan_in(w->node(), w->values[port].dims));
      for (double& x : w->values[port].f) x = size * rng.normal();
    }
    std::vector<RefTensor> out;
    if (!evaluate(*w, w->values, &out).ok()) continue;
    for (double y : out[0].f) {
      squares += y * y;
      count += 1;
    }
  }
  ASSERT_GT(count, 20);
  // A cell gives bounded functions of its sums: an LSTM the product of two.
  const bool cell = op.name == "rnn" || op.name == "gru" || op.name == "lstm";
  EXPECT_GT(squares / count, cell ? 0.02 : 0.2);
  EXPECT_LT(squares / count, 3);
}

INSTANTIATE_TEST_SUITE_P(Ops, Facts, testing::ValuesIn(all()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace peri::ops
