// Reads tree ensembles.
#include "kernels/cpu/machines/forest.hpp"

#include <algorithm>
#include <unordered_map>

#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cpu::machines {
namespace {
// A condition as the ways to compare for which it holds: less, equal, greater, none of them.
constexpr uint32_t kConditions[] = {3, 1, 6, 4, 2, 13};  // in the order of TreeMode
constexpr int64_t kMaxFeature = int64_t{1} << 27;

template <class T>
int32_t place_leaf(Forest<T>* f, int64_t leaf) {
  const auto at = static_cast<int32_t>(f->places.size());
  f->places.push_back({0, 0, {at, at}});
  f->leaf_of.push_back(static_cast<int32_t>(leaf));
  return at;
}

// A node, once however many ways lead to it.
template <class T>
Result<int32_t> place_node(Forest<T>* f, const ops::TreeNode& n) {
  if (f->places.size() > size_t{1} << 28) return refused("too many nodes");
  if (n.mode == ops::TreeMode::kMember) return refused("conditions by sets");
  const auto split = static_cast<T>(n.split);
  if (static_cast<double>(split) != n.split) return refused("a threshold that is not a float32");
  if (n.feature >= kMaxFeature) return refused("too many features");
  const uint32_t condition = kConditions[static_cast<size_t>(n.mode)];
  const auto at = static_cast<int32_t>(f->places.size());
  f->places.push_back({split, static_cast<uint32_t>(n.feature) * 32 + condition * 2 + (n.missing ? 1 : 0), {0, 0}});
  f->leaf_of.push_back(-1);
  return at;
}

// The steps of the longest way down from `root`; `first` is the tree's first place. Trees were checked to have no
// circle.
template <class T>
int32_t depth_of(const Forest<T>& f, int32_t root, int32_t first) {
  constexpr int32_t kUnknown = -1;
  std::vector<int32_t> depth(f.places.size() - static_cast<size_t>(first), kUnknown), open = {root};
  const auto known = [&](int32_t at) -> int32_t& { return depth[static_cast<size_t>(at - first)]; };
  while (!open.empty()) {
    const int32_t at = open.back();
    if (f.leaf_of[static_cast<size_t>(at)] >= 0) {
      known(at) = 0;
      open.pop_back();
      continue;
    }
    const auto& [no, yes] = f.places[static_cast<size_t>(at)].next;
    if (known(no) != kUnknown && known(yes) != kUnknown) {
      known(at) = 1 + std::max(known(no), known(yes));
      open.pop_back();
      continue;
    }
    for (const int32_t next : {no, yes})
      if (known(next) == kUnknown) open.push_back(next);
  }
  return known(root);
}

// Nodes of a tree in the order in which they are met, and how deep it is.
template <class T>
Status place_tree(Forest<T>* f, int64_t root) {
  struct Open {
    int64_t node;
    int32_t parent, side;
  };
  const auto first = static_cast<int32_t>(f->places.size());
  std::vector<Open> open = {{root, -1, 0}};
  std::unordered_map<int64_t, int32_t> placed;
  f->roots.push_back(first);
  for (size_t k = 0; k < open.size(); ++k) {
    const Open o = open[k];
    const auto [known, is_new] = placed.try_emplace(o.node, 0);
    if (is_new && o.node < 0) {
      known->second = place_leaf(f, -o.node - 1);
    } else if (is_new) {
      const ops::TreeNode& n = f->trees.nodes[static_cast<size_t>(o.node)];
      PERI_ASSIGN(known->second, place_node(f, n));
      open.push_back({n.no, known->second, 0});
      open.push_back({n.yes, known->second, 1});
    }
    if (o.parent >= 0) f->places[static_cast<size_t>(o.parent)].next[o.side] = known->second;
  }
  f->depths.push_back(depth_of(*f, first, first));
  return Ok{};
}

}  // namespace

Status check_trees(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "tree_ensemble" && n.op != "tree_ensemble_regressor" && n.op != "tree_ensemble_classifier")
    return refused("not a tree ensemble");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const DType x = n.in(0)->type.dtype;
  if (x != DType::kF32 && x != DType::kF64) return refused("takes f32 and f64 only");
  if (n.op == "tree_ensemble_classifier" && n.has("classlabels_strings")) return refused("labels that are texts");
  return Ok{};
}

template <class T>
Result<Forest<T>> read_forest(const Problem& p) {
  const ir::Node& n = p.anchor();
  Forest<T> f;
  PERI_ASSIGN(f.trees, ops::read_trees(n));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  f.rows = d[0];
  f.features = d[1];
  if (f.rows == 0 || f.features <= f.trees.last_feature) return refused("no rows, or too few features");
  const auto& nodes = f.trees.nodes;
  if (std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.mode == nodes[0].mode; }))
    f.mode = nodes.empty() ? ops::TreeMode::kLeq : nodes[0].mode;
  for (const int64_t root : f.trees.roots) PERI_TRY(place_tree(&f, root));
  for (const auto& leaf : f.trees.leaves) {
    f.first_vote.push_back(static_cast<int32_t>(f.votes.size()));
    for (const auto& [target, weight] : leaf) f.votes.emplace_back(static_cast<int32_t>(target), weight);
  }
  f.first_vote.push_back(static_cast<int32_t>(f.votes.size()));
  const bool classes = n.op == "tree_ensemble_classifier";
  for (size_t k = 0; k < p.graph->outputs.size(); ++k)
    for (size_t o = 0; o < n.outputs.size(); ++o)
      if (p.graph->outputs[k] == n.outputs[o]) (classes && o == 0 ? f.labels_at : f.scores_at) = static_cast<int>(k);
  f.wide = n.outputs[classes ? 1 : 0] && n.outputs[classes ? 1 : 0]->type.dtype == DType::kF64;
  if (classes) f.labels = n.ints("classlabels_int64s");
  return f;
}

template Result<Forest<float>> read_forest(const Problem& p);
template Result<Forest<double>> read_forest(const Problem& p);

}  // namespace peri::kernels::cpu::machines
