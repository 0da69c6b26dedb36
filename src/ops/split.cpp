// Split: one axis divided into parts of given sizes, or into num_outputs equal parts of which the last may be smaller.
#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
// Sizes of the parts; symbolic where the axis is.
Result<std::vector<Dim>> part_sizes(InferContext& c, const Dim& length) {
  const size_t parts = c.node.outputs.size();
  std::vector<Dim> sizes;
  if (c.has(1)) {
    if (static_cast<int64_t>(parts) > kMaxContent && !c.known(1))  // each would be a size of its own
      return unsupported("split by a computed list of many sizes")
          .expecting(format("at most %lld", static_cast<long long>(kMaxContent)))
          .but_found(std::to_string(parts))
          .advise("give them as a constant, or split in two steps");
    PERI_ASSIGN(sizes, shape_from(c, 1, "split", static_cast<int64_t>(parts) + 1));
    if (sizes.size() != parts)
      return invalid("split needs one size for each output")
          .expecting(std::to_string(parts))
          .but_found(std::to_string(sizes.size()));
    Dim sum;
    for (const Dim& s : sizes) {
      if (s.is_const() && s.value() < 0) return invalid("split has a negative size").but_found(s.text());
      sum = sum + s;
    }
    if (sum.is_poison() || (sum.is_const() && length.is_const() && !(sum == length)))
      return invalid("the sizes of split do not add up").expecting(length.text()).but_found(sum.text());
    return sizes;
  }
  const int64_t count = c.node.i("num_outputs", static_cast<int64_t>(parts));
  if (count != static_cast<int64_t>(parts) || count < 1)
    return invalid("num_outputs of split differs from its outputs")
        .expecting(std::to_string(parts))
        .but_found(std::to_string(count));
  const Dim chunk = ceildiv(length, Dim(count));
  for (size_t k = 0; k + 1 < parts; ++k) sizes.push_back(chunk);
  sizes.push_back(length - Dim(count - 1) * chunk);
  if (sizes.back().is_const() && sizes.back().value() < 0)
    return invalid("split of %s elements into %zu parts", length.text().c_str(), parts);
  return sizes;
}

// Flat input position of a position of part k, which starts at `start` along an axis of `length`.
struct Cut {
  int64_t inner, length, start, size;
  int64_t source(int64_t p) const { return p / (size * inner) * length * inner + start * inner + p % (size * inner); }
};
Cut cut_of(int64_t axis, const std::vector<int64_t>& in, int64_t start, int64_t size) {
  const size_t a = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(in.size()) : axis);
  Cut c{1, in[a], start, size};
  for (size_t k = a + 1; k < in.size(); ++k) c.inner *= in[k];
  return c;
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const int64_t axis, normalize_axis(c.node.i("axis", 0), c.rank(0)));
  PERI_ASSIGN(const std::vector<Dim> sizes, part_sizes(c, c.shape(0)[static_cast<size_t>(axis)]));
  int64_t start = 0;
  bool placed = true;  // `start` is where the part starts
  for (size_t k = 0; k < sizes.size(); ++k) {
    Shape s = c.shape(0);
    s[static_cast<size_t>(axis)] = sizes[k];
    c.set(k, c.dtype(0), std::move(s));
    const Dim& length = c.shape(0)[static_cast<size_t>(axis)];
    placed = placed && sizes[k].is_const() && length.is_const() && start + sizes[k].value() <= length.value();
    if (!placed) continue;
    content_moved(c, k, [&](int64_t p, const std::vector<int64_t>& in, const std::vector<int64_t>&) {
      return cut_of(axis, in, start, sizes[k].value()).source(p);
    });
    start += sizes[k].value();
  }
  return Ok{};
}

Status reference(RefCall& call) {
  const int64_t axis = call.node.i("axis", 0);
  const size_t a = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(call.in[0]->dims.size()) : axis);
  int64_t start = 0;
  for (size_t k = 0; k < call.out.size(); ++k) {
    RefTensor& y = call.out[k];
    const Cut cut = cut_of(axis, call.in[0]->dims, start, y.dims[a]);
    start += y.dims[a];
    if (k > 0 && !call.positions.empty()) break;
    const int64_t count = k == 0 ? call.count() : y.numel();
    for (int64_t n = 0; n < count; ++n) {
      const int64_t p = k == 0 ? call.position(n) : n;
      copy_element(*call.in[0], cut.source(p), y, p);
    }
  }
  return Ok{};
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  const int64_t axis = node.i("axis", 0);
  const std::vector<int64_t> in = concrete(*node.in(0)), out = concrete(*node.out());
  const Cut cut =
      cut_of(axis, in, 0, out[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(in.size()) : axis)]);
  needed->clear();
  for (int64_t p : positions) needed->push_back(cut.source(p));
  sort_unique(needed);
  return true;
}
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  return opset < 13 ? ints_to_input(graph, node, "split", 1) : Status(Ok{});
}
}  // namespace

extern const Entry split_entry;
const Entry split_entry{{
    {.name = "split",
     .onnx = "Split",
     .versions = {2, 11, 13, 18},
     .inputs = {{"x", kMovable}, {.name = "split", .types = types({DType::kI64}), .optional = true, .sizes = true}},
     .outputs = {{"y", kAnyType, false, true}},
     .attrs = {{"axis", AttrKind::kInt, false, "0"}, {"num_outputs", AttrKind::kInt, false, "the number of outputs"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .samples =
         {"graph { input x: f32[2,6]; a, b, c = split(x) {axis=1, num_outputs=3}; output a; output b; output c }",
          "graph { input x: f32[7,2]; a, b, c = split(x) {num_outputs=3}; output a; output b; output c }",
          "graph { input x: i64[6]; const s: i64[2] = [2, 4]; a, b = split(x, s) {axis=-1}; output a; output b }",
          "graph { input x: f16[2,3,2]; const s: i64[3] = [0, 3, 0]; a, b, c = split(x, s) {axis=1}; output a; output "
          "b; output c }"}},
}};
}  // namespace peri::ops
