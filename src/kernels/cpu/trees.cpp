// Kernel trees: tree ensembles over rows of f32 or f64. Rows go down a tree together, without branches: a leaf leads to
// itself, so that every row takes as many steps as the tree is deep. Fewer rows than a task holds go one by one, to
// their leaf.
#include "ops/reference/trees.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kRows = 16;  // that go down together, a task: their loads do not wait for each other. Not varied

template <class T>
struct Place {
  T split;
  uint32_t key;     // feature * 32 + condition * 2 + whether NaN goes the way of yes
  int32_t next[2];  // where the row goes if the condition fails, or holds
};

// A condition as the ways to compare for which it holds: less, equal, greater, none of them.
constexpr uint32_t kConditions[] = {3, 1, 6, 4, 2, 13};  // in the order of TreeMode
constexpr int64_t kMaxFeature = int64_t{1} << 27;

template <class T>
struct Forest {
  ops::Trees trees;
  std::vector<Place<T>> places;
  std::vector<int32_t> roots, depths, leaf_of;  // of each tree; of a place: the leaf, or -1
  std::vector<int32_t> first_vote;              // of each leaf, and the end
  std::vector<std::pair<int32_t, double>> votes;
  std::optional<ops::TreeMode> mode = {};  // of all nodes; none: they differ
  int64_t rows = 0, features = 0;
  int labels_at = -1, scores_at = -1;  // of the results
  bool wide = false;                   // the scores are f64
  std::vector<int64_t> labels;
};

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

Status check_node(const Problem& p) {
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
Result<Forest<T>> read(const Problem& p) {
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

template <ops::TreeMode kMode, class T>
int holds(T v, T split) {
  if constexpr (kMode == ops::TreeMode::kLeq) return v <= split;
  if constexpr (kMode == ops::TreeMode::kLess) return v < split;
  if constexpr (kMode == ops::TreeMode::kGeq) return v >= split;
  if constexpr (kMode == ops::TreeMode::kGreater) return v > split;
  if constexpr (kMode == ops::TreeMode::kEqual) return v == split;
  return v != split;
}

template <ops::TreeMode kMode, class T>
int32_t step_down(const Place<T>& p, const T* x) {
  const T v = x[p.key >> 5];
  if constexpr (kMode != ops::TreeMode::kMember)
    return p.next[holds<kMode>(v, p.split) | (static_cast<int>(p.key & 1) & static_cast<int>(v != v))];
  const uint32_t less = v < p.split, equal = v == p.split, greater = v > p.split,
                 way = less | equal << 1 | greater << 2 | (less + equal + greater == 0) << 3;
  return p.next[((p.key >> 1 & way) != 0) | (static_cast<int>(p.key & 1) & static_cast<int>(v != v))];
}

// The places that rows end at. kMember stands for nodes of several kinds.
template <ops::TreeMode kMode, class T>
void descend(const Forest<T>& f, size_t tree, const T* const* x, int64_t count, int32_t* at) {
  const Place<T>* const places = f.places.data();
  std::fill_n(at, count, f.roots[tree]);
  if (count == kRows) {
    for (int32_t step = 0; step < f.depths[tree]; ++step)
      for (int64_t r = 0; r < kRows; ++r) at[r] = step_down<kMode>(places[at[r]], x[r]);
    return;
  }
  for (int64_t r = 0; r < count; ++r)
    while (f.leaf_of[static_cast<size_t>(at[r])] < 0) at[r] = step_down<kMode>(places[at[r]], x[r]);
}
template <class T>
using Descend = void (*)(const Forest<T>&, size_t, const T* const*, int64_t, int32_t*);
template <class T>
Descend<T> descend_of(std::optional<ops::TreeMode> mode) {
  switch (mode.value_or(ops::TreeMode::kMember)) {
    case ops::TreeMode::kLeq: return descend<ops::TreeMode::kLeq, T>;
    case ops::TreeMode::kLess: return descend<ops::TreeMode::kLess, T>;
    case ops::TreeMode::kGeq: return descend<ops::TreeMode::kGeq, T>;
    case ops::TreeMode::kGreater: return descend<ops::TreeMode::kGreater, T>;
    case ops::TreeMode::kEqual: return descend<ops::TreeMode::kEqual, T>;
    case ops::TreeMode::kOther: return descend<ops::TreeMode::kOther, T>;
    case ops::TreeMode::kMember: break;
  }
  return descend<ops::TreeMode::kMember, T>;
}

// What the leaves say of the rows: [row][target].
template <class T>
void gather_votes(const Forest<T>& f, const int32_t* at, int64_t count, std::vector<double>* value,
                  std::vector<uint8_t>* any) {
  const auto targets = static_cast<size_t>(f.trees.targets);
  for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
    const auto leaf = static_cast<size_t>(f.leaf_of[static_cast<size_t>(at[r])]);
    for (auto v = f.first_vote[leaf]; v < f.first_vote[leaf + 1]; ++v) {
      const auto& [target, weight] = f.votes[static_cast<size_t>(v)];
      const size_t k = r * targets + static_cast<size_t>(target);
      double& to = (*value)[k];
      if (f.trees.gather == ops::Gather::kMin)
        to = (*any)[k] ? std::min(to, weight) : weight;
      else if (f.trees.gather == ops::Gather::kMax)
        to = (*any)[k] ? std::max(to, weight) : weight;
      else
        to += weight;
      (*any)[k] = 1;
    }
  }
}

template <class T>
void give(const Forest<T>& f, std::vector<double> scores, int64_t row, const Args& args) {
  const ops::Trees& t = f.trees;
  size_t best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  auto how = t.transform;
  if (!f.labels.empty() && t.one_of_two >= 0) {  // votes for one class of two
    const double s = scores[static_cast<size_t>(t.one_of_two)];
    best = s > (t.all_positive ? 0.5 : 0) ? 1 : 0;
    scores = {t.leaves_rest() ? 1 - s : -s, s};
    if (t.leaves_rest()) how = ops::Transform::kNone;
  }
  if (f.labels_at >= 0) static_cast<int64_t*>(args.out[static_cast<size_t>(f.labels_at)])[row] = f.labels[best];
  if (f.scores_at < 0) return;
  const auto width = static_cast<int64_t>(scores.size());
  if (how != ops::Transform::kNone) scores = ops::transformed(std::move(scores), how);
  std::byte* const to = static_cast<std::byte*>(args.out[static_cast<size_t>(f.scores_at)]);
  if (f.wide) {
    std::copy(scores.begin(), scores.end(), reinterpret_cast<double*>(to) + row * width);
    return;
  }
  float* const y = reinterpret_cast<float*>(to) + row * width;
  for (size_t k = 0; k < scores.size(); ++k) y[k] = static_cast<float>(scores[k]);
}

template <class T>
void run_task(const Forest<T>& f, Descend<T> down, const T* x, int64_t task, const Args& args) {
  const int64_t begin = task * kRows, count = std::min(kRows, f.rows - begin);
  const T* rows[kRows];
  for (int64_t r = 0; r < count; ++r) rows[r] = x + (begin + r) * f.features;
  const auto targets = static_cast<size_t>(f.trees.targets);
  std::vector<double> value(static_cast<size_t>(kRows) * targets);
  std::vector<uint8_t> any(value.size());
  int32_t at[kRows];
  for (size_t tree = 0; tree < f.roots.size(); ++tree) {
    down(f, tree, rows, count, at);
    gather_votes(f, at, count, &value, &any);
  }
  for (int64_t r = 0; r < count; ++r) {
    const auto from = value.begin() + r * f.trees.targets;
    std::vector<double> scores(from, from + f.trees.targets);
    for (size_t k = 0; k < targets; ++k) {
      if (f.trees.gather == ops::Gather::kMean) scores[k] /= static_cast<double>(f.trees.roots.size());
      if (k < f.trees.base.size()) scores[k] += f.trees.base[k];
    }
    give(f, std::move(scores), begin + r, args);
  }
}

bool wide_rows(const Problem& p) { return p.anchor().in(0)->type.dtype == DType::kF64; }

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(check_node(p));
  if (wide_rows(p))
    PERI_TRY(read<double>(p));
  else
    PERI_TRY(read<float>(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

template <class T>
Result<std::unique_ptr<Instance>> instance_of(const Problem& p, const InstantiateContext& c) {
  PERI_ASSIGN(Forest<T> made, read<T>(p));
  const auto forest = std::make_shared<const Forest<T>>(std::move(made));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return TaskInstance::make((forest->rows + kRows - 1) / kRows, 0,
                            [forest, x, down = descend_of<T>(forest->mode)](int64_t task, const Args& args) {
                              run_task(*forest, down, static_cast<const T*>(x.data(args)), task, args);
                            });
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_TRY(check_node(p));
  if (wide_rows(p)) return instance_of<double>(p, c);
  return instance_of<float>(p, c);
}
}  // namespace

extern const Entry trees_entry;
const Entry trees_entry{{
    .name = "trees",
    .version = 2,
    .provider = "peri",
    .takes = "tree ensembles over f32 or f64 without conditions by sets, with numbers for labels",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[50,2]; y, z = tree_ensemble_classifier(x) {classlabels_int64s=[3, 5], "
                "nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], "
                "nodes_modes=[\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, 0.0], "
                "nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0], "
                "class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 0.25], post_transform=\"SOFTMAX\"}; "
                "output y; output z }",
                "graph { input x: f32[3,2]; y = tree_ensemble_regressor(x) {aggregate_function=\"MAX\", "
                "nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], "
                "nodes_modes=[\"BRANCH_GT\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, 0.0], "
                "nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], "
                "target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 0.25]}; output y }",
                "graph { input x: f32[37,3]; y = tree_ensemble_regressor(x) {n_targets=2, base_values=[0.5, -1.0], "
                "aggregate_function=\"AVERAGE\", nodes_treeids=[0, 0, 0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0], "
                "nodes_featureids=[1, 0, 2, 0, 0, 0], nodes_modes=[\"BRANCH_LEQ\", \"LEAF\", \"BRANCH_LEQ\", \"LEAF\", "
                "\"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, -0.5, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 0, 3, 0, 0, "
                "0], nodes_falsenodeids=[2, 0, 4, 0, 0, 0], target_treeids=[0, 0, 0, 1], target_nodeids=[1, 3, 4, 0], "
                "target_ids=[0, 1, 0, 1], target_weights=[1.5, -2.0, 0.25, 0.125]}; output y }",
                // NaN goes another way at each node.
                "graph { input x: f64[37,3]; y = tree_ensemble_regressor(x) {nodes_treeids=[0, 0, 0, 0, 0], "
                "nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[1, 0, 2, 0, 0], nodes_modes=[\"BRANCH_LEQ\", "
                "\"LEAF\", \"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, -0.5, 0.0, 0.0], "
                "nodes_missing_value_tracks_true=[0, 0, 1, 0, 0], nodes_truenodeids=[1, 0, 3, 0, 0], "
                "nodes_falsenodeids=[2, 0, 4, 0, 0], target_treeids=[0, 0, 0], target_nodeids=[1, 3, 4], "
                "target_ids=[0, 0, 0], target_weights=[1.5, -2.0, 0.25]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
