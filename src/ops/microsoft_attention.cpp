// Attention, QAttention, MultiHeadAttention and RotaryEmbedding of com.microsoft, expanded to products, a softmax and
// views, which a pass fuses again.
#include <cmath>
#include <limits>

#include "ops/reference/quantized.hpp"
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

// What both have: queries, keys and values as [batch, heads, places, depth], and what is added to the scores.
struct Heads {
  ir::Value *q = nullptr, *k = nullptr, *v = nullptr, *add = nullptr;
  int64_t depth = 0;          // of a head of q
  ir::Value* past = nullptr;  // i64[], the number of keys before those of q; null: none
  bool own = true;            // the new keys are as many as the queries
};

ir::Value* split_heads(Composed& c, ir::Value* x, int64_t heads) {
  return c.op("transpose", {c.op("reshape", {x, c.ints({0, 0, heads, -1})})},
              {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}
ir::Value* unsqueezed(Composed& c, ir::Value* x, std::vector<int64_t> axes) {
  return c.op("unsqueeze", {x, c.ints(std::move(axes))});
}
ir::Value* size_of(Composed& c, ir::Value* x, int64_t axis) {
  ir::Value* const list = c.op("shape", {x}, {{"start", axis}, {"end", axis + 1}});
  return c.op("squeeze", {list, c.ints({0})});
}
ir::Value* places(Composed& c, ir::Value* count) {
  return c.op("range", {c.scalar(DType::kI64, 0), count, c.scalar(DType::kI64, 1)});
}
void add_to(Composed& c, ir::Value** sum, ir::Value* v) { *sum = *sum ? c.op("add", {*sum, v}) : v; }

// True for the keys that count, as [batch, keys]: those before the end that `mask` has of each batch, which as many
// first keys may follow, or the places of queries and of keys in lists of all batches, which say nothing more.
Result<ir::Value*> mask_of_ends(Composed& c, ir::Value* mask, const Dim& batch, ir::Value* k) {
  const Dim given = (*mask->type.shape)[0];
  const bool begins = given == batch * 2;
  if (!begins && !(given == batch) && !(given == batch * 3 + 2))
    return unsupported("a mask of one axis has an end for each batch, or an end and a first key")
        .expecting("[" + batch.text() + "] or [" + (batch * 2).text() + "]")
        .but_found(shape_text(*mask->type.shape));
  if (given == batch * 3 + 2)
    mask = c.op("slice", {mask, c.ints({0}), c.op("shape", {c.in(0)}, {{"start", int64_t{0}}, {"end", int64_t{1}}})});
  ir::Value* const at = unsqueezed(c, places(c, size_of(c, k, 2)), {0});
  ir::Value* const both = c.op("reshape", {c.cast(mask, DType::kI64), c.ints({begins ? 2 : 1, -1, 1})});
  const auto of = [&](int64_t which) { return c.op("squeeze", {c.slice(both, 0, which, which + 1), c.ints({0})}); };
  ir::Value* kept = c.op("less", {at, of(0)});
  if (begins) kept = c.op("and", {kept, c.op("greater_or_equal", {at, of(1)})});
  return kept;
}

// As for ONNX Runtime, a key counts whose mask is above 0.
ir::Value* counting(Composed& c, ir::Value* mask) { return c.op("greater", {mask, c.scalar(mask->type.dtype, 0)}); }

// 0 where a key counts, the filter's value where not: of [batch, keys] or [batch, queries, keys].
Result<ir::Value*> mask_of(Composed& c, ir::Value* mask, size_t rank, DType to, double filter) {
  if (rank != 2 && rank != 3)
    return unsupported("a mask of rank %zu is not supported", rank)
        .expecting("[batch, keys] or [batch, queries, keys]")
        .advise("export the model with a mask of zeros and ones");
  ir::Value* const kept =
      c.cast(unsqueezed(c, mask, rank == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}), to);
  return c.op("mul", {c.op("sub", {c.scalar(to, 1), kept}), c.scalar(to, filter)});
}

// The least finite value of a type, with which ONNX Runtime hides what is not to be seen.
double lowest(DType type) {
  return type == DType::kF16    ? -65504
         : type == DType::kBF16 ? -0x1.fep127
         : type == DType::kF64  ? std::numeric_limits<double>::lowest()
                                : static_cast<double>(std::numeric_limits<float>::lowest());
}

// A query sees keys up to its own place behind the past, whatever else is added to the others. As for ONNX Runtime, the
// last one sees all where there are more keys than these.
ir::Value* causal_mask(Composed& c, const Heads& h, DType to) {
  ir::Value *const queries = size_of(c, h.q, 2), *const counted = places(c, queries);
  ir::Value* const own = unsqueezed(c, h.past ? c.op("add", {counted, h.past}) : counted, {1});
  ir::Value* seen = c.op("less_or_equal", {unsqueezed(c, places(c, size_of(c, h.k, 2)), {0}), own});
  if (!h.own) {
    ir::Value* const last = c.op("equal", {counted, c.op("sub", {queries, c.scalar(DType::kI64, 1)})});
    seen = c.op("or", {seen, unsqueezed(c, last, {1})});
  }
  if (!h.add) return c.op("where", {seen, c.scalar(to, 0), c.scalar(to, -INFINITY)});
  return c.op("where", {seen, h.add, c.scalar(to, lowest(to))});
}

// softmax(q k' scale + what is added) v, by heads, as output 0.
void give_attention(Composed& c, const ir::Node& node, Heads h, DType type) {
  const double said = node.f("scale", 0), scale = said != 0 ? said : 1 / std::sqrt(static_cast<double>(h.depth));
  ir::Value* scores = c.op("matmul", {h.q, c.op("transpose", {h.k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}})});
  scores = c.op("mul", {scores, c.scalar(type, scale)});
  if (node.i("unidirectional") != 0) h.add = causal_mask(c, h, type);
  if (h.add) scores = c.op("add", {scores, h.add});
  ir::Value* const y = c.op("matmul", {c.op("softmax", {scores}, {{"axis", int64_t{-1}}}), h.v});
  c.give(0,
         c.op("reshape", {c.op("transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), c.ints({0, 0, -1})}));
}

Result<int64_t> heads_of(const ir::Node& node, const Dim& hidden) {
  const int64_t heads = node.i("num_heads");
  if (!hidden.is_const())
    return unsupported("how long a head is follows from the hidden size, '%s', which must be a number",
                       hidden.text().c_str());
  if (heads < 1 || hidden.value() % heads != 0)
    return invalid("num_heads does not divide the hidden size")
        .expecting("a divisor of " + hidden.text())
        .but_found(std::to_string(heads));
  return heads;
}

// Queries, keys and values as they stand in one product of the input, and what goes with them.
struct Packed {
  ir::Value *all = nullptr, *past = nullptr, *mask = nullptr, *scores = nullptr;
  std::vector<int64_t> sizes;
};

Status check_packed(const ir::Node& node, const ir::Value* weights, Packed* p) {
  if (node.i("do_rotary") != 0 || node.i("past_present_share_buffer") != 0)
    return unsupported("do_rotary and past_present_share_buffer are not supported");
  const Shape &x = *node.in(0)->type.shape, &w = *weights->type.shape;
  if (x.size() != 3)
    return invalid("the input has a wrong shape").expecting("[batch, places, inputs]").but_found(shape_text(x));
  if (w.size() != 2 || !w[1].is_const())
    return invalid("the weights have a wrong shape").expecting("[inputs, 3 * hidden]");
  p->sizes = node.ints("qkv_hidden_sizes");
  if (p->sizes.empty()) p->sizes.assign(3, w[1].value() / 3);
  if (p->sizes.size() != 3 || p->sizes[0] != p->sizes[1] || p->sizes[0] < 1 ||
      p->sizes[0] + p->sizes[1] + p->sizes[2] != w[1].value())
    return invalid("qkv_hidden_sizes do not fit the weights").but_found(shape_text(w));
  return Ok{};
}

Status give_packed(Composed& c, const ir::Node& node, const Packed& p, DType type) {
  PERI_ASSIGN(const int64_t heads, heads_of(node, Dim(p.sizes[0])));
  const int64_t keys = p.sizes[0], values = 2 * p.sizes[0];
  Heads h;
  h.depth = keys / heads;
  h.q = split_heads(c, c.slice(p.all, 2, 0, keys), heads);
  h.k = split_heads(c, c.slice(p.all, 2, keys, values), heads);
  h.v = split_heads(c, c.slice(p.all, 2, values, values + p.sizes[2]), heads);
  if (p.past) {
    const auto before = [&](int64_t which) {
      return c.op("squeeze", {c.slice(p.past, 0, which, which + 1), c.ints({0})});
    };
    h.past = size_of(c, p.past, 3);
    h.k = c.op("concat", {before(0), h.k}, {{"axis", int64_t{2}}});
    h.v = c.op("concat", {before(1), h.v}, {{"axis", int64_t{2}}});
  }
  if (c.wants(1)) c.give(1, c.op("concat", {unsqueezed(c, h.k, {0}), unsqueezed(c, h.v, {0})}, {{"axis", int64_t{0}}}));
  if (ir::Value* mask = p.mask) {
    size_t rank = mask->type.rank();
    if (rank == 1) {
      PERI_ASSIGN(mask, mask_of_ends(c, mask, (*c.in(0)->type.shape)[0], h.k));
      rank = 2;
    } else {
      mask = counting(c, mask);
    }
    PERI_ASSIGN(h.add, mask_of(c, mask, rank, type, node.f("mask_filter_value", -10000)));
  }
  if (p.scores) add_to(c, &h.add, p.scores);
  give_attention(c, node, h, type);
  return c.done();
}

Status attention(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kInput, kWeights, kBias, kMask, kPast, kScores };
  Composed c(graph, node);
  Packed p{nullptr, c.in(kPast), c.in(kMask), c.in(kScores), {}};
  PERI_TRY(check_packed(node, c.in(kWeights), &p));
  p.all = c.op("matmul", {c.in(kInput), c.in(kWeights)});
  if (c.has(kBias)) p.all = c.op("add", {p.all, c.in(kBias)});
  return give_packed(c, node, p, c.in(kInput)->type.dtype);
}

// The same of bytes, whose product is scaled.
Status byte_attention(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kInput, kWeights, kBias, kInputScale, kWeightScale, kMask, kInputZero, kWeightZero, kPast };
  Composed c(graph, node);
  Packed p{nullptr, c.in(kPast), c.in(kMask), nullptr, {}};
  PERI_TRY(check_packed(node, c.in(kWeights), &p));
  const DType type = c.in(kBias)->type.dtype;
  std::vector<ir::Value*> inputs = {c.in(kInput), c.in(kWeights), c.in(kInputZero), c.in(kWeightZero)};
  while (!inputs.back()) inputs.pop_back();
  ir::Value* const scale = c.op("mul", {c.in(kInputScale), c.in(kWeightScale)});
  p.all = c.op("add", {c.op("mul", {c.cast(c.op("matmul_integer", inputs), type), scale}), c.in(kBias)});
  return give_packed(c, node, p, type);
}

Status multi_head(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kQ, kK, kV, kBias, kMask, kScores, kPastK, kPastV, kPastLength, kIndirection };
  Composed c(graph, node);
  if (!c.has(kK) || !c.has(kV) || c.in(kQ)->type.rank() != 3 || c.has(kPastLength) || c.has(kIndirection))
    return unsupported("packed queries, keys and values and shared caches are not supported")
        .expecting("query, key and value of their own");
  const DType type = c.in(kQ)->type.dtype;
  const Dim &hidden = (*c.in(kQ)->type.shape)[2], &values = c.in(kV)->type.shape->back();
  PERI_ASSIGN(const int64_t heads, heads_of(node, hidden));
  Heads h;
  h.depth = hidden.value() / heads;
  // Each with its part of the bias; of rank 4 it is by heads already.
  const auto side = [&](size_t port, int64_t begin, int64_t end) {
    ir::Value* x = c.in(port);
    if (x->type.rank() == 4) return x;
    if (c.has(kBias)) x = c.op("add", {x, c.slice(c.in(kBias), 0, begin, end)});
    return split_heads(c, x, heads);
  };
  const int64_t width = hidden.value();
  h.q = side(kQ, 0, width);
  h.k = side(kK, width, 2 * width);
  h.v = side(kV, 2 * width, 2 * width + (values.is_const() ? values.value() : width));
  const auto places_of = [&](size_t port) { return (*c.in(port)->type.shape)[c.in(port)->type.rank() == 4 ? 2 : 1]; };
  h.own = places_of(kK) == places_of(kQ);
  if (c.has(kPastK) && c.has(kPastV)) {
    h.past = size_of(c, c.in(kPastK), 2);
    h.k = c.op("concat", {c.in(kPastK), h.k}, {{"axis", int64_t{2}}});
    h.v = c.op("concat", {c.in(kPastV), h.v}, {{"axis", int64_t{2}}});
  }
  c.give(1, h.k);
  c.give(2, h.v);
  if (ir::Value* mask = c.in(kMask)) {
    size_t rank = mask->type.rank();
    if (rank == 1) {
      PERI_ASSIGN(mask, mask_of_ends(c, mask, (*c.in(kQ)->type.shape)[0], h.k));
      rank = 2;
    } else {
      mask = counting(c, mask);
    }
    PERI_ASSIGN(h.add, mask_of(c, mask, rank, type, node.f("mask_filter_value", -10000)));
  }
  if (c.has(kScores)) add_to(c, &h.add, c.in(kScores));
  give_attention(c, node, h, type);
  return c.done();
}

// Places are named by position_ids, or all follow the one that it holds.
Status rotary(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kX, kIds, kCos, kSin };
  Composed c(graph, node);
  if (node.i("is_packed_batching") != 0 || node.f("scale", 1) != 1)
    return unsupported("is_packed_batching and a scale are not supported");
  const Shape &x = *c.in(kX)->type.shape, &table = *c.in(kCos)->type.shape;
  ir::Value* ids = c.in(kIds);
  if (ids->type.rank() != 2) {
    ir::Value* const count = size_of(c, c.in(kX), static_cast<int64_t>(x.size()) - 2);
    ir::Value* const row = unsqueezed(c, c.op("add", {places(c, count), ids}), {0});
    ir::Value* const batch = c.op("shape", {c.in(kX)}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    ids = c.op("expand", {row, c.op("concat", {batch, c.ints({1})}, {{"axis", int64_t{0}}})});
  }
  const int64_t turned = node.i("rotary_embedding_dim");
  int64_t heads = node.i("num_heads");
  if (x.size() == 3 && heads == 0) {
    if (!x[2].is_const() || !table.back().is_const() || table.back().value() < 1)
      return unsupported("num_heads is not known").advise("export the model with num_heads");
    heads = x[2].value() / (2 * table.back().value());
  }
  ir::Attrs attrs = {{"interleaved", node.i("interleaved")}, {"rotary_embedding_dim", turned}};
  if (x.size() == 3) attrs["num_heads"] = heads;
  c.give(0, c.op("rotary_embedding", {c.in(kX), c.in(kCos), c.in(kSin), ids}, attrs));
  return c.done();
}

std::vector<OpDef> definitions() {
  const auto optional = [](std::string_view name, TypeSet t) { return Port{name, t, true}; };
  const AttrSpec heads{"num_heads", AttrKind::kInt, true}, scale{"scale", AttrKind::kFloat, false, "1 / sqrt(depth)"},
      filter{"mask_filter_value", AttrKind::kFloat, false, "-10000"},
      causal{"unidirectional", AttrKind::kInt, false, "0"}, turned{"rotary_embedding_dim", AttrKind::kInt, false, "0"};
  return {composed("microsoft_attention", "Attention",
                   {{"input", kFloats},
                    {"weights", kFloats},
                    Port{"bias", kFloats, true, false, -1, Role::kBias},
                    optional("mask_index", kIndex),
                    optional("past", kFloats),
                    optional("attention_bias", kFloats)},
                   {{"y"}, {"present", kAnyType, true}},
                   {heads,
                    scale,
                    filter,
                    causal,
                    {"qkv_hidden_sizes", AttrKind::kInts, false, "a third each"},
                    {"do_rotary", AttrKind::kInt, false, "0"},
                    turned,
                    {"past_present_share_buffer", AttrKind::kInt, false, "0"}},
                   attention),
          composed("qattention", "QAttention",
                   {{"input", kBytes},
                    {"weights", kBytes},
                    {"bias", kFloats, false, false, -1, Role::kBias},
                    {"input_scale", kFloats},
                    {"weight_scale", kFloats},
                    optional("mask_index", kIndex),
                    optional("input_zero_point", kBytes),
                    optional("weight_zero_point", kBytes),
                    optional("past", kFloats)},
                   {{"y"}, {"present", kAnyType, true}},
                   {heads,
                    scale,
                    filter,
                    causal,
                    {"do_rotary", AttrKind::kInt, false, "0"},
                    {"past_present_share_buffer", AttrKind::kInt, false, "0"}},
                   byte_attention),
          composed("multi_head_attention", "MultiHeadAttention",
                   {{"query", kFloats},
                    optional("key", kFloats),
                    optional("value", kFloats),
                    Port{"bias", kFloats, true, false, -1, Role::kBias},
                    optional("key_padding_mask", kIndex),
                    optional("attention_bias", kFloats),
                    optional("past_key", kFloats),
                    optional("past_value", kFloats),
                    optional("past_sequence_length", kIndex),
                    optional("cache_indirection", kIndex)},
                   {{"y"}, {"present_key", kAnyType, true}, {"present_value", kAnyType, true}},
                   {heads, scale, filter, causal}, multi_head),
          composed("microsoft_rotary_embedding", "RotaryEmbedding",
                   {{"x", kFloats}, {"position_ids", kIndex}, {"cos_cache", kFloats}, {"sin_cache", kFloats}}, {{"y"}},
                   {{"interleaved", AttrKind::kInt, false, "0"},
                    {"is_packed_batching", AttrKind::kInt, false, "0"},
                    {"num_heads", AttrKind::kInt, false, "0"},
                    turned,
                    {"scale", AttrKind::kFloat, false, "1"}},
                   rotary)};
}
}  // namespace

extern const Entry microsoft_attention_entry;
const Entry microsoft_attention_entry{definitions()};

}  // namespace peri::ops
