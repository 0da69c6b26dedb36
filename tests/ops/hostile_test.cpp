// Attributes of any value and inputs of any rank are refused or inferred: no op aborts, overflows or loops on what a
// model may say.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ops/entry.hpp"

namespace peri::ops {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kOdd[] = {kMin, kMin + 1,         -(int64_t{1} << 40), -2,       -1,  0, 1, 2,
                            7,    int64_t{1} << 31, int64_t{1} << 40,    kMax - 1, kMax};

// Variants of one attribute that a file could hold.
std::vector<ir::Attr> variants(const ir::Attr& a) {
  std::vector<ir::Attr> out;
  if (std::holds_alternative<int64_t>(a))
    for (int64_t v : kOdd) out.emplace_back(v);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&a)) {
    for (int64_t v : kOdd) {
      for (size_t k = 0; k < list->size(); ++k) {
        std::vector<int64_t> changed = *list;
        changed[k] = v;
        out.emplace_back(std::move(changed));
      }
      out.emplace_back(std::vector<int64_t>(list->size(), v));
    }
    out.emplace_back(std::vector<int64_t>{});
    out.emplace_back(std::vector<int64_t>(list->size() + 1, 1));
  }
  if (std::holds_alternative<double>(a))
    for (double v :
         {0.0, -1.0, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      out.emplace_back(v);
  if (std::holds_alternative<std::string>(a))
    for (const char* v : {"", "x", "...", ",->", "SAME_UPPER"}) out.emplace_back(std::string(v));
  return out;
}

class Hostile : public testing::TestWithParam<const OpDef*> {};

TEST_P(Hostile, AttributesOfAnyValue) {
  const OpDef& op = *GetParam();
  int tried = 0;
  for (std::string_view text : op.samples) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && infer_graph(*g).ok()) << text;
    ir::Node& node = *g->nodes[0];
    for (const AttrSpec& spec : op.attrs) {
      const ir::Attrs kept = node.attrs;
      ir::Attr base = spec.kind == AttrKind::kInt      ? ir::Attr(int64_t{0})
                      : spec.kind == AttrKind::kFloat  ? ir::Attr(0.0)
                      : spec.kind == AttrKind::kString ? ir::Attr(std::string())
                                                       : ir::Attr(std::vector<int64_t>{1, 1});
      if (auto it = node.attrs.find(spec.name); it != node.attrs.end()) base = it->second;
      for (ir::Attr& v : variants(base)) {
        node.attrs[std::string(spec.name)] = std::move(v);
        int64_t fresh = 0;
        const Status s = infer_node(node, &fresh);
        if (!s.ok()) EXPECT_FALSE(s.error().message.empty()) << text;
        ++tried;
      }
      node.attrs = kept;
    }
  }
  const bool values =
      std::any_of(op.attrs.begin(), op.attrs.end(), [](const AttrSpec& a) { return a.kind != AttrKind::kGraph; });
  if (values && !op.samples.empty()) EXPECT_GT(tried, 0);
}

// Every input in turn gets another rank, an extent of zero, one, much or a name.
TEST_P(Hostile, InputsOfAnyShape) {
  const OpDef& op = *GetParam();
  const std::vector<Shape> shapes = {{},
                                     {Dim(0)},
                                     {Dim(1)},
                                     {Dim(3)},
                                     {Dim::symbol("n")},
                                     {Dim(2), Dim(2)},
                                     {Dim::symbol("n"), Dim::symbol("m")},
                                     {Dim(2), Dim(0), Dim(3)},
                                     {Dim(1), Dim(3), Dim::symbol("h"), Dim(8)},
                                     {Dim(int64_t{1} << 40), Dim(int64_t{1} << 40)},
                                     {Dim(kMax), Dim(4), Dim(4), Dim(4)},
                                     {Dim(1), Dim(1), Dim(1), Dim(1), Dim(1), Dim(1)}};
  for (std::string_view text : op.samples) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok()) << text;
    for (ir::Value* v : g->nodes[0]->inputs) {
      if (!v || v->constant) continue;
      const ir::Type kept = v->type;
      for (const Shape& s : shapes) {
        v->type = ir::Type(kept.dtype, s);
        v->content.reset();
        int64_t fresh = 0;
        const Status done = infer_node(*g->nodes[0], &fresh);
        if (!done.ok()) EXPECT_FALSE(done.error().message.empty()) << text;
      }
      v->type = kept;
    }
  }
}

// What the reference makes of ones, where inference takes the node: an answer or an error, no crash.
void infer_and_run(const ir::Graph& g) {
  ir::Graph tried = g.clone();
  const Status done = infer_graph(tried);
  if (!done.ok()) {
    EXPECT_FALSE(done.error().message.empty()) << ir::print(g);
    EXPECT_FALSE(done.error().node.empty()) << ir::print(g);
    return;
  }
  std::vector<RefTensor> in;
  for (const ir::Value* v : tried.inputs) {
    std::vector<int64_t> dims;
    for (const Dim& d : *v->type.shape) dims.push_back(d.is_const() ? d.value() : 3);
    in.push_back(make_ref(v->type.dtype, dims));
    std::fill(in.back().f.begin(), in.back().f.end(), 1.0);
  }
  RefOptions options;
  options.most_iterations = 50;  // a loop may have lost what ends it
  (void)run_reference(tried, in, options);
}

// Every input in turn is left out, as are all from it on, and all but it.
TEST_P(Hostile, InputsLeftOut) {
  const OpDef& op = *GetParam();
  for (std::string_view text : op.samples) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok()) << text;
    const size_t inputs = g->nodes[0]->inputs.size();
    for (size_t k = 0; k < inputs; ++k) {
      ir::Graph one = g->clone(), rest = g->clone(), others = g->clone();
      one.set_input(one.nodes[0], k, nullptr);
      for (size_t j = k; j < inputs; ++j) rest.set_input(rest.nodes[0], j, nullptr);
      for (size_t j = 0; j < inputs; ++j)
        if (j != k) others.set_input(others.nodes[0], j, nullptr);
      rest.nodes[0]->inputs.resize(k);
      for (const ir::Graph* tried : {&one, &rest, &others}) infer_and_run(*tried);
    }
  }
}

// Every input in turn, and all of one type together, get every other type.
TEST_P(Hostile, InputsOfAnyType) {
  const OpDef& op = *GetParam();
  for (std::string_view text : op.samples) {
    const auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok()) << text;
    for (size_t k = 0; k < g->inputs.size(); ++k)
      for (int n = 1; n < kDTypeCount; ++n)
        for (const bool together : {false, true}) {
          const auto type = static_cast<DType>(n);
          ir::Graph tried = g->clone();
          const DType was = tried.inputs[k]->type.dtype;
          for (size_t j = 0; j < tried.inputs.size(); ++j)
            if (ir::Value* v = tried.inputs[j]; j == k || (together && v->type.dtype == was)) v->type.dtype = type;
          infer_and_run(tried);
        }
  }
}

// Of a variadic input any number may be given, but none left out between others.
TEST(VariadicInputs, AreAllGiven) {
  for (const char* call : {"max(x, _, x)", "min(x, _, x)", "sum(x, _, x)", "mean(x, _, x)", "concat(x, _, x) {axis=0}",
                           "einsum(x, _, x) {equation=\"i,i,i->i\"}"}) {
    auto g = ir::parse_graph("graph { input x: f32[4]; y = " + std::string(call) + "; output y }");
    ASSERT_TRUE(g.ok()) << call;
    const Status s = infer_graph(*g);
    ASSERT_FALSE(s.ok()) << call;
    EXPECT_NE(s.error().text().find("'y': argument 1"), std::string::npos) << s.error().text();
  }
  for (const char* call : {"max()", "concat() {axis=0}", "einsum() {equation=\"->\"}"}) {
    auto g = ir::parse_graph("graph { y = " + std::string(call) + "; output y }");
    ASSERT_TRUE(g.ok()) << call;
    EXPECT_FALSE(infer_graph(*g).ok()) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Hostile, testing::ValuesIn(all()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace peri::ops
