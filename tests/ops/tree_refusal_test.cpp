// Tree ensembles that are no trees are refused when they are read: circles, and what is not there.
#include "tests/ops/world.hpp"

namespace peri::ops {
namespace {

// One tree of nodes 0 to 3: branches 0 and 1, leaves 2 and 3; the ways of the branches as given.
std::string tree(std::string_view yes, std::string_view no, std::string_view feature = "0",
                 std::string_view target = "0") {
  return "graph { input x: f32[4,2]; y = tree_ensemble_regressor(x) {n_targets=1, nodes_treeids=[0, 0, 0, 0], "
         "nodes_nodeids=[0, 1, 2, 3], nodes_featureids=[" +
         std::string(feature) +
         ", 1, 0, 0], nodes_modes=[\"BRANCH_LEQ\", \"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.5, 0.0, "
         "0.0], nodes_truenodeids=[" +
         std::string(yes) + ", 0, 0], nodes_falsenodeids=[" + std::string(no) +
         ", 0, 0], target_treeids=[0, 0], target_nodeids=[2, 3], target_ids=[0, " + std::string(target) +
         "], target_weights=[1.5, -2.0]}; output y }";
}

TEST(TreeRefusals, CirclesAndWhatIsNotThere) {
  for (const auto& [text, words] : {std::pair(tree("0, 3", "2, 3"), "comes back"),           // to itself
                                    std::pair(tree("1, 0", "2, 3"), "comes back"),           // to its parent
                                    std::pair(tree("1, 9", "2, 3"), "node"),                 // no such node
                                    std::pair(tree("1, 3", "2, 3", "-1"), "feature"),        // no such feature
                                    std::pair(tree("1, 3", "2, 3", "0", "4"), "target")}) {  // no such target
    const std::string found = refusal(text);
    EXPECT_NE(found.find(words), std::string::npos) << text << ": '" << found << "'";
  }
}

// As the splits of LightGBM over categories are written.
TEST(TreeRefusals, ABranchWithTwoParentsIsTaken) {
  EXPECT_EQ(refusal(tree("1, 3", "1, 2")), "");
  EXPECT_EQ(refusal(tree("1, 3", "2, 3")), "");
}

TEST(TreeRefusals, ATreeIsTaken) {
  const std::string text =
      "graph { input x: f32[4,2]; y = tree_ensemble_regressor(x) {n_targets=1, nodes_treeids=[0, 0, 0], "
      "nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_modes=[\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], "
      "nodes_values=[0.25, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, "
      "0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2.0]}; output y }";
  EXPECT_EQ(refusal(text), "");
}

}  // namespace
}  // namespace peri::ops
