// GroupQueryAttention of com.microsoft, expanded to other ops: rotary embedding of queries and keys, keys and values
// written to each batch's cache, products whose query heads share heads of the keys. seqlens_k holds the total number
// of keys of each batch minus one, total_sequence_length the largest of them; a past that is as long or longer is a
// buffer, in which the new ones find their places.
#include <cmath>

#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {
enum : size_t { kQuery, kKey, kValue, kPastKey, kPastValue, kSeqlens, kTotal, kCos, kSin, kPlaces, kBias, kSink };

struct Sizes {
  int64_t heads, shared, depth;
  int64_t group() const { return heads / shared; }
};

ir::Value* unsqueezed(Composed& c, ir::Value* x, std::vector<int64_t> axes) {
  return c.op("unsqueeze", {x, c.ints(std::move(axes))});
}
ir::Value* size_of(Composed& c, ir::Value* x, int64_t axis) {
  return c.op("squeeze", {c.op("shape", {x}, {{"start", axis}, {"end", axis + 1}}), c.ints({0})});
}
ir::Value* counted(Composed& c, ir::Value* count) {
  return c.op("range", {c.scalar(DType::kI64, 0), count, c.scalar(DType::kI64, 1)});
}
ir::Value* by_heads(Composed& c, ir::Value* x, int64_t heads) {  // [batch, heads, places, depth]
  return c.op("transpose", {c.op("reshape", {x, c.ints({0, 0, heads, -1})})},
              {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

Result<Sizes> sizes_of(const Composed& c, const ir::Node& node) {
  Sizes s{node.i("num_heads"), node.i("kv_num_heads"), 0};
  const Shape& q = *c.in(kQuery)->type.shape;
  const bool packed = !c.has(kKey);
  const int64_t rows = packed ? s.heads + 2 * s.shared : s.heads;
  if (q.size() == 3 && !q[2].is_const())
    return unsupported("how long a head is follows from the hidden size, '%s', which must be a number",
                       q[2].text().c_str());
  if (q.size() != 3 || !q[2].is_const() || s.shared < 1 || s.heads % s.shared != 0 || q[2].value() % rows != 0)
    return invalid("num_heads and kv_num_heads do not fit the query")
        .expecting("[batch, places, heads * depth]")
        .but_found(shape_text(q));
  s.depth = q[2].value() / rows;
  return s;
}

Status check(const Composed& c, const ir::Node& node) {
  for (const char* key : {"smooth_softmax", "kv_cache_bit_width", "qk_output"})
    if (node.i(key) != 0) return unsupported("%s of GroupQueryAttention is not supported", key);
  if (c.has(kSink)) return unsupported("head_sink of GroupQueryAttention is not supported");
  if (c.has(kPastKey) != c.has(kPastValue)) return invalid("past_key and past_value stand together");
  if (!c.has(kSeqlens)) return invalid("seqlens_k is left out");
  if (!c.has(kTotal)) return invalid("total_sequence_length is left out");
  return Ok{};
}

struct Inputs {
  ir::Value *q, *k, *v;
  ir::Value* total;  // i64[]
  ir::Value* last;   // [batch, 1], where the last key stands
  ir::Value* begin;  // [batch, 1], where the first of the new places stands: 0 where the new ones are all there are
};

// What a query may look at: [batch, 1, 1, places, keys]. One behind the batch's keys, of a prompt that is filled up,
// has no key of its own, and looks at the last one at least.
ir::Value* mask_of(Composed& c, const ir::Node& node, const Inputs& in, ir::Value* queries, ir::Value* keys,
                   DType type) {
  ir::Value* own = c.op("add", {in.begin, unsqueezed(c, counted(c, queries), {0})});  // [batch, places]
  const auto held = [&](ir::Value* place) { return unsqueezed(c, c.op("min", {place, in.last}), {1, 2, 4}); };
  ir::Value* key = counted(c, keys);
  ir::Value* seen = c.op("less_or_equal", {key, held(own)});
  if (const int64_t window = node.i("local_window_size", -1); window > 0) {
    ir::Value* first = c.op("sub", {own, c.scalar(DType::kI64, window - 1)});
    seen = c.op("and", {seen, c.op("greater_or_equal", {key, held(first)})});
  }
  return c.op("where", {seen, c.scalar(type, 0), c.scalar(type, -INFINITY)});
}

Inputs inputs_of(Composed& c, const Sizes& s) {
  Inputs in{};
  if (c.has(kKey)) {
    in.q = by_heads(c, c.in(kQuery), s.heads);
    in.k = by_heads(c, c.in(kKey), s.shared);
    in.v = by_heads(c, c.in(kValue), s.shared);
  } else {
    const int64_t q = s.heads * s.depth, kv = s.shared * s.depth;
    in.q = by_heads(c, c.slice(c.in(kQuery), 2, 0, q), s.heads);
    in.k = by_heads(c, c.slice(c.in(kQuery), 2, q, q + kv), s.shared);
    in.v = by_heads(c, c.slice(c.in(kQuery), 2, q + kv, q + 2 * kv), s.shared);
  }
  in.last = c.op("reshape", {c.cast(c.in(kSeqlens), DType::kI64), c.ints({-1, 1})});
  ir::Value* length = c.op("add", {in.last, c.scalar(DType::kI64, 1)});
  ir::Value *queries = size_of(c, in.q, 2), *zero = c.scalar(DType::kI64, 0);
  in.total = c.op("reshape", {c.cast(c.in(kTotal), DType::kI64), c.ints({})});
  in.begin = c.op("max", {c.op("sub", {length, queries}), zero});
  in.begin = c.op("where", {c.op("equal", {queries, in.total}), zero, in.begin});
  return in;
}

// The cache of as many places as the past has, or as many as there are keys in all if these are more: what the batch
// has of the past, the new ones behind it, then zeros.
ir::Value* present(Composed& c, const Sizes& s, const Inputs& in, ir::Value* past, ir::Value* now) {
  if (!past) return now;
  ir::Value *had = size_of(c, past, 2), *zero = c.scalar(past->type.dtype, 0);
  ir::Value* more = c.op("sub", {c.op("max", {had, in.total}), had});
  ir::Value* batch = c.op("shape", {past}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  ir::Value* shape =
      c.op("concat", {batch, c.ints({s.shared}), unsqueezed(c, more, {0}), c.ints({s.depth})}, {{"axis", int64_t{0}}});
  ir::Value* all = c.op("concat", {past, c.op("expand", {zero, shape})}, {{"axis", int64_t{2}}});
  ir::Value* place = unsqueezed(c, counted(c, size_of(c, all, 2)), {0, 1, 3});
  all = c.op("where", {c.op("less", {place, unsqueezed(c, in.begin, {2, 3})}), all, zero});
  return c.op("tensor_scatter", {all, now, c.op("squeeze", {in.begin, c.ints({1})})}, {{"axis", int64_t{2}}});
}

// The places of a cache that hold keys.
ir::Value* filled(Composed& c, const Inputs& in, ir::Value* cache) {
  if (!c.has(kPastKey)) return cache;
  return c.op("slice", {cache, c.ints({0}), unsqueezed(c, in.total, {0}), c.ints({2})});
}

Status grouped(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  PERI_TRY(check(c, node));
  PERI_ASSIGN(const Sizes s, sizes_of(c, node));
  const DType type = c.in(kQuery)->type.dtype;
  Inputs in = inputs_of(c, s);
  ir::Value* queries = size_of(c, in.q, 2);
  if (node.i("do_rotary") != 0) {
    if (!c.has(kCos) || !c.has(kSin)) return invalid("cos_cache or sin_cache is left out");
    ir::Value* ids = c.has(kPlaces) ? c.in(kPlaces) : c.op("add", {in.begin, unsqueezed(c, counted(c, queries), {0})});
    const ir::Attrs attrs = {{"interleaved", node.i("rotary_interleaved")},
                             {"rotary_embedding_dim", 2 * c.in(kCos)->type.shape->back().value()}};
    in.q = c.op("rotary_embedding", {in.q, c.in(kCos), c.in(kSin), ids}, attrs);
    in.k = c.op("rotary_embedding", {in.k, c.in(kCos), c.in(kSin), ids}, attrs);
  }
  ir::Value* keys = present(c, s, in, c.has(kPastKey) ? c.in(kPastKey) : nullptr, in.k);
  ir::Value* values = present(c, s, in, c.has(kPastValue) ? c.in(kPastValue) : nullptr, in.v);
  c.give(1, keys);
  c.give(2, values);
  keys = filled(c, in, keys);
  values = filled(c, in, values);
  // [batch, shared, group, places, depth] by [batch, shared, 1, depth, keys]
  ir::Value* q = c.op("reshape", {in.q, c.ints({0, s.shared, s.group(), -1, s.depth})});
  ir::Value* turned = c.op("transpose", {keys}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const double said = node.f("scale", 0), scale = said != 0 ? said : 1 / std::sqrt(static_cast<double>(s.depth));
  ir::Value* scores = c.op("mul", {c.op("matmul", {q, unsqueezed(c, turned, {2})}), c.scalar(type, scale)});
  if (const double cap = node.f("softcap", 0); cap > 0)
    scores = c.op("mul", {c.op("tanh", {c.op("div", {scores, c.scalar(type, cap)})}), c.scalar(type, cap)});
  if (c.has(kBias)) {
    ir::Value* bias = c.in(kBias);  // [1 or batch, 1 or heads, places, keys]
    const Dim& per_head = (*bias->type.shape)[1];
    if (!per_head.is_const()) return unsupported("an attention_bias of a free number of heads");
    const int64_t n = per_head.value();
    bias = n == 1 ? unsqueezed(c, bias, {2})
                  : c.op("reshape", {c.op("unsqueeze", {bias, c.ints({1})}),
                                     c.op("concat",
                                          {c.op("shape", {bias}, {{"start", int64_t{0}}, {"end", int64_t{1}}}),
                                           c.ints({s.shared, s.group()}),
                                           c.op("shape", {bias}, {{"start", int64_t{2}}, {"end", int64_t{4}}})},
                                          {{"axis", int64_t{0}}})});
    scores = c.op("add", {scores, bias});
  }
  scores = c.op("add", {scores, mask_of(c, node, in, queries, size_of(c, keys, 2), type)});
  ir::Value* y = c.op("matmul", {c.op("softmax", {scores}, {{"axis", int64_t{-1}}}), unsqueezed(c, values, {2})});
  y = c.op("transpose", {y}, {{"perm", std::vector<int64_t>{0, 3, 1, 2, 4}}});
  c.give(0, c.op("reshape", {y, c.ints({0, 0, s.heads * s.depth})}));
  return c.done();
}

std::vector<OpDef> definitions() {
  const auto optional = [](std::string_view name, TypeSet t) { return Port{name, t, true}; };
  const auto zero = [](std::string_view name, AttrKind kind) { return AttrSpec{name, kind, false, "0"}; };
  return {composed("group_query_attention", "GroupQueryAttention",
                   {{"query", kFloats},
                    optional("key", kFloats),
                    optional("value", kFloats),
                    optional("past_key", kFloats),
                    optional("past_value", kFloats),
                    optional("seqlens_k", kIndex),
                    optional("total_sequence_length", kIndex),
                    optional("cos_cache", kFloats),
                    optional("sin_cache", kFloats),
                    optional("position_ids", kIndex),
                    optional("attention_bias", kFloats),
                    optional("head_sink", kFloats)},
                   {{"y"}, {"present_key", kAnyType, true}, {"present_value", kAnyType, true}},
                   {{"num_heads", AttrKind::kInt, true},
                    {"kv_num_heads", AttrKind::kInt, true},
                    zero("do_rotary", AttrKind::kInt),
                    zero("kv_cache_bit_width", AttrKind::kInt),
                    {"local_window_size", AttrKind::kInt, false, "-1: no bound"},
                    zero("qk_output", AttrKind::kInt),
                    zero("rotary_interleaved", AttrKind::kInt),
                    {"scale", AttrKind::kFloat, false, "1 / sqrt(depth)"},
                    zero("smooth_softmax", AttrKind::kInt),
                    {"softcap", AttrKind::kFloat, false, "0: none"},
                    {"k_quant_type", AttrKind::kString, false, "NONE"},
                    {"v_quant_type", AttrKind::kString, false, "NONE"}},
                   grouped)};
}
}  // namespace

extern const Entry microsoft_grouped_attention_entry;
const Entry microsoft_grouped_attention_entry{definitions()};

}  // namespace peri::ops
