// Pass split_convolutions: a signal's convolution whose channels are only split becomes one convolution for each part.
#include <algorithm>
#include <cstring>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Parts of fewer channels fill no vectors; each part reads the whole input again. Measured:
// benchmarks/results/2026-11-29_split_convolutions.md.
constexpr int64_t kMinChannels = 16;
constexpr size_t kMaxParts = 4;

struct Part {
  ir::Value* y;
  int64_t first, count;
};

// The parts of a split of axis 1, if each is large enough and none is empty.
std::optional<std::vector<Part>> parts_of(const ir::Node& split) {
  if (wrap_axis(split.i("axis", 0), split.in(0)->type.rank()) != 1) return std::nullopt;
  std::vector<Part> parts;
  int64_t first = 0;
  for (ir::Value* y : split.outputs) {
    const Dim& size = (*y->type.shape)[1];
    if (!size.is_const() || size.value() < kMinChannels) return std::nullopt;
    parts.push_back({y, first, size.value()});
    first += size.value();
  }
  return parts.size() >= 2 && parts.size() <= kMaxParts ? std::optional(std::move(parts)) : std::nullopt;
}

// Rows first .. first + count of the first axis.
Result<Tensor> rows(const Tensor& t, int64_t first, int64_t count) {
  std::vector<int64_t> dims = t.dims();
  const size_t row = t.bytes().size() / static_cast<size_t>(dims[0]);
  dims[0] = count;
  PERI_ASSIGN(Tensor out, Tensor::zeros(t.dtype(), dims));
  std::memcpy(out.mutable_data(), t.bytes().data() + static_cast<size_t>(first) * row, out.bytes().size());
  return out;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "split" || !n->in(0)->type.known() || n->in(0)->type.rank() != 3) return false;
  ir::Node* const conv = made_by(n->in(0), "conv");
  if (!conv || !w.used_once(n->in(0)) || conv->i("group", 1) != 1) return false;
  for (size_t port = 1; port < conv->inputs.size(); ++port)
    if (conv->in(port) && (!conv->in(port)->constant || dtype_bits(conv->in(port)->constant->dtype()) % 8 != 0))
      return false;
  const auto parts = parts_of(*n);
  if (!parts) return false;
  for (size_t k = 0; k < parts->size(); ++k) {
    const Part& part = (*parts)[k];
    if (part.y->users.empty() && !w.graph().is_output(part.y)) continue;
    w.standing_for({conv});
    std::vector<ir::Value*> inputs = conv->inputs;
    for (size_t port = 1; port < inputs.size(); ++port)
      if (inputs[port]) {
        PERI_ASSIGN(Tensor some, rows(*inputs[port]->constant, part.first, part.count));
        inputs[port] = w.graph().add_constant(inputs[port]->name, std::move(some));
      }
    PERI_ASSIGN(ir::Value * y, w.make("conv", std::move(inputs), conv->attrs, part.y));
    y->producer->name += format("/%zu", k);  // by which a lock tells them apart
    w.replace(part.y, y);
  }
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "split_convolutions", rule); }

}  // namespace

extern const Entry split_convolutions_entry;
const Entry split_convolutions_entry{{
    .name = "split_convolutions",
    .contract =
        "A convolution of a signal with constant weights whose result is only split into two to four parts of at least "
        "16 "
        "channels, as before a gate, is one convolution for each part: the same arithmetic without a copy of the "
        "result, and what follows a part may join its convolution. It stands behind fold_batch_norm and fold_padding, "
        "which leave constant weights, and before lift_windows, which moves no view past a split.",
    .follows = {"fold_batch_norm", "fold_padding"},
    .run = run,
    .examples =
        {{"two halves",
          "graph { input x: f32[n,1,9]; const w: f32[32,1,1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, "
          "11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, "
          "29.0, 30.0, 31.0, 32.0]; a = conv(x, w); p, q = split(a) {axis=1, num_outputs=2}; c = tanh(p); d = "
          "sigmoid(q); y = mul(c, d); output y }",
          "graph { input x: f32[n,1,9]; const w: f32[16,1,1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, "
          "11.0, 12.0, 13.0, 14.0, 15.0, 16.0]; const v: f32[16,1,1] = [17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, "
          "24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0]; p = conv(x, w); c = tanh(p); q = conv(x, v); d = "
          "sigmoid(q); y = mul(c, d); output y }"},
         {"that of an image stays",
          "graph { input x: f32[2,1,3,3]; const w: f32[32,1,1,1] = seeded(1.0, 1); a = conv(x, w); p, q = split(a) "
          "{axis=1, num_outputs=2}; output p; output q }",
          "graph { input x: f32[2,1,3,3]; const w: f32[32,1,1,1] = seeded(1.0, 1); a = conv(x, w); p, q = split(a) "
          "{axis=1, num_outputs=2}; output p; output q }"},
         {"of few channels it stays",
          "graph { input x: f32[2,1,9]; const w: f32[16,1,1] = seeded(1.0, 1); a = conv(x, w); p, q = split(a) "
          "{axis=1, num_outputs=2}; output p; output q }",
          "graph { input x: f32[2,1,9]; const w: f32[16,1,1] = seeded(1.0, 1); a = conv(x, w); p, q = split(a) "
          "{axis=1, num_outputs=2}; output p; output q }"}},
}};

}  // namespace peri::passes
