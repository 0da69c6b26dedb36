// A fused attention as the graph of single operations by which cuDNN knows one: two products with a softmax between.
#include "device/cuda/cudnn_graph.hpp"

namespace peri::device::cuda {

namespace {
class AttentionGraph {
 public:
  AttentionGraph(DnnPool& pool, DnnHandle handle, const DnnAttention& attention)
      : operations_(pool, handle), v_(attention) {}

  Result<DnnDescriptor> make() {
    const int type = dnn_type(v_.dtype);
    const DnnSizes& k = v_.k;  // its matrices transposed, by strides
    PERI_ASSIGN(const DnnDescriptor q,
                operations_.outer(kDnnQ, type, {v_.batch, v_.heads, v_.queries, v_.depth}, v_.q));
    PERI_ASSIGN(const DnnDescriptor kt,
                operations_.outer(kDnnK, type, {v_.batch, v_.kv_heads, v_.depth, v_.keys}, {k[0], k[1], k[3], k[2]}));
    PERI_ASSIGN(const DnnDescriptor v,
                operations_.outer(kDnnV, type, {v_.batch, v_.kv_heads, v_.keys, v_.value_depth}, v_.v));
    PERI_ASSIGN(const DnnDescriptor y,
                operations_.outer(kDnnY, type, {v_.batch, v_.heads, v_.queries, v_.value_depth}, v_.y));
    PERI_ASSIGN(const DnnDescriptor products, scores(kDnnFloat));
    PERI_TRY(operations_.multiply(q, kt, products));
    PERI_ASSIGN(const DnnDescriptor scale, operations_.number(kDnnScale));
    PERI_ASSIGN(DnnDescriptor at, apply(kDnnMul, products, scale));
    if (v_.mask != DType::kInvalid) {
      PERI_ASSIGN(const DnnDescriptor mask,
                  operations_.outer(kDnnMask, dnn_type(v_.mask), v_.mask_dims, dense(v_.mask_dims)));
      PERI_ASSIGN(at, apply(kDnnAdd, at, mask));
    }
    if (v_.causal) {
      PERI_ASSIGN(at, seen(at));
    }
    PERI_ASSIGN(const DnnDescriptor weights, softmax(at, type));
    PERI_TRY(operations_.multiply(weights, v, y));
    return operations_.graph();
  }

 private:
  static DnnSizes dense(const DnnSizes& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
  // An inner value of the scores' size, and one a row of them.
  Result<DnnDescriptor> scores(int type) {
    const DnnSizes dims = {v_.batch, v_.heads, v_.queries, v_.keys};
    return operations_.inner(type, dims, dense(dims));
  }
  Result<DnnDescriptor> rows() {
    const DnnSizes dims = {v_.batch, v_.heads, v_.queries, 1};
    return operations_.inner(kDnnFloat, dims, dense(dims));
  }
  Result<DnnDescriptor> apply(int mode, DnnDescriptor x, DnnDescriptor b) {
    PERI_ASSIGN(const DnnDescriptor y, scores(kDnnFloat));
    PERI_TRY(operations_.apply({.mode = mode, .x = x, .b = b}, y));
    return y;
  }
  // kDnnHidden where the key is behind the query.
  Result<DnnDescriptor> seen(DnnDescriptor x) {
    PERI_ASSIGN(const DnnDescriptor query, scores(kDnnInt32));
    PERI_TRY(operations_.apply({.mode = kDnnIndex, .x = x, .axis = 2}, query));
    PERI_ASSIGN(const DnnDescriptor key, scores(kDnnInt32));
    PERI_TRY(operations_.apply({.mode = kDnnIndex, .x = x, .axis = 3}, key));
    PERI_ASSIGN(const DnnDescriptor there, scores(kDnnBoolean));
    PERI_TRY(operations_.apply({.mode = kDnnNotLess, .precision = kDnnBoolean, .x = query, .b = key}, there));
    PERI_ASSIGN(const DnnDescriptor hidden, operations_.number(kDnnHidden));
    PERI_ASSIGN(const DnnDescriptor y, scores(kDnnFloat));
    PERI_TRY(operations_.apply({.mode = kDnnSelect, .x = x, .b = hidden, .choice = there}, y));
    return y;
  }
  // The logarithm of the sum plus the largest is what training keeps of a row. Nothing reads it here, but without it no
  // engine of 9.19 takes the graph for an attention.
  Result<DnnDescriptor> softmax(DnnDescriptor x, int type) {
    PERI_ASSIGN(const DnnDescriptor high, rows());
    PERI_TRY(operations_.reduce(kDnnReduceMax, x, high));
    PERI_ASSIGN(const DnnDescriptor less, apply(kDnnSub, x, high));
    PERI_ASSIGN(const DnnDescriptor e, apply(kDnnExp, less, nullptr));
    PERI_ASSIGN(const DnnDescriptor sum, rows());
    PERI_TRY(operations_.reduce(kDnnReduceAdd, e, sum));
    PERI_ASSIGN(const DnnDescriptor log, rows());
    PERI_TRY(operations_.apply({.mode = kDnnLog, .x = sum}, log));
    PERI_ASSIGN(const DnnDescriptor kept, rows());
    PERI_TRY(operations_.apply({.mode = kDnnAdd, .x = high, .b = log}, kept));
    PERI_ASSIGN(const DnnDescriptor y, scores(type));
    PERI_TRY(operations_.apply({.mode = kDnnDiv, .x = e, .b = sum}, y));
    return y;
  }

  DnnOperations operations_;
  const DnnAttention& v_;
};
}  // namespace

Status check_problem(const DnnAttention& v) {
  for (const int64_t size : {v.batch, v.heads, v.kv_heads, v.queries, v.keys, v.depth, v.value_depth})
    if (size < 1 || size > INT32_MAX) return refused("an attention of %lld", static_cast<long long>(size));
  if (v.heads % v.kv_heads != 0) return refused("heads that do not share keys evenly");
  if (v.dtype != DType::kF16 && v.dtype != DType::kBF16)
    return refused("takes f16 and bf16 only").but_found(std::string(dtype_name(v.dtype)));
  if (v.depth % 8 != 0 || v.value_depth % 8 != 0) return refused("heads that are not multiples of 8");
  for (const DnnSizes& strides : {v.q, v.k, v.v, v.y})
    if (strides[3] != 1) return refused("heads that do not lie together");
  if (v.mask == DType::kInvalid) return Ok{};
  if (v.mask != DType::kF32 && v.mask != v.dtype)
    return refused("takes masks of f32 or the attention's type").but_found(std::string(dtype_name(v.mask)));
  const DnnSizes whole = {v.batch, v.heads, v.queries, v.keys};
  for (size_t k = 0; k < whole.size(); ++k)
    if (v.mask_dims[k] != whole[k] && (v.mask_dims[k] != 1 || k == 3)) return refused("a mask of other sizes");
  return Ok{};
}

Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnAttention& attention) {
  return AttentionGraph(pool, handle, attention).make();
}

}  // namespace peri::device::cuda
