// Reverse_sequence: the first sequence_lens[i] elements along the time axis of batch i in reverse, the rest unchanged.
#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) {
  const int64_t batch = c.node.i("batch_axis", 1), time = c.node.i("time_axis", 0);
  if (c.rank(0) < 2) return invalid("reverse_sequence needs rank 2 or more").but_found(shape_text(c.shape(0)));
  if (!((batch == 0 && time == 1) || (batch == 1 && time == 0)))
    return invalid("batch_axis and time_axis of reverse_sequence must be 0 and 1 in some order");
  if (c.rank(1) != 1) return invalid("sequence_lens of reverse_sequence must be a list");
  const Dim &have = c.shape(1)[0], &want = c.shape(0)[static_cast<size_t>(batch)];
  if (have.is_const() && want.is_const() && !(have == want))
    return invalid("reverse_sequence needs one length for each batch").expecting(want.text()).but_found(have.text());
  return infer_same(c);
}

int64_t source(int64_t p, const std::vector<int64_t>& dims, int64_t batch_axis, const std::vector<int64_t>& lengths) {
  const std::vector<int64_t> strides = strides_of(dims);
  const size_t batch = static_cast<size_t>(batch_axis), time = 1 - batch;
  const int64_t i = p / strides[batch] % dims[batch], t = p / strides[time] % dims[time],
                length = lengths[static_cast<size_t>(i)];
  return t < length ? p + (length - 1 - 2 * t) * strides[time] : p;
}
Status reference(RefCall& call) {
  const std::vector<int64_t>& dims = call.in[0]->dims;
  const int64_t batch = call.node.i("batch_axis", 1), steps = dims[static_cast<size_t>(1 - batch)];
  for (int64_t length : call.in[1]->i)
    if (length < 0 || length > steps)
      return invalid("reverse_sequence has a length outside its time axis")
          .expecting(format("0 to %ld", steps))
          .but_found(std::to_string(length));
  return move_elements(call, *call.in[0], [&](int64_t p) { return source(p, dims, batch, call.in[1]->i); });
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const auto lengths = known_ints(node.in(1));
  if (port != 0 || !lengths) return false;
  const std::vector<int64_t> dims = concrete(*node.in(0));
  needed->clear();
  for (int64_t p : positions) needed->push_back(source(p, dims, node.i("batch_axis", 1), *lengths));
  sort_unique(needed);
  return true;
}

// A length may be that of the axis.
std::vector<Dim> index_ends(const ir::Node& node) {
  if (!node.in(0)->type.known() || node.in(0)->type.rank() < 2) return {};
  return {(*node.in(0)->type.shape)[node.i("time_axis", 0) == 0 ? 0 : 1] + 1};
}

}  // namespace

extern const Entry reverse_sequence_entry;
const Entry reverse_sequence_entry{{
    {.name = "reverse_sequence",
     .onnx = "ReverseSequence",
     .versions = {10, 28},
     .inputs = {{"x", kMovable}, {"sequence_lens", types({DType::kI64}), false, false, -1, Role::kIndex}},
     .outputs = {{"y"}},
     .attrs = {{"batch_axis", AttrKind::kInt, false, "1"}, {"time_axis", AttrKind::kInt, false, "0"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .index_ends = index_ends,
     .samples = {"graph { input x: f32[4,3]; const l: i64[3] = [4, 1, 2]; y = reverse_sequence(x, l); output y }",
                 "graph { input x: i32[2,5,3]; const l: i64[2] = [0, 5]; y = reverse_sequence(x, l) {batch_axis=0, "
                 "time_axis=1}; output y }",
                 "graph { input x: f16[0,2]; const l: i64[2] = [0, 0]; y = reverse_sequence(x, l); output y }"}},
}};
}  // namespace peri::ops
