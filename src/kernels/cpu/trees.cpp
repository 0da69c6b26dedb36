// Kernel trees: tree ensembles over rows of f32 or f64. Trees of a few leaves, or of uneven depth, are found by their
// conditions alone, a block of rows together. Down others rows go together without branches: a leaf leads to itself, so
// that every row takes as many steps as the tree is deep; fewer rows than that go one by one, each down several trees
// at once.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/machines/pieces.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
using cpu::machines::Forest;
using cpu::machines::kRowsTogether;
using cpu::machines::Pieces;
using cpu::machines::Place;
// That go down together, so that their loads do not wait for each other: rows through a tree, and trees that a row of
// fewer goes through. Not varied.
constexpr int64_t kRows = 16, kTrees = 8;

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

// The leaves that kRows rows end at in one tree, or one row in kTrees trees. kMember stands for nodes of several kinds.
template <ops::TreeMode kMode, class T>
void descend(const Forest<T>& f, const int32_t* trees, const T* const* x, bool rows, int32_t* leaves) {
  const Place<T>* const places = f.places.data();
  if (rows) {
    int32_t at[kRows];
    std::fill_n(at, kRows, f.roots[static_cast<size_t>(*trees)]);
    for (int32_t step = 0; step < f.depths[static_cast<size_t>(*trees)]; ++step)
      for (int64_t r = 0; r < kRows; ++r) at[r] = step_down<kMode>(places[at[r]], x[r]);
    for (int64_t r = 0; r < kRows; ++r) leaves[r] = f.leaf_of[static_cast<size_t>(at[r])];
    return;
  }
  int32_t at[kTrees], moved = 1;
  for (int64_t k = 0; k < kTrees; ++k) at[k] = f.roots[static_cast<size_t>(trees[k])];
  while (moved != 0) {
    moved = 0;
    for (int64_t k = 0; k < kTrees; ++k) {
      const int32_t next = step_down<kMode>(places[at[k]], *x);
      moved |= next ^ at[k];
      at[k] = next;
    }
  }
  for (int64_t k = 0; k < kTrees; ++k) leaves[k] = f.leaf_of[static_cast<size_t>(at[k])];
}
template <class T>
using Descend = void (*)(const Forest<T>&, const int32_t*, const T* const*, bool, int32_t*);
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
void gather_votes(const Forest<T>& f, const int32_t* leaves, int64_t count, std::vector<double>* value,
                  std::vector<uint8_t>* any) {
  const auto targets = static_cast<size_t>(f.trees.targets);
  for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
    const auto leaf = static_cast<size_t>(leaves[r]);
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

// The row's results; `scores` may be changed.
template <class T>
void give(const Forest<T>& f, std::vector<double>& scores, int64_t row, const Args& args) {
  const ops::Trees& t = f.trees;
  size_t best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  auto how = t.transform;
  if (!f.labels.empty() && t.one_of_two >= 0) {  // votes for one class of two
    const double s = scores[static_cast<size_t>(t.one_of_two)];
    best = s > (t.all_positive ? 0.5 : 0) ? 1 : 0;
    scores.assign({t.leaves_rest() ? 1 - s : -s, s});
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

// What a task works with.
template <class T>
struct Work {
  const Forest<T>& forest;
  const Pieces& pieces;
  Descend<T> down;
  bool sums;  // votes are added
};

// Leaves that rows end at in trees that are walked, by tree and row.
struct Walked {
  int32_t leaves[kTrees][kRowsTogether];
  int64_t count = 0, used = 0;  // trees
};

// The leaves of `tree`, and of as many behind it as go down together: all rows of a tree, and those that are left one
// by one through all of the trees. Called for each tree that is walked, in their order.
template <class T>
[[gnu::noinline]] const int32_t* walk_to(const Work<T>& w, size_t tree, const T* const* rows, int64_t row_count,
                                         Walked* to) {
  if (to->used < to->count) return to->leaves[to->used++];
  int32_t trees[kTrees], found[kTrees];
  to->count = 0;
  for (size_t next = tree; next < w.forest.roots.size() && to->count < kTrees; ++next)
    if (!w.pieces.any() || w.pieces.trees[next].count == 0) trees[to->count++] = static_cast<int32_t>(next);
  for (int64_t k = to->count; k < kTrees; ++k) trees[k] = trees[0];
  const int64_t together = row_count / kRows * kRows;
  for (int64_t k = 0; k < to->count; ++k)
    for (int64_t r = 0; r < together; r += kRows) w.down(w.forest, trees + k, rows + r, true, to->leaves[k] + r);
  for (int64_t r = together; r < row_count; ++r) {
    w.down(w.forest, trees, rows + r, false, found);
    for (int64_t k = 0; k < to->count; ++k) to->leaves[k][r] = found[k];
  }
  to->used = 1;
  return to->leaves[0];
}

// The votes of tree `k` of its pieces.
template <class T>
void add_pieces(const Work<T>& w, size_t k, const float* columns, int64_t count, std::vector<double>* value,
                std::vector<uint8_t>* any) {
  const Pieces::Tree& tree = w.pieces.trees[k];
  alignas(64) int32_t leaf[kRowsTogether];
  w.pieces.find(w.pieces.condition, {w.pieces.pieces.data() + tree.first_piece, tree.count, columns, count, leaf});
  if (w.sums && tree.target >= 0) {
    const double* const votes = w.pieces.votes.data() + tree.first_leaf;
    double* const to = value->data() + tree.target;
    for (int64_t r = 0; r < count; ++r) to[r * w.forest.trees.targets] += votes[leaf[r]];
    return;
  }
  const int32_t* const leaves = w.pieces.leaves.data() + tree.first_leaf;
  for (int64_t r = 0; r < count; ++r) leaf[r] = leaves[leaf[r]];
  gather_votes(w.forest, leaf, count, value, any);
}

// Rows from `begin` on.
template <class T>
void run_rows(const Work<T>& w, const T* x, int64_t begin, int64_t count, const Args& args) {
  const Forest<T>& f = w.forest;
  const T* rows[kRowsTogether];
  for (int64_t r = 0; r < count; ++r) rows[r] = x + (begin + r) * f.features;
  const auto targets = static_cast<size_t>(f.trees.targets);
  std::vector<double> value(static_cast<size_t>(count) * targets), scores;
  std::vector<uint8_t> any(value.size());
  float* const columns = reinterpret_cast<float*>(args.scratch);
  if constexpr (std::is_same_v<T, float>)
    if (w.pieces.any()) fill_columns(w.pieces, rows, count, columns);
  Walked walked;
  for (size_t tree = 0; tree < f.roots.size(); ++tree) {
    if (w.pieces.any() && w.pieces.trees[tree].count > 0)
      add_pieces(w, tree, columns, count, &value, &any);
    else
      gather_votes(f, walk_to(w, tree, rows, count, &walked), count, &value, &any);
  }
  for (int64_t r = 0; r < count; ++r) {
    const auto from = value.begin() + r * f.trees.targets;
    scores.assign(from, from + f.trees.targets);
    for (size_t k = 0; k < targets; ++k) {
      if (f.trees.gather == ops::Gather::kMean) scores[k] /= static_cast<double>(f.trees.roots.size());
      if (k < f.trees.base.size()) scores[k] += f.trees.base[k];
    }
    give(f, scores, begin + r, args);
  }
}

bool wide_rows(const Problem& p) { return p.anchor().in(0)->type.dtype == DType::kF64; }

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cpu::machines::check_trees(p));
  if (wide_rows(p))
    PERI_TRY(cpu::machines::read_forest<double>(p));
  else
    PERI_TRY(cpu::machines::read_forest<float>(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Pieces pieces_for(const Forest<float>& f, const InstantiateContext& c) {
  const auto isa = cpu::best_isa(*c.target);
  return isa.ok() ? cpu::machines::pieces_of(f, *isa) : Pieces();
}
Pieces pieces_for(const Forest<double>&, const InstantiateContext&) { return {}; }

template <class T>
Result<std::unique_ptr<Instance>> instance_of(const Problem& p, const InstantiateContext& c) {
  PERI_ASSIGN(Forest<T> made, cpu::machines::read_forest<T>(p));
  const auto forest = std::make_shared<const Forest<T>>(std::move(made));
  const auto pieces = std::make_shared<const Pieces>(pieces_for(*forest, c));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const bool sums = forest->trees.gather == ops::Gather::kSum || forest->trees.gather == ops::Gather::kMean;
  const int64_t each = pieces->any() ? kRowsTogether : kRows;
  return TaskInstance::make(
      (forest->rows + each - 1) / each, pieces->column_bytes(),
      [forest, pieces, x, sums, each, down = descend_of<T>(forest->mode)](int64_t task, const Args& args) {
        run_rows<T>({*forest, *pieces, down, sums}, static_cast<const T*>(x.data(args)), task * each,
                    std::min(each, forest->rows - task * each), args);
      });
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_TRY(cpu::machines::check_trees(p));
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
