// Tree ensembles in the form in which they are evaluated: nodes refer to nodes or, with negative numbers, to leaves;
// validated once, so that evaluation terminates and stays within bounds.
#pragma once

#include <set>
#include <vector>

#include "ops/entry.hpp"

namespace peri::ops {

enum class TreeMode { kLeq, kLess, kGeq, kGreater, kEqual, kOther, kMember };
enum class Gather { kMean, kSum, kMin, kMax };
enum class Transform { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

struct TreeNode {
  TreeMode mode = TreeMode::kLeq;
  bool missing = false;  // NaN takes the `yes` branch
  int64_t feature = 0;
  double split = 0;
  std::set<double> members = {};
  int64_t yes = -1, no = -1;  // a node, or -1 - leaf
};
struct Trees {
  std::vector<TreeNode> nodes;
  std::vector<std::vector<std::pair<int64_t, double>>> leaves;  // votes: target, weight
  std::vector<int64_t> roots;
  std::vector<double> base;
  int64_t targets = 1, last_feature = -1;
  Gather gather = Gather::kSum;
  Transform transform = Transform::kNone;
  int one_of_two = -1;  // with two classes, the one that all votes are for
  bool all_positive = true;
  // Whether the other class of two has what the votes for one leave of 1; else it has their negative.
  bool leaves_rest() const { return all_positive && transform != Transform::kLogistic; }

  bool takes(const TreeNode& n, double v) const;
};

// Reads the attributes of a node of any of the three ops.
Result<Trees> read_trees(const ir::Node& node);
std::vector<double> transformed(std::vector<double> scores, Transform how);

}  // namespace peri::ops
