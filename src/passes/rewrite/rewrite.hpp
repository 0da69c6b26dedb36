// What passes share: reading constants and shapes of a pattern, and a Rewriter that puts typed nodes in, swaps values
// and lets go of what nothing uses any more, so that use counts stay true while a pass runs.
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
// Integers of a list or scalar that is a constant or of a known content, all numbers.
std::optional<std::vector<int64_t>> numbers_of(const ir::Value* v);
// The producer of `v` if it is an `op`; null otherwise.
ir::Node* made_by(const ir::Value* v, std::string_view op);
// The permutation of a transpose, with its default written out.
std::vector<int64_t> perm_of(const ir::Node& transpose);
bool is_identity(const std::vector<int64_t>& perm);
// -1 counts from the end of `rank`.
inline int64_t wrap_axis(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

// A node with two inputs, one of which is a scalar constant: that one's value and the other input, whose shape the
// result has. For div and sub only the right input may be the constant.
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

  // Nodes at this moment; some may be let go while the caller walks them: skip those that are not live.
  std::vector<ir::Node*> nodes() const { return graph_.nodes; }
  bool live(const ir::Node* node) const;
  // Exactly one use, as an input of a node.
  bool used_once(const ir::Value* v) const { return v->users.size() == 1 && !graph_.is_output(v); }

  // Every size is a number or computed from sizes of the graph's inputs: a dims_constant may hold it.
  bool sized_by_inputs(const Shape& shape) const;

  // Nodes that the next ones made stand for.
  void standing_for(std::vector<const ir::Node*> nodes) { replaced_ = std::move(nodes); }
  // A new node with one output, typed by inference. Its name and its output's name come from `like`.
  Result<ir::Value*> make(std::string_view op, std::vector<ir::Value*> inputs, ir::Attrs attrs, const ir::Value* like);
  ir::Value* scalar(DType dtype, double value, std::string_view name);
  ir::Value* ints(const std::vector<int64_t>& values, std::string_view name);
  // `x` under the shape `to`: x itself if it has it, else a reshape.
  Result<ir::Value*> reshape(ir::Value* x, const Shape& to, const ir::Value* like);
  Result<ir::Value*> transpose(ir::Value* x, const std::vector<int64_t>& perm, const ir::Value* like);

  // Every use of `from` becomes `to`; one rewrite is counted; nodes left without a use let go of their inputs.
  void replace(ir::Value* from, ir::Value* to);

 private:
  void release(ir::Node* node);
  ir::Graph& graph_;
  std::string_view pass_;
  std::vector<const ir::Node*> replaced_;
  int64_t count_ = 0;
  int64_t fresh_ = -1;  // counter of data-dependent dimensions, once one may be needed
};

// Walks all nodes with `rule` (true: something changed) until nothing changes, at most `sweeps` times.
using Rule = std::function<Result<bool>(Rewriter&, ir::Node*)>;
Result<int64_t> rewrite_all(ir::Graph& graph, std::string_view pass, const Rule& rule, int sweeps = 1);

}  // namespace peri::passes
