// Pass merge_slices: a slice of a slice along other axes becomes one slice, one copy instead of two.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// What a slice says of its axes, in numbers and axis by axis; none if a part is known only while running.
struct Cut {
  std::vector<int64_t> starts, ends, axes, steps;
};
std::optional<Cut> cut_of(const ir::Node& n) {
  const auto starts = numbers_of(n.in(1)), ends = numbers_of(n.in(2));
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  Cut c{*starts, *ends, {}, std::vector<int64_t>(starts->size(), 1)};
  for (size_t k = 0; k < starts->size(); ++k) c.axes.push_back(static_cast<int64_t>(k));
  if (n.in(3)) {
    const auto axes = numbers_of(n.in(3));
    if (!axes || axes->size() != starts->size()) return std::nullopt;
    c.axes = *axes;
  }
  if (n.in(4)) {
    const auto steps = numbers_of(n.in(4));
    if (!steps || steps->size() != starts->size()) return std::nullopt;
    c.steps = *steps;
  }
  for (int64_t& axis : c.axes) axis = wrap_axis(axis, n.in(0)->type.rank());
  return c;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  ir::Node* inner = n->op == "slice" ? made_by(n->in(0), "slice") : nullptr;
  if (!inner || !w.used_once(inner->out())) return false;
  auto cut = cut_of(*inner);
  const auto outer = cut_of(*n);
  if (!cut || !outer) return false;
  // Axes do not meet, so each is clamped to the size it has without the other slice.
  for (int64_t axis : outer->axes)
    if (std::find(cut->axes.begin(), cut->axes.end(), axis) != cut->axes.end()) return false;
  cut->starts.insert(cut->starts.end(), outer->starts.begin(), outer->starts.end());
  cut->ends.insert(cut->ends.end(), outer->ends.begin(), outer->ends.end());
  cut->axes.insert(cut->axes.end(), outer->axes.begin(), outer->axes.end());
  cut->steps.insert(cut->steps.end(), outer->steps.begin(), outer->steps.end());
  w.standing_for({inner, n});
  const std::string name = n->out()->name;
  std::vector<ir::Value*> inputs = {inner->in(0), w.ints(cut->starts, name + "_starts"),
                                    w.ints(cut->ends, name + "_ends"), w.ints(cut->axes, name + "_axes"),
                                    w.ints(cut->steps, name + "_steps")};
  PERI_ASSIGN(ir::Value * y, w.make("slice", std::move(inputs), {}, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "merge_slices", rule); }

}  // namespace

extern const Entry merge_slices_entry;
const Entry merge_slices_entry{{
    .name = "merge_slices",
    .contract =
        "No slice reads a slice along other axes that nobody else reads: both are one. It stands after the passes that "
        "look for single slices.",
    .follows = {"fold_constants", "split_projections"},
    .run = run,
    .examples = {{"a window of an image",
                  "graph { input x: f32[batch,6,7]; const s: i64[1] = [1]; const e: i64[1] = [5]; const a: i64[1] = "
                  "[1]; const b: i64[1] = [-1]; t = slice(x, s, e, a); y = slice(t, s, e, b); output y }",
                  "graph { input x: f32[batch,6,7]; const s: i64[2] = [1, 1]; const e: i64[2] = [5, 5]; const a: "
                  "i64[2] = [1, 2]; const p: i64[2] = [1, 1]; y = slice(x, s, e, a, p); output y }"},
                 {"every second of three axes",
                  "graph { input x: f32[4,6,8]; const s: i64[1] = [1]; const e: i64[1] = [9223372036854775807]; const "
                  "a: i64[1] = [0]; const b: i64[1] = [1]; const c: i64[1] = [2]; const p: i64[1] = [2]; t = slice(x, "
                  "s, e, a, p); u = slice(t, s, e, b, p); y = slice(u, s, e, c, p); output y }",
                  "graph { input x: f32[4,6,8]; const s: i64[3] = [1, 1, 1]; const e: i64[3] = [9223372036854775807, "
                  "9223372036854775807, 9223372036854775807]; const a: i64[3] = [0, 1, 2]; const p: i64[3] = [2, 2, "
                  "2]; y = slice(x, s, e, a, p); output y }"},
                 {"the same axis stays",
                  "graph { input x: f32[9]; const s: i64[1] = [1]; const e: i64[1] = [-1]; t = slice(x, s, e); y = "
                  "slice(t, s, e); output y }",
                  "graph { input x: f32[9]; const s: i64[1] = [1]; const e: i64[1] = [-1]; t = slice(x, s, e); y = "
                  "slice(t, s, e); output y }"},
                 {"a slice with another reader stays",
                  "graph { input x: f32[4,6]; const s: i64[1] = [1]; const e: i64[1] = [3]; const a: i64[1] = [0]; "
                  "const b: i64[1] = [1]; t = slice(x, s, e, a); y = slice(t, s, e, b); output y; output t }",
                  "graph { input x: f32[4,6]; const s: i64[1] = [1]; const e: i64[1] = [3]; const a: i64[1] = [0]; "
                  "const b: i64[1] = [1]; t = slice(x, s, e, a); y = slice(t, s, e, b); output y; output t }"}},
}};

}  // namespace peri::passes
