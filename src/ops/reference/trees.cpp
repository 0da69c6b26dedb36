// Both forms of attributes: nodes and leaves in separate lists, and nodes by tree and number with leaves among them.
#include "ops/reference/trees.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace peri::ops {
namespace {
std::vector<double> numbers(const ir::Node& node, const std::string& key) {
  if (const Tensor* t = node.tensor(key + "_as_tensor")) {
    std::vector<double> out;
    for (int64_t k = 0; k < t->numel(); ++k) out.push_back(t->f64(k));
    return out;
  }
  return node.floats(key);
}
std::vector<double> elements(const Tensor* t) {
  std::vector<double> out;
  for (int64_t k = 0; t && k < t->numel(); ++k) out.push_back(t->f64(k));
  return out;
}

// A node may be reached by several ways, as sets of categories are written, but not from itself.
Status check_trees(Trees* trees) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(trees->nodes.size(), kNew);
  for (const int64_t root : trees->roots) {
    std::vector<int64_t> open = {root};
    while (!open.empty()) {
      const int64_t at = open.back();
      if (at < 0) {
        if (-at - 1 >= static_cast<int64_t>(trees->leaves.size()))
          return invalid("a tree has no leaf %lld", static_cast<long long>(-at - 1));
        open.pop_back();
        continue;
      }
      if (at >= static_cast<int64_t>(trees->nodes.size()))
        return invalid("a tree has no node %lld", static_cast<long long>(at));
      uint8_t& stage = state[static_cast<size_t>(at)];
      if (stage != kNew) {  // all that is reached from it is done, or it was done before
        stage = kDone;
        open.pop_back();
        continue;
      }
      stage = kOpen;
      const TreeNode& n = trees->nodes[static_cast<size_t>(at)];
      if (n.feature < 0) return invalid("a tree asks for feature %lld", static_cast<long long>(n.feature));
      trees->last_feature = std::max(trees->last_feature, n.feature);
      for (const int64_t next : {n.yes, n.no}) {
        if (next >= 0 && next < std::ssize(state) && state[static_cast<size_t>(next)] == kOpen)
          return invalid("a tree comes back to node %lld", static_cast<long long>(next))
              .expecting("a tree without circles");
        open.push_back(next);
      }
    }
  }
  for (const auto& leaf : trees->leaves)
    for (const auto& [target, weight] : leaf)
      if (target < 0 || target >= trees->targets)
        return invalid("a leaf votes for target %lld", static_cast<long long>(target))
            .expecting(format("0 to %lld", static_cast<long long>(trees->targets - 1)));
  if (trees->roots.empty()) return invalid("an ensemble has no tree");
  return Ok{};
}

Result<Trees> newest(const ir::Node& node) {
  Trees out;
  const std::vector<double> modes = elements(node.tensor("nodes_modes")),
                            splits = elements(node.tensor("nodes_splits")),
                            weights = elements(node.tensor("leaf_weights")),
                            members = elements(node.tensor("membership_values"));
  const std::vector<int64_t> features = node.ints("nodes_featureids"), yes = node.ints("nodes_truenodeids"),
                             no = node.ints("nodes_falsenodeids"), yes_leaf = node.ints("nodes_trueleafs"),
                             no_leaf = node.ints("nodes_falseleafs"), targets = node.ints("leaf_targetids"),
                             missing = node.ints("nodes_missing_value_tracks_true");
  const size_t n = modes.size();
  for (const size_t size : {splits.size(), features.size(), yes.size(), no.size(), yes_leaf.size(), no_leaf.size()})
    if (size != n) return invalid("the attributes of a tree ensemble have different lengths");
  if (weights.size() != targets.size() || (!missing.empty() && missing.size() != n))
    return invalid("the attributes of a tree ensemble have different lengths");
  size_t member = 0;
  for (size_t k = 0; k < n; ++k) {
    TreeNode t;
    if (!(modes[k] >= 0 && modes[k] <= 6)) return invalid("a node of a tree has an unknown mode");
    t.mode = static_cast<TreeMode>(static_cast<int>(modes[k]));
    t.missing = !missing.empty() && missing[k];
    t.feature = features[k];
    t.split = splits[k];
    for (; t.mode == TreeMode::kMember && member < members.size(); ++member) {
      if (std::isnan(members[member])) break;
      t.members.insert(members[member]);
    }
    if (t.mode == TreeMode::kMember) ++member;
    t.yes = yes_leaf[k] ? -1 - yes[k] : yes[k];
    t.no = no_leaf[k] ? -1 - no[k] : no[k];
    if ((yes_leaf[k] || no_leaf[k] ? std::min(yes[k], no[k]) : 0) < 0)
      return invalid("a node of a tree points below zero");
    out.nodes.push_back(std::move(t));
  }
  for (size_t k = 0; k < weights.size(); ++k) out.leaves.push_back({{targets[k], weights[k]}});
  out.roots = node.ints("tree_roots");
  out.targets = node.i("n_targets", 1);
  const int64_t gather = node.i("aggregate_function", 1), transform = node.i("post_transform", 0);
  if (gather < 0 || gather > 3 || transform < 0 || transform > 4)
    return invalid("aggregate_function or post_transform is out of range");
  out.gather = static_cast<Gather>(gather);
  out.transform = static_cast<Transform>(transform);
  return out;
}

template <class E, size_t N>
Result<E> named(const ir::Node& node, std::string_view key, std::string_view fallback,
                const std::string_view (&names)[N]) {
  const std::string name = node.s(key, fallback);
  const auto* it = std::find(std::begin(names), std::end(names), name);
  if (it == std::end(names)) return invalid("%s is unknown", std::string(key).c_str()).but_found(name);
  return static_cast<E>(it - std::begin(names));
}
constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
constexpr std::string_view kGathers[] = {"AVERAGE", "SUM", "MIN", "MAX"};

using Key = std::pair<int64_t, int64_t>;  // tree, node

// Votes go to the leaf of their tree and node. Of a regressor with one target each leaf has its first one, as for ONNX
// Runtime: skl2onnx repeats the number of a leaf for each class.
Status read_votes(const ir::Node& node, const std::string& side, const std::map<Key, int64_t>& leaf, Trees* out) {
  const std::vector<int64_t> tree = node.ints(side + "_treeids"), at = node.ints(side + "_nodeids"),
                             id = node.ints(side + "_ids");
  const std::vector<double> weight = numbers(node, side + "_weights");
  if (tree.size() != at.size() || tree.size() != id.size() || tree.size() != weight.size())
    return invalid("the votes of a tree ensemble have different lengths");
  std::set<int64_t> voted;
  for (size_t k = 0; k < tree.size(); ++k) {
    const auto it = leaf.find({tree[k], at[k]});
    if (it == leaf.end()) continue;  // of a node that is no leaf
    auto& votes = out->leaves[static_cast<size_t>(it->second)];
    if (side == "target" && out->targets == 1 && !votes.empty()) continue;
    votes.emplace_back(id[k], weight[k]);
    out->all_positive = out->all_positive && weight[k] >= 0;
    voted.insert(id[k]);
  }
  if (side == "class" && out->targets == 2 && voted.size() == 1) out->one_of_two = static_cast<int>(*voted.begin());
  return Ok{};
}

Result<Trees> by_number(const ir::Node& node, const std::string& side) {
  Trees out;
  const std::vector<int64_t> tree = node.ints("nodes_treeids"), number = node.ints("nodes_nodeids"),
                             feature = node.ints("nodes_featureids"), yes = node.ints("nodes_truenodeids"),
                             no = node.ints("nodes_falsenodeids"),
                             missing = node.ints("nodes_missing_value_tracks_true");
  const std::vector<double> split = numbers(node, "nodes_values");
  const auto modes = node.attrs.find("nodes_modes");
  if (modes == node.attrs.end()) return invalid("a tree ensemble has no nodes");
  const auto& mode = std::get<std::vector<std::string>>(modes->second);
  for (const size_t size : {number.size(), feature.size(), yes.size(), no.size(), split.size(), mode.size()})
    if (size != tree.size()) return invalid("the attributes of a tree ensemble have different lengths");
  std::map<Key, int64_t> place, leaf;
  std::set<int64_t> begun;
  for (size_t k = 0; k < tree.size(); ++k) {
    const Key key{tree[k], number[k]};
    const bool is_leaf = mode[k] == "LEAF";
    const auto next = static_cast<int64_t>(is_leaf ? leaf.size() : place.size());
    if (leaf.contains(key) || place.contains(key)) return invalid("a node of a tree stands twice");
    (is_leaf ? leaf : place).emplace(key, next);
    if (begun.insert(tree[k]).second) out.roots.push_back(is_leaf ? -1 - next : next);
  }
  out.leaves.resize(leaf.size());
  const auto target = [&](size_t k, int64_t to) -> Result<int64_t> {
    const Key key{tree[k], to};
    if (const auto it = leaf.find(key); it != leaf.end()) return -1 - it->second;
    if (const auto it = place.find(key); it != place.end()) return it->second;
    return invalid("a tree has no node %lld", static_cast<long long>(to));
  };
  for (size_t k = 0; k < tree.size(); ++k) {
    if (mode[k] == "LEAF") continue;
    const auto* it = std::find(std::begin(kModes), std::end(kModes), mode[k]);
    if (it == std::end(kModes)) return invalid("a node of a tree has an unknown mode").but_found(mode[k]);
    TreeNode t;
    t.mode = static_cast<TreeMode>(it - std::begin(kModes));
    t.missing = k < missing.size() && missing[k];
    t.feature = feature[k];
    t.split = split[k];
    PERI_ASSIGN(t.yes, target(k, yes[k]));
    PERI_ASSIGN(t.no, target(k, no[k]));
    out.nodes.push_back(std::move(t));
  }
  PERI_ASSIGN(out.transform, named<Transform>(node, "post_transform", "NONE", kTransforms));
  PERI_ASSIGN(out.gather, named<Gather>(node, "aggregate_function", "SUM", kGathers));
  out.base = numbers(node, "base_values");
  out.targets = node.i("n_targets", 1);
  if (side == "class") {
    const auto names = node.attrs.find("classlabels_strings");
    out.targets =
        static_cast<int64_t>(names == node.attrs.end() ? node.ints("classlabels_int64s").size()
                                                       : std::get<std::vector<std::string>>(names->second).size());
    if (out.targets < 1) return invalid("a classifier has no labels");
  }
  PERI_TRY(read_votes(node, side, leaf, &out));
  return out;
}
}  // namespace

bool Trees::takes(const TreeNode& n, double v) const {
  if (std::isnan(v)) return n.missing || n.mode == TreeMode::kOther;
  switch (n.mode) {
    case TreeMode::kLeq: return v <= n.split;
    case TreeMode::kLess: return v < n.split;
    case TreeMode::kGeq: return v >= n.split;
    case TreeMode::kGreater: return v > n.split;
    case TreeMode::kEqual: return v == n.split;
    case TreeMode::kOther: return v != n.split;
    case TreeMode::kMember: return n.members.contains(v);
  }
  return false;
}

Result<Trees> read_trees(const ir::Node& node) {
  PERI_ASSIGN(Trees out, node.op == "tree_ensemble"
                             ? newest(node)
                             : by_number(node, node.op == "tree_ensemble_classifier" ? "class" : "target"));
  if (out.targets < 1 || out.targets > 1 << 24) return invalid("n_targets is out of range");
  PERI_TRY(check_trees(&out));
  return out;
}

std::vector<double> transformed(std::vector<double> s, Transform how) {
  if (how == Transform::kLogistic)
    for (double& v : s) v = 1 / (1 + std::exp(-v));
  if (how == Transform::kSoftmax || how == Transform::kSoftmaxZero) {
    const double most = *std::max_element(s.begin(), s.end());
    double sum = 0;
    for (double& v : s) {
      v = how == Transform::kSoftmaxZero && std::fabs(v) <= 1e-7 ? 0 : std::exp(v - most);
      sum += v;
    }
    for (double& v : s) v = sum > 0 ? v / sum : v;
  }
  if (how == Transform::kProbit)
    for (double& v : s) {  // sqrt(2) erfinv(2 v - 1) by Winitzki's form, as ONNX Runtime has it
      const double x = 2 * v - 1, sign = x < 0 ? -1 : 1, log = std::log((1 - x) * (1 + x));
      const double a = 2 / (3.14159 * 0.147) + 0.5 * log;
      v = 1.41421356 * sign * std::sqrt(-a + std::sqrt(a * a - log / 0.147));
    }
  return s;
}

}  // namespace peri::ops
