// Every sample of every op parses, infers, prints back, and its reference is consistent: radii hold for inputs moved
// within theirs, chosen positions equal the full answer bit for bit, threads change nothing, and `pull` names all that
// is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/rng.hpp"
#include "ops/entry.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

struct World {
  ir::Graph graph;
  std::vector<RefTensor> values;  // one for each input of the node
  ir::Node* node() const { return graph.nodes[0]; }
};

RefTensor random_values(const ir::Value& v, Rng& rng) {
  RefTensor t = make_ref(v.type.dtype, concrete(v));
  for (double& x : t.f) x = round_to(v.type.dtype, rng.normal());
  for (int64_t& x : t.i)
    x = v.type.dtype == DType::kBool ? rng.below(2)
                                     : rng.below(is_signed(v.type.dtype) ? 7 : 4) - (is_signed(v.type.dtype) ? 3 : 0);
  for (std::string& x : t.s) x = std::string(1, static_cast<char>('a' + rng.below(4)));
  return t;
}

std::optional<World> make_world(std::string_view text, Rng& rng) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << text << "\n" << (g.ok() ? "" : g.error().text());
  if (!g.ok()) return {};
  const Status inferred = infer_graph(*g);
  EXPECT_TRUE(inferred.ok()) << text << "\n" << (inferred.ok() ? "" : inferred.error().text());
  if (!inferred.ok()) return {};
  auto again = ir::parse_graph(ir::print(*g, {.inline_limit = 1 << 20}));
  EXPECT_TRUE(again.ok() && ir::equal(*g, *again)) << ir::print(*g);
  World w{*std::move(g), {}};
  for (const ir::Value* v : w.node()->inputs)
    w.values.push_back(!v ? RefTensor{} : v->constant ? to_ref(*v->constant) : random_values(*v, rng));
  return w;
}

// One evaluation of the node; data-dependent outputs start empty.
Status evaluate(const World& w, const std::vector<RefTensor>& values, std::span<const int64_t> positions, double u,
                int threads, std::vector<RefTensor>* out) {
  RefCall call{*w.node(), {}, {}, positions, u, threads};
  for (size_t k = 0; k < values.size(); ++k) call.in.push_back(w.node()->inputs[k] ? &values[k] : nullptr);
  for (const ir::Value* v : w.node()->outputs) {
    std::vector<int64_t> dims;
    for (const Dim& d : *v->type.shape) dims.push_back(d.is_const() ? d.value() : 0);
    call.out.push_back(make_ref(v->type.dtype, dims));
    call.out.back().radius.assign(call.out.back().f.size(), 0.0);
  }
  PERI_TRY(find(w.node()->op)->reference(call));
  *out = std::move(call.out);
  return Ok{};
}

bool same_bits(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same_element(const RefTensor& a, const RefTensor& b, size_t k) {
  if (a.floating()) return same_bits(a.f[k], b.f[k]);
  return a.dtype == DType::kString ? a.s[k] == b.s[k] : a.i[k] == b.i[k];
}
bool close(const RefTensor& a, const RefTensor& b, size_t k) {
  if (!a.floating()) return same_element(a, b, k);
  return same_bits(a.f[k], b.f[k]) || std::fabs(a.f[k] - b.f[k]) <= 1e-12 * (1 + std::fabs(a.f[k]));
}

bool data_dependent(const ir::Node& n) {
  for (const ir::Value* v : n.outputs)
    if (!is_const(*v->type.shape)) return true;
  return false;
}

std::vector<int64_t> some_positions(int64_t numel, Rng& rng) {
  std::set<int64_t> chosen = {0, numel - 1};
  for (int k = 0; k < 5; ++k) chosen.insert(rng.below(numel));
  return {chosen.begin(), chosen.end()};
}

class Samples : public testing::TestWithParam<const OpDef*> {};

TEST_P(Samples, ReferenceIsConsistent) {
  const OpDef& op = *GetParam();
  Rng rng(7);
  for (std::string_view text : op.samples) {
    SCOPED_TRACE(text);
    auto w = make_world(text, rng);
    if (!w || !op.reference) continue;
    std::vector<RefTensor> full, other;
    Status s = evaluate(*w, w->values, {}, 0x1p-24, 1, &full);
    ASSERT_TRUE(s.ok()) << s.error().text();
    ASSERT_TRUE(evaluate(*w, w->values, {}, 0x1p-24, 3, &other).ok());
    for (size_t o = 0; o < full.size(); ++o) {
      ASSERT_EQ(full[o].numel(), other[o].numel());
      for (size_t k = 0; k < static_cast<size_t>(full[o].numel()); ++k) {
        EXPECT_TRUE(same_element(full[o], other[o], k)) << "threads change output " << o << " at " << k;
        if (full[o].floating())
          EXPECT_TRUE(std::isfinite(full[o].r(static_cast<int64_t>(k))) && full[o].r(static_cast<int64_t>(k)) >= 0)
              << "radius of output " << o << " at " << k;
      }
    }
    if (data_dependent(*w->node()) || full[0].numel() == 0) continue;
    const std::vector<int64_t> positions = some_positions(full[0].numel(), rng);
    ASSERT_TRUE(evaluate(*w, w->values, positions, 0x1p-24, 1, &other).ok());
    for (int64_t p : positions) {
      EXPECT_TRUE(close(full[0], other[0], static_cast<size_t>(p))) << "position " << p;
      if (full[0].floating())
        EXPECT_NEAR(full[0].r(p), other[0].r(p), 1e-3 * full[0].r(p) + 1e-30) << "radius at position " << p;
    }
  }
}

// What lies outside the pulled positions may be anything.
TEST_P(Samples, PullNamesAllThatIsRead) {
  const OpDef& op = *GetParam();
  if (!op.pull || !op.reference) GTEST_SKIP() << "no pull";
  Rng rng(11);
  for (std::string_view text : op.samples) {
    SCOPED_TRACE(text);
    auto w = make_world(text, rng);
    if (!w || data_dependent(*w->node()) || w->node()->out()->type.shape->empty()) continue;
    std::vector<RefTensor> full, other, poisoned = w->values;
    ASSERT_TRUE(evaluate(*w, w->values, {}, 0, 1, &full).ok());
    if (full[0].numel() == 0) continue;
    const std::vector<int64_t> positions = some_positions(full[0].numel(), rng);
    for (size_t port = 0; port < poisoned.size(); ++port) {
      std::vector<int64_t> needed;
      if (!w->node()->inputs[port] || !op.pull(*w->node(), port, positions, &needed)) continue;
      EXPECT_TRUE(std::is_sorted(needed.begin(), needed.end()) &&
                  std::adjacent_find(needed.begin(), needed.end()) == needed.end())
          << "port " << port;
      const std::set<int64_t> keep(needed.begin(), needed.end());
      for (int64_t k = 0; k < poisoned[port].numel(); ++k) {
        if (keep.contains(k)) continue;
        if (poisoned[port].floating())
          poisoned[port].f[static_cast<size_t>(k)] = std::numeric_limits<double>::quiet_NaN();
      }
    }
    ASSERT_TRUE(evaluate(*w, poisoned, positions, 0, 1, &other).ok());
    for (int64_t p : positions) EXPECT_TRUE(close(full[0], other[0], static_cast<size_t>(p))) << "position " << p;
  }
}

// Inputs that lie anywhere within their radii give outputs within theirs.
TEST_P(Samples, RadiiOfInputsAreCarried) {
  const OpDef& op = *GetParam();
  if (op.jumps || !op.reference) GTEST_SKIP() << "jumps";
  Rng rng(13);
  for (std::string_view text : op.samples) {
    SCOPED_TRACE(text);
    auto w = make_world(text, rng);
    if (!w || data_dependent(*w->node())) continue;
    std::vector<RefTensor> moved = w->values, full, other;
    for (size_t k = 0; k < moved.size(); ++k) {
      RefTensor& t = w->values[k];
      if (!w->node()->inputs[k] || !t.floating() || w->node()->inputs[k]->constant) continue;
      t.radius.assign(t.f.size(), 0.0);
      for (size_t e = 0; e < t.f.size(); ++e) {
        t.radius[e] = 1e-3 * rng.uniform();
        moved[k].f[e] += t.radius[e] * (2 * rng.uniform() - 1);
      }
    }
    ASSERT_TRUE(evaluate(*w, w->values, {}, 0x1p-52, 1, &full).ok());
    ASSERT_TRUE(evaluate(*w, moved, {}, 0, 1, &other).ok());
    for (size_t o = 0; o < full.size(); ++o) {
      if (!full[o].floating()) continue;
      for (size_t k = 0; k < full[o].f.size(); ++k)
        if (!same_bits(full[o].f[k], other[o].f[k]))
          EXPECT_LE(std::fabs(full[o].f[k] - other[o].f[k]), full[o].r(static_cast<int64_t>(k)) * 1.000001 + 1e-15)
              << "output " << o << " at " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Samples, testing::ValuesIn(all()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace peri::ops
