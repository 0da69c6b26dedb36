// Products of com.microsoft: FusedMatMul, MatMulNBits, byte products with scales computed at run time
// (DynamicQuantizeMatMul, MatMulIntegerToFloat), and the distances that follow from a product (CDist).
#include <cstring>

#include "ops/reference/quantized.hpp"
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

// The last two axes in the other order.
ir::Value* transposed(Composed& c, ir::Value* x) {
  const int64_t rank = static_cast<int64_t>(x->type.rank());
  if (rank < 2) return x;
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank - 2; ++d) perm.push_back(d);
  perm.push_back(rank - 1);
  perm.push_back(rank - 2);
  return c.op("transpose", {x}, {{"perm", perm}});
}

Status fused_matmul(ir::Graph& graph, ir::Node& node, int) {
  if (node.i("transBatchA") != 0 || node.i("transBatchB") != 0)
    return unsupported("a batch dimension behind the first of the matrix is not supported")
        .advise("export the model without FusedMatMul's transBatchA and transBatchB");
  Composed c(graph, node);
  ir::Value* const a = node.i("transA") != 0 ? transposed(c, c.in(0)) : c.in(0);
  ir::Value* const b = node.i("transB") != 0 ? transposed(c, c.in(1)) : c.in(1);
  ir::Value* y = c.op("matmul", {a, b});
  if (const double alpha = node.f("alpha", 1); alpha != 1) y = c.op("mul", {y, c.scalar(c.in(0)->type.dtype, alpha)});
  c.give(0, y);
  return c.done();
}

// cast(sums) * (a_scale * b_scale) + bias
ir::Value* scaled(Composed& c, ir::Value* sums, ir::Value* a_scale, ir::Value* b_scale, ir::Value* bias) {
  ir::Value* const y = c.op("mul", {c.cast(sums, DType::kF32), c.op("mul", {a_scale, b_scale})});
  return bias ? c.op("add", {y, bias}) : y;
}

Status dynamic_quantize_matmul(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const auto a = c.ops("dynamic_quantize_linear", {c.in(0)}, {}, 3);
  std::vector<ir::Value*> inputs = {a[0], c.in(1), a[2]};
  if (c.has(3)) inputs.push_back(c.in(3));
  c.give(0, scaled(c, c.op("matmul_integer", inputs), a[1], c.in(2), c.in(4)));
  return c.done();
}

Status matmul_integer_to_float(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  std::vector<ir::Value*> inputs = {c.in(0), c.in(1), c.in(4), c.in(5)};
  while (!inputs.back()) inputs.pop_back();
  c.give(0, scaled(c, c.op("matmul_integer", inputs), c.in(2), c.in(3), c.in(6)));
  return c.done();
}

// Bytes [rows, bytes] as [rows, columns] of a packed type: the same bytes, which hold as many columns.
Result<ir::Value*> packed(Composed& c, const ir::Value* v, DType t, int64_t rows, int64_t columns) {
  if (!v->constant || v->constant->dtype() != DType::kU8)
    return unsupported("packed weights that are made while running are not supported");
  PERI_ASSIGN(Tensor out, Tensor::zeros(t, {rows, columns}));
  const auto bytes = v->constant->bytes();
  if (bytes.size() != out.bytes().size())
    return invalid("the packed weights have a wrong size")
        .expecting(std::to_string(out.bytes().size()) + " bytes")
        .but_found(std::to_string(bytes.size()));
  std::memcpy(out.mutable_data(), bytes.data(), bytes.size());
  return c.constant(std::move(out));
}

// MatMulNBits: A b', where b is [n, k] in blocks of a row with a scale each.
struct Blocks {
  enum : size_t { kA, kB, kScales, kZeros, kOrder, kBias };
  int64_t bits, block, k, n, count;
  DType type;

  int64_t middle() const { return int64_t{1} << (bits - 1); }
};

Result<Blocks> blocks_of(const ir::Node& node) {
  Blocks b{node.i("bits", 4), node.i("block_size"), node.i("K"), node.i("N"), 0, DType::kU4};
  if (b.bits != 2 && b.bits != 4 && b.bits != 8)
    return unsupported("weights of %lld bits are not supported", static_cast<long long>(b.bits));
  constexpr int64_t kMaxSize = int64_t{1} << 30;
  if (b.block < 16 || b.k < 1 || b.n < 1 || b.k > kMaxSize || b.n > kMaxSize || b.block > kMaxSize)
    return invalid("K, N or block_size is out of range").expecting("K and N from 1, block_size from 16");
  b.count = (b.k + b.block - 1) / b.block;
  if (b.bits != 4) b.type = b.bits == 8 ? DType::kU8 : DType::kU2;
  return b;
}

// One of each block, as packed as the weights are: a row of them begins with a byte of its own.
Result<ir::Value*> packed_zeros(Composed& c, const Blocks& b) {
  const int64_t each = 8 / b.bits;
  PERI_ASSIGN(ir::Value * zeros, packed(c, c.in(Blocks::kZeros), b.type, b.n, (b.count + each - 1) / each * each));
  return c.slice(zeros, 1, 0, b.count);
}

// Weights [n, blocks * block] as floats in the order in which they stand.
Result<ir::Value*> in_order(Composed& c, const Blocks& b, ir::Value* w, ir::Value* scales) {
  std::vector<ir::Value*> inputs = {w, scales};
  if (c.has(Blocks::kZeros)) {
    PERI_ASSIGN(inputs.emplace_back(), packed_zeros(c, b));
  } else {
    PERI_ASSIGN(Tensor zeros, Tensor::zeros(b.type, {b.n, b.count}));
    for (int64_t at = 0; at < b.n * b.count; ++at) zeros.set_i64(at, b.middle());
    inputs.push_back(c.constant(std::move(zeros)));
  }
  return c.op("dequantize_linear", inputs, {{"axis", int64_t{1}}, {"block_size", b.block}});
}

// The same element by element: `order` names the block of each, and zero points may be floats.
Result<ir::Value*> one_by_one(Composed& c, const Blocks& b, ir::Value* w, ir::Value* scales) {
  const DType type = c.in(Blocks::kScales)->type.dtype;
  ir::Value* zeros = c.in(Blocks::kZeros);
  if (!zeros) {
    zeros = c.op("expand", {c.scalar(type, static_cast<double>(b.middle())), c.ints({b.n, b.count})});
  } else if (is_float(zeros->type.dtype)) {
    zeros = c.op("reshape", {c.cast(zeros, type), c.ints({b.n, b.count})});
  } else {
    PERI_ASSIGN(zeros, packed_zeros(c, b));
    zeros = c.cast(zeros, type);
  }
  ir::Value* order = c.in(Blocks::kOrder);
  if (!order) {
    std::vector<int64_t> own;
    for (int64_t at = 0; at < b.k; ++at) own.push_back(at / b.block);
    order = c.ints(std::move(own));
  } else {
    order = c.slice(order, 0, 0, b.k);
  }
  const auto each = [&](ir::Value* v) { return c.op("gather", {v, order}, {{"axis", int64_t{1}}}); };
  return c.op("mul", {c.op("sub", {c.cast(c.slice(w, 1, 0, b.k), type), each(zeros)}), each(scales)});
}

Status matmul_nbits(ir::Graph& graph, ir::Node& node, int) {
  PERI_ASSIGN(const Blocks b, blocks_of(node));
  Composed c(graph, node);
  PERI_ASSIGN(ir::Value * w, packed(c, c.in(Blocks::kB), b.type, b.n, b.count * b.block));
  ir::Value* const scales = c.op("reshape", {c.in(Blocks::kScales), c.ints({b.n, b.count})});
  const bool apart = c.has(Blocks::kOrder) || (c.has(Blocks::kZeros) && is_float(c.in(Blocks::kZeros)->type.dtype));
  PERI_ASSIGN(ir::Value * weights, apart ? one_by_one(c, b, w, scales) : in_order(c, b, w, scales));
  if (!apart && b.count * b.block != b.k) weights = c.slice(weights, 1, 0, b.k);
  ir::Value* y =
      c.op("matmul", {c.in(Blocks::kA), c.op("transpose", {weights}, {{"perm", std::vector<int64_t>{1, 0}}})});
  if (c.has(Blocks::kBias)) y = c.op("add", {y, c.in(Blocks::kBias)});
  c.give(0, y);
  return c.done();
}

// Distances of all rows of a from all rows of b, or their squares: a^2 + b^2 - 2 a b', which rounding may leave below
// 0.
Status distances(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::string metric = node.s("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean")
    return unsupported("this metric is not supported").expecting("euclidean or sqeuclidean").but_found(metric);
  const DType type = c.in(0)->type.dtype;
  const auto squares = [&](size_t port, int64_t kept) {
    ir::Value* const rows = c.op("reduce_sum_square", {c.in(port), c.ints({1})}, {{"keepdims", int64_t{0}}});
    return c.op("unsqueeze", {rows, c.ints({kept})});
  };
  ir::Value* const turned = c.op("transpose", {c.in(1)}, {{"perm", std::vector<int64_t>{1, 0}}});
  ir::Value* const both = c.op("mul", {c.op("matmul", {c.in(0), turned}), c.scalar(type, 2)});
  ir::Value* y = c.op("relu", {c.op("sub", {c.op("add", {squares(0, 1), squares(1, 0)}), both})});
  if (metric == "euclidean") y = c.op("sqrt", {y});
  c.give(0, y);
  return c.done();
}

std::vector<OpDef> definitions() {
  const Port bias{"bias", kFloats, true, false, -1, Role::kBias};
  return {composed("fused_matmul", "FusedMatMul", {{"a", kFloats}, {"b", kFloats, false, false, 0}},
                   {{"alpha", AttrKind::kFloat, false, "1"},
                    {"transA", AttrKind::kInt, false, "0"},
                    {"transB", AttrKind::kInt, false, "0"},
                    {"transBatchA", AttrKind::kInt, false, "0"},
                    {"transBatchB", AttrKind::kInt, false, "0"}},
                   fused_matmul),
          composed("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
                   {{"a", kFloats}, {"b", kBytes}, {"b_scale", kFloats}, {"b_zero_point", kBytes, true}, bias}, {},
                   dynamic_quantize_matmul),
          composed("matmul_integer_to_float", "MatMulIntegerToFloat",
                   {{"a", kBytes},
                    {"b", kBytes},
                    {"a_scale", kFloats},
                    {"b_scale", kFloats},
                    {"a_zero_point", kBytes, true},
                    {"b_zero_point", kBytes, true},
                    bias},
                   {}, matmul_integer_to_float),
          composed("matmul_nbits", "MatMulNBits",
                   {{"a", kFloats},
                    {"b", types({DType::kU8})},
                    {"scales", kFloats},
                    {"zero_points", kAnyType, true},
                    {"g_idx", types({DType::kI32}), true},
                    bias},
                   {{"K", AttrKind::kInt, true},
                    {"N", AttrKind::kInt, true},
                    {"accuracy_level", AttrKind::kInt, false, "0"},
                    {"bits", AttrKind::kInt, false, "4"},
                    {"block_size", AttrKind::kInt, true},
                    {"weight_prepacked", AttrKind::kInt, false, "0"}},
                   matmul_nbits),
          composed("cdist", "CDist", {{"a", kFloats}, {"b", kFloats, false, false, 0}},
                   {{"metric", AttrKind::kString, false, "sqeuclidean"}}, distances)};
}
}  // namespace

extern const Entry microsoft_products_entry;
const Entry microsoft_products_entry{definitions()};

}  // namespace peri::ops
