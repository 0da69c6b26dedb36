// The whole pipeline keeps the meaning of trained models, pass by pass, and leaves nothing that it promises to remove.
#include <gtest/gtest.h>

#include "onnx/import.hpp"
#include "passes/pipeline.hpp"
#include "tests/passes/meaning.hpp"
#include "tests/places.hpp"

namespace peri::passes {
namespace {

int64_t nodes_of(const ir::Graph& g, std::string_view op) {
  int64_t n = 0;
  for (const ir::Node* node : g.nodes) n += node->op == op;
  return n;
}

class TrainedModel : public testing::TestWithParam<const char*> {};

TEST_P(TrainedModel, MeansTheSameAfterEveryPass) {
  auto imported = onnx::import_model(std::string(tests::kSourceDir) + "/models/" + GetParam());
  ASSERT_TRUE(imported.ok()) << imported.error().text();
  ir::Graph g = std::move(imported->graph);
  ASSERT_TRUE(ops::infer_graph(g).ok());
  const ir::Graph before = g.clone();
  for (std::string_view name : order()) {
    SCOPED_TRACE(name);
    auto report = run_pass(*find(name), g);
    ASSERT_TRUE(report.ok()) << report.error().text();
    if (report->rewrites > 0) expect_parses_back(g);
  }
  for (uint64_t seed : {3, 4}) expect_same_meaning(before, g, seed);
  EXPECT_EQ(nodes_of(g, "shape") + nodes_of(g, "softmax") + nodes_of(g, "erf") + nodes_of(g, "identity"), 0)
      << ir::print(g);
}
INSTANTIATE_TEST_SUITE_P(Models, TrainedModel, testing::Values("digits_cnn.onnx", "digits_transformer.onnx"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

}  // namespace
}  // namespace peri::passes
