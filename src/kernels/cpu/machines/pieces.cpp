// Leaves are numbered with those behind a condition that holds first: of the leaves that no failing condition takes
// away, the first is the one that the row ends at (Lucchese et al., QuickScorer, SIGIR 2015,
// doi:10.1145/2766462.2767733).
#include "kernels/cpu/machines/pieces.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace peri::kernels::cpu::machines {
namespace {
// What a block of rows takes, in steps down of one row: a condition, and each vector that it is compared with. A row of
// few goes down several trees at once until it is at the leaf of each. Fitted roughly.
constexpr double kCutSteps = 0.5, kVectorSteps = 0.25, kFewRowsSteps = 2.5;
constexpr int64_t kWalkRows = 16;         // that go down together, as far as the tree is deep
constexpr int64_t kMaxPieceNodes = 4096;  // of a tree: none so large is faster so

std::optional<Condition> condition_of(std::optional<ops::TreeMode> mode) {
  if (!mode) return std::nullopt;
  switch (*mode) {
    case ops::TreeMode::kLeq: return Condition::kLeq;
    case ops::TreeMode::kLess: return Condition::kLess;
    case ops::TreeMode::kGeq: return Condition::kGeq;
    case ops::TreeMode::kGreater: return Condition::kGreater;
    case ops::TreeMode::kEqual: return Condition::kEqual;
    case ops::TreeMode::kOther: return Condition::kOther;
    case ops::TreeMode::kMember: break;
  }
  return std::nullopt;
}

// A condition and the leaves that it takes away where it fails.
struct Condemned {
  const Place<float>* place;
  int32_t begin, end;
};

// In the order of leaves; a place that several ways lead to is met by each. False: there are too many.
bool list(const Forest<float>& f, int32_t root, std::vector<Condemned>* cuts, std::vector<int32_t>* leaves) {
  struct Open {
    int32_t place;
    int32_t cut;  // not -1: its leaves that hold end here
  };
  std::vector<Open> open = {{root, -1}};
  while (!open.empty()) {
    const Open o = open.back();
    open.pop_back();
    if (o.cut >= 0) {
      (*cuts)[static_cast<size_t>(o.cut)].end = static_cast<int32_t>(leaves->size());
      continue;
    }
    if (const int32_t leaf = f.leaf_of[static_cast<size_t>(o.place)]; leaf >= 0) {
      leaves->push_back(leaf);
      continue;
    }
    if (static_cast<int64_t>(cuts->size()) == kMaxPieceNodes) return false;
    const Place<float>& p = f.places[static_cast<size_t>(o.place)];
    open.push_back({p.next[0], -1});
    open.push_back({0, static_cast<int32_t>(cuts->size())});
    open.push_back({p.next[1], -1});
    cuts->push_back({&p, static_cast<int32_t>(leaves->size()), 0});
  }
  return true;
}

bool is_faster(size_t cuts, int32_t depth, int64_t rows, int64_t lanes) {
  const int64_t block = std::min(rows, kRowsTogether), vectors = (block + lanes - 1) / lanes;
  const double steps = block < kWalkRows ? kFewRowsSteps * (1 + std::log2(static_cast<double>(cuts + 1))) : depth;
  const double walk = static_cast<double>(block) * steps;
  return static_cast<double>(cuts) * (kCutSteps + kVectorSteps * static_cast<double>(vectors)) <= walk;
}

// The leaves of `piece` that stay where those from `begin` to `end` go; all: none of its own goes.
int32_t kept(const Condemned& c, int64_t piece) {
  const int64_t from = std::max<int64_t>(0, c.begin - piece * kPieceLeaves),
                to = std::min<int64_t>(kPieceLeaves, c.end - piece * kPieceLeaves);
  uint64_t gone = 0;
  for (int64_t k = from; k < to; ++k) gone |= uint64_t{1} << k;
  return static_cast<int32_t>(~static_cast<uint32_t>(gone));
}

class Builder {
 public:
  Builder(const Forest<float>& forest, Pieces* to) : forest_(forest), to_(*to) {}

  void add(const std::vector<Condemned>& cuts, const std::vector<int32_t>& leaves) {
    Pieces::Tree tree{static_cast<int32_t>(starts_.size()), 0, static_cast<int32_t>(to_.leaves.size()), -1};
    tree.count = static_cast<int32_t>((std::ssize(leaves) + kPieceLeaves - 1) / kPieceLeaves);
    for (int32_t piece = 0; piece < tree.count; ++piece) add_piece(cuts, piece);
    to_.leaves.insert(to_.leaves.end(), leaves.begin(), leaves.end());
    for (const int32_t leaf : leaves) {
      const auto first = forest_.first_vote[static_cast<size_t>(leaf)],
                 end = forest_.first_vote[static_cast<size_t>(leaf) + 1];
      const auto [target, vote] = end - first == 1 ? forest_.votes[static_cast<size_t>(first)] : std::pair(-1, 0.0);
      to_.votes.push_back(vote);
      tree.target = leaf == leaves[0] || tree.target == target ? target : -1;
      if (tree.target < 0) break;
    }
    to_.votes.resize(to_.leaves.size());
    to_.trees.push_back(tree);
  }
  void finish() {
    for (const auto& [first, missing, count] : starts_) to_.pieces.push_back({to_.cuts.data() + first, missing, count});
  }

 private:
  struct Start {
    size_t first;
    int32_t missing, count;
  };

  void add_piece(const std::vector<Condemned>& cuts, int32_t piece) {
    Start start{to_.cuts.size(), 0, 0};
    for (const bool missing : {true, false}) {
      for (const Condemned& c : cuts)
        if (const int32_t keep = kept(c, piece); keep != -1 && c.place->missing() == missing)
          to_.cuts.push_back({c.place->split, column_of(c.place->feature()), keep});
      if (missing) start.missing = static_cast<int32_t>(to_.cuts.size() - start.first);
    }
    start.count = static_cast<int32_t>(to_.cuts.size() - start.first);
    starts_.push_back(start);
  }
  int32_t column_of(int64_t feature) {
    const auto [at, is_new] = columns_.try_emplace(feature, static_cast<int32_t>(columns_.size() * kRowsTogether));
    if (is_new) to_.features.push_back(feature);
    return at->second;
  }

  const Forest<float>& forest_;
  Pieces& to_;
  std::vector<Start> starts_;
  std::map<int64_t, int32_t> columns_;
};

}  // namespace

Pieces pieces_of(const Forest<float>& f, Isa isa) {
  Pieces out;
  const std::optional<Condition> condition = condition_of(f.mode);
  if (!condition) return out;
  out.condition = *condition;
  out.find = isa == Isa::kAvx512 ? avx512::find_leaves : avx2::find_leaves;
  Builder builder(f, &out);
  for (size_t k = 0; k < f.roots.size(); ++k) {
    std::vector<Condemned> cuts;
    std::vector<int32_t> leaves;
    if (list(f, f.roots[k], &cuts, &leaves) &&
        is_faster(cuts.size(), f.depths[k], f.rows, isa == Isa::kAvx512 ? 16 : 8)) {
      builder.add(cuts, leaves);
    } else {
      out.trees.emplace_back();
    }
  }
  builder.finish();
  return out;
}

void fill_columns(const Pieces& pieces, const float* const* x, int64_t rows, float* columns) {
  for (const int64_t feature : pieces.features) {
    for (int64_t r = 0; r < rows; ++r) columns[r] = x[r][feature];
    std::fill(columns + rows, columns + kRowsTogether, 0.0F);
    columns += kRowsTogether;
  }
}

}  // namespace peri::kernels::cpu::machines
