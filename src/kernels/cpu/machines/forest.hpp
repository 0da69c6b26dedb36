// A tree ensemble as kernels go through it: places, each a condition or a leaf, and what the leaves vote for.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/entry.hpp"
#include "ops/reference/trees.hpp"

namespace peri::kernels::cpu::machines {

template <class T>
struct Place {
  T split;
  uint32_t key;     // feature * 32 + condition * 2 + whether NaN goes the way of yes
  int32_t next[2];  // where the row goes if the condition fails, or holds
  int64_t feature() const { return key >> 5; }
  bool missing() const { return (key & 1) != 0; }
};

template <class T>
struct Forest {
  ops::Trees trees;
  std::vector<Place<T>> places;                 // a leaf leads to itself
  std::vector<int32_t> roots, depths, leaf_of;  // of each tree; of a place: the leaf, or -1
  std::vector<int32_t> first_vote;              // of each leaf, and the end
  std::vector<std::pair<int32_t, double>> votes;
  std::optional<ops::TreeMode> mode = {};  // of all nodes; none: they differ
  int64_t rows = 0, features = 0;
  int labels_at = -1, scores_at = -1;  // of the results
  bool wide = false;                   // the scores are f64
  std::vector<int64_t> labels;
};

// Refuses another op, types and sizes that no kernel takes, conditions by sets.
Status check_trees(const Problem& problem);
// REQUIRES what check_trees() checks, and T the type of its rows.
template <class T>
Result<Forest<T>> read_forest(const Problem& problem);

}  // namespace peri::kernels::cpu::machines
