// What passes share: reading constants and shapes of a pattern, and a Rewriter that inserts typed nodes, replaces
// values and detaches nodes without uses, so that use counts are exact while a pass runs.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/entry.hpp"

namespace peri::passes {

// The value of a floating or integer constant with one element. None: not such a constant.
std::optional<double> scalar_of(const ir::Value* v);
// True if `v` is a constant floating scalar within `relative` of `want`.
bool is_scalar(const ir::Value* v, double want, double relative = 1e-6);
// Rank and dims equal, both known.
bool same_shape(const ir::Value* a, const ir::Value* b);
// Each axis of `v` is 1 or that of `wide`: whatever the sizes of a run are, `v` makes no broadcast larger than `wide`.
bool stays_within(const ir::Value* v, const ir::Value* wide);
// Integers of a list or scalar that is a constant or has a known content, all numbers.
std::optional<std::vector<int64_t>> numbers_of(const ir::Value* v);
// The producer of `v` if it is an `op`; null otherwise.
ir::Node* made_by(const ir::Value* v, std::string_view op);
// The permutation of a transpose, with its default written out.
std::vector<int64_t> perm_of(const ir::Node& transpose);
bool is_identity(const std::vector<int64_t>& perm);
// A negative axis counts from the end of `rank`.
inline int64_t wrap_axis(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

// A node with two inputs, one of which is a scalar constant: the scalar and the other input, whose shape the result
// has. For div and sub only the right input may be the constant.
struct WithScalar {
  ir::Value* x;
  double scalar;
};
std::optional<WithScalar> with_scalar(const ir::Node& node);

class Rewriter {
 public:
  Rewriter(ir::Graph& graph, std::string_view pass) : graph_(graph), pass_(pass) {}
  ir::Graph& graph() { return graph_; }
  int64_t count() const { return count_; }

  // A copy of the current nodes; some may be detached while the caller iterates: skip those that are not live.
  std::vector<ir::Node*> nodes() const { return graph_.nodes; }
  bool live(const ir::Node* node) const;
  // Exactly one use, as an input of a node.
  bool used_once(const ir::Value* v) const { return v->users.size() == 1 && !graph_.is_output(v); }

  // Whether every size is a number or computed from sizes of the graph's inputs, as a dims_constant requires.
  bool sized_by_inputs(const Shape& shape) const;

  // Sets the nodes that those made next replace (their origins are inherited).
  void standing_for(std::vector<const ir::Node*> nodes) { replaced_ = std::move(nodes); }
  // A new node with one output, typed by inference. Its name and its output's name come from `like`.
  Result<ir::Value*> make(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs, const ir::Value* like);
  ir::Value* scalar(DType dtype, double value, std::string_view name);
  ir::Value* ints(const std::vector<int64_t>& values, std::string_view name);
  // `x` in the shape `to`: x itself if it has that shape, else a reshape. Errors: kRefused where more than one size of
  // it is decided by the data and is not that of the same axis of x.
  Result<ir::Value*> reshape(ir::Value* x, const Shape& to, const ir::Value* like);
  Result<ir::Value*> transpose(ir::Value* x, const std::vector<int64_t>& perm, const ir::Value* like);

  // Replaces every use of `from` by `to` and counts one rewrite; nodes left without uses are detached from their
  // inputs.
  void replace(ir::Value* from, ir::Value* to);

 private:
  void release(ir::Node* node);
  ir::Graph& graph_;
  std::string_view pass_;
  std::vector<const ir::Node*> replaced_;
  int64_t count_ = 0;
  int64_t fresh_ = -1;  // counter of data-dependent dimensions, once one may be needed
};

// Applies `rule` (true: something changed) to all nodes until nothing changes, at most `sweeps` times.
using Rule = std::function<Result<bool>(Rewriter&, ir::Node*)>;
Result<int64_t> rewrite_all(ir::Graph& graph, std::string_view pass, const Rule& rule, int sweeps = 1);

}  // namespace peri::passes
