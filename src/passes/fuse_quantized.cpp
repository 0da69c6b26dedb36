// Pass fuse_quantized: convolutions and products of dequantised numbers become those of the bytes.
#include <cmath>

#include "passes/entry.hpp"
#include "passes/rewrite/quantized.hpp"

namespace peri::passes {
namespace {

// A convolution or product whose sides are dequantised, the right one constant or one scale for all of it.
struct Product {
  Quantized a, b;
  bool conv = false, transposed = false;
  int64_t columns = 0;
  ir::Value* bias = nullptr;    // int32, in units of the sums; null: none
  std::vector<double> numbers;  // the bias where it was not quantised so: as many as columns, or none
  bool has_bias() const { return bias || !numbers.empty(); }
  double unit(int64_t column) const { return a.scale->constant->f64(0) * element(b.scale, column); }
};

bool one_a_column(const Product& p, const Tensor& t) { return t.rank() == 1 && t.numel() == p.columns; }

// The bias in units of the sums, where it was quantised so, else its numbers.
bool read_bias(const ir::Node& n, Product* p) {
  if (!n.in(2)) return true;
  const auto bias = dequantized(n.in(2));
  const ir::Value* held = bias ? bias->bytes : n.in(2);
  if (!held || !held->constant || !one_a_column(*p, *held->constant)) return false;
  const Tensor& t = *held->constant;
  bool same = bias && t.dtype() == DType::kI32;
  for (int64_t k = 0; bias && k < p->columns; ++k) {
    same = same && std::fabs(element(bias->scale, k) - p->unit(k)) <= 1e-6 * p->unit(k) &&
           (!bias->zero || element(bias->zero, k) == 0);
  }
  if (same) {
    p->bias = bias->bytes;
    return true;
  }
  for (int64_t k = 0; k < p->columns; ++k) {
    const double v =
        bias ? (static_cast<double>(t.i64(k)) - (bias->zero ? element(bias->zero, k) : 0)) * element(bias->scale, k)
             : t.f64(k);
    if (!std::isfinite(v) || !(p->unit(k) > 1e-30)) return false;  // float32 has room beside it to divide by it
    p->numbers.push_back(v);
  }
  return true;
}

std::optional<Product> product_at(const ir::Node* n) {
  if (!n || (n->op != "conv" && n->op != "matmul" && n->op != "gemm")) return std::nullopt;
  const auto a = dequantized(n->in(0)), b = dequantized(n->in(1));
  if (!a || !b || !a->one()) return std::nullopt;
  const auto bytes = [](const Quantized& q) {
    return q.bytes->type.dtype == DType::kU8 || q.bytes->type.dtype == DType::kI8;
  };
  if (!bytes(*a) || !bytes(*b)) return std::nullopt;
  Product p{*a, *b, n->op == "conv", n->op == "gemm" && n->i("transB") != 0};
  const Shape& w = *b->bytes->type.shape;
  const size_t axis = p.conv || p.transposed ? 0 : w.size() - 1;
  if (w.size() < 2 || (p.conv && !b->bytes->constant)) return std::nullopt;
  if (!w[axis].is_const()) return b->one() && n->op == "matmul" ? std::optional(p) : std::nullopt;
  p.columns = w[axis].value();
  if (!b->one() && (wrap_axis(b->axis, w.size()) != static_cast<int64_t>(axis) ||
                    b->scale->constant->numel() != p.columns || (!p.conv && w.size() != 2)))
    return std::nullopt;
  if (n->op == "gemm" && (n->i("transA") != 0 || n->f("alpha", 1) != 1 || (n->in(2) && n->f("beta", 1) != 1)))
    return std::nullopt;
  if (p.transposed && !b->bytes->constant) return std::nullopt;
  return read_bias(*n, &p) ? std::optional(p) : std::nullopt;
}

// Bounds of bytes that stand for those of the numbers before they were rounded: none, a relu, or a clip.
struct Bounds {
  double low = -HUGE_VAL, high = HUGE_VAL;
};
std::optional<Bounds> bounds_of(const ir::Node& n) {
  if (n.op == "relu") return Bounds{0, HUGE_VAL};
  if (n.op != "clip") return std::nullopt;
  const auto low = n.in(1) ? scalar_of(n.in(1)) : std::optional(-HUGE_VAL),
             high = n.in(2) ? scalar_of(n.in(2)) : std::optional(HUGE_VAL);
  if (!low || !high || *low > *high) return std::nullopt;
  return Bounds{*low, *high};
}

// The bytes of a weight as the right side of a product.
Result<ir::Value*> right_side(Rewriter& w, const Product& p) {
  if (!p.transposed) return p.b.bytes;
  return w.transpose(p.b.bytes, {1, 0}, p.b.bytes);
}

// The bias as it is, float32.
ir::Value* numbers(Rewriter& w, const Product& p, const std::string& name) {
  auto t = Tensor::zeros(DType::kF32, {p.columns});
  PERI_CHECK(t.ok());
  for (int64_t k = 0; k < p.columns; ++k) t->set_f64(k, p.numbers[static_cast<size_t>(k)]);
  return w.graph().add_constant(name, std::move(t).value());
}

// y as bytes kept within `bounds`, which are numbers.
Result<ir::Value*> bounded(Rewriter& w, ir::Value* y, const Quantized& to, const Bounds& bounds) {
  const bool is_signed = y->type.dtype == DType::kI8;
  const double least = is_signed ? -128 : 0, most = least + 255, scale = to.scale->constant->f64(0),
               zero = to.zero ? static_cast<double>(to.zero->constant->i64(0)) : 0;
  const auto byte = [&](double v) {
    const double q = std::nearbyint(static_cast<double>(static_cast<float>(v / scale))) + zero;
    return std::fmin(std::fmax(q, least), most);
  };
  const double low = byte(bounds.low), high = byte(bounds.high);
  if (low == least && high == most) return y;
  return w.make("clip",
                {y, w.scalar(y->type.dtype, low, y->name + "_low"), w.scalar(y->type.dtype, high, y->name + "_high")},
                {}, y);
}

// quantize(bounds(product)).
Result<bool> to_bytes(Rewriter& w, ir::Node* n) {
  const auto to = quantized(*n);
  if (!to || !n->in(0)->producer) return false;
  std::vector<const ir::Node*> nodes = {n};
  const ir::Node* at = n->in(0)->producer;
  Bounds bounds;
  if (const auto b = bounds_of(*at); b && w.used_once(at->out()) && at->in(0)->producer) {
    bounds = *b;
    nodes.push_back(at);
    at = at->in(0)->producer;
  }
  const auto p = product_at(at);
  if (!p || !w.used_once(at->out()) || (p->has_bias() && !p->conv)) return false;
  nodes.push_back(at);
  nodes.push_back(p->a.node);
  nodes.push_back(p->b.node);
  w.standing_for(nodes);
  PERI_ASSIGN(ir::Value * right, right_side(w, *p));
  std::vector<ir::Value*> inputs = {p->a.bytes, p->a.scale,       zero_of(w, p->a), right,
                                    p->b.scale, zero_of(w, p->b), to->scale,        zero_of(w, *to)};
  if (p->bias) inputs.push_back(p->bias);
  if (!p->numbers.empty()) inputs.push_back(numbers(w, *p, at->name + "_bias"));
  PERI_ASSIGN(ir::Value * y, w.make(p->conv ? "qlinear_conv" : "qlinear_matmul", std::move(inputs),
                                    p->conv ? at->attrs : ir::Attrs{}, n->out()));
  PERI_ASSIGN(y, bounded(w, y, *to, bounds));
  w.replace(n->out(), y);
  return true;
}

// A product whose result stays float32: sums, cast and scaled.
Result<bool> to_floats(Rewriter& w, ir::Node* n) {
  const auto p = product_at(n);
  if (!p || p->columns == 0) return false;
  w.standing_for({n, p->a.node, p->b.node});
  PERI_ASSIGN(ir::Value * right, right_side(w, *p));
  std::vector<ir::Value*> inputs = {p->a.bytes, right, zero_of(w, p->a), zero_of(w, p->b)};
  PERI_ASSIGN(ir::Value * sums, w.make(p->conv ? "conv_integer" : "matmul_integer", std::move(inputs),
                                       p->conv ? n->attrs : ir::Attrs{}, n->out()));
  PERI_ASSIGN(ir::Value * y, w.make("cast", {sums}, {{"to", static_cast<int64_t>(DType::kF32)}}, n->out()));
  // One value a column, along the channels of an image.
  const auto columns = [&](std::string_view op, auto value) -> Result<ir::Value*> {
    std::vector<int64_t> dims = {p->columns};
    for (size_t d = 2; p->conv && d < n->out()->type.rank(); ++d) dims.push_back(1);
    if (p->conv) dims.insert(dims.begin(), 1);
    auto t = Tensor::zeros(DType::kF32, dims);
    PERI_CHECK(t.ok());
    for (int64_t k = 0; k < p->columns; ++k) t->set_f64(k, value(k));
    return w.make(op, {y, w.graph().add_constant(n->name + "_" + std::string(op), std::move(t).value())}, {}, n->out());
  };
  PERI_ASSIGN(y, columns("mul", [&](int64_t k) { return p->unit(k); }));
  if (p->has_bias()) {
    PERI_ASSIGN(y, columns("add", [&](int64_t k) {
                  return p->bias ? p->bias->constant->f64(k) * p->unit(k) : p->numbers[static_cast<size_t>(k)];
                }));
  }
  w.replace(n->out(), y);
  return true;
}

// Zero points of a right side that are all alike are one.
Result<bool> one_zero(Rewriter& w, ir::Node* n) {
  const bool scaled = n->op == "qlinear_conv" || n->op == "qlinear_matmul";
  if (!scaled && n->op != "conv_integer" && n->op != "matmul_integer") return false;
  const size_t port = scaled ? 5 : 3;
  const ir::Value* const zero = n->in(port);
  if (!zero || !zero->constant || zero->constant->numel() < 2) return false;
  for (int64_t k = 1; k < zero->constant->numel(); ++k)
    if (zero->constant->i64(k) != zero->constant->i64(0)) return false;
  std::vector<ir::Value*> inputs = n->inputs;
  inputs[port] = w.scalar(zero->type.dtype, static_cast<double>(zero->constant->i64(0)), zero->name + "_one");
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * y, w.make(n->op, std::move(inputs), n->attrs, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) {
  PERI_ASSIGN(const int64_t bytes, rewrite_all(graph, "fuse_quantized", to_bytes));
  PERI_ASSIGN(const int64_t floats, rewrite_all(graph, "fuse_quantized", to_floats));
  PERI_ASSIGN(const int64_t zeros, rewrite_all(graph, "fuse_quantized", one_zero));
  return bytes + floats + zeros;
}

}  // namespace

extern const Entry fuse_quantized_entry;
const Entry fuse_quantized_entry{{
    .name = "fuse_quantized",
    .contract =
        "Every conv, matmul and gemm of dequantised bytes by constant scales is one of the bytes: qlinear_conv or "
        "qlinear_matmul where the result is quantised again, a relu or clip between the two included, else sums "
        "that are cast and scaled. A bias is int32 in the sums' units, or float32 as it is. Sums are exact. "
        "Zero points of weights that are all alike are one. It stands "
        "before constants are folded, which would make "
        "weights of bytes weights of float32.",
    .run = run,
    .examples =
        {{"convolution, bias, relu",
          "graph { input x: u8[1,2,5,5]; const s: f32[] = [0.5]; const z: u8[] = [3]; const w: i8[2,2,1,1] = [1, 2, "
          "-3, "
          "4]; const t: f32[2] = [0.25, 0.5]; const v: i8[2] = [0, 0]; const b: i32[2] = [7, -9]; const u: f32[2] = "
          "[0.125, 0.25]; const q: f32[] = [2.0]; const r: u8[] = [5]; a = dequantize_linear(x, s, z); c = "
          "dequantize_linear(w, t, v) {axis=0}; d = dequantize_linear(b, u) {axis=0}; e = conv(a, c, d); f = relu(e); "
          "y "
          "= quantize_linear(f, q, r); output y }",
          "graph { input x: u8[1,2,5,5]; const s: f32[] = [0.5]; const z: u8[] = [3]; const w: i8[2,2,1,1] = [1, 2, "
          "-3, "
          "4]; const t: f32[2] = [0.25, 0.5]; const v: i8[] = [0]; const b: i32[2] = [7, -9]; const q: f32[] = "
          "[2.0]; const r: u8[] = [5]; const l: u8[] = [5]; const h: u8[] = [255]; e = qlinear_conv(x, s, z, w, t, v, "
          "q, "
          "r, b); y = clip(e, l, h); output y }"},
         {"both sides made while running",
          "graph { input x: u8[2,3,4]; input w: i8[2,4,5]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; const q: "
          "f32[] = [2.0]; const r: i8[] = [5]; a = dequantize_linear(x, s); c = dequantize_linear(w, t); e = matmul(a, "
          "c); y = quantize_linear(e, q, r); output y }",
          "graph { input x: u8[2,3,4]; input w: i8[2,4,5]; const s: f32[] = [0.5]; const t: f32[] = [0.25]; const q: "
          "f32[] = [2.0]; const r: i8[] = [5]; const z: u8[] = [0]; const v: i8[] = [0]; y = qlinear_matmul(x, s, z, "
          "w, "
          "t, v, q, r); output y }"},
         {"a result that stays float32",
          "graph { input x: u8[2,2]; const s: f32[] = [0.5]; const z: u8[] = [3]; const w: i8[2,2] = [1, 2, -3, 4]; "
          "const "
          "t: f32[] = [0.25]; const v: i8[] = [0]; a = dequantize_linear(x, s, z); c = dequantize_linear(w, t, v); y = "
          "matmul(a, c); output y }",
          "graph { input x: u8[2,2]; const z: u8[] = [3]; const w: i8[2,2] = [1, 2, -3, 4]; const v: i8[] = [0]; const "
          "t: "
          "f32[2] = [0.125, 0.125]; e = matmul_integer(x, w, z, v); f = cast(e) {to=1}; y = mul(f, t); output y }"},
         {"a bias in float32",
          "graph { input x: u8[1,1,5,5]; const s: f32[] = [0.5]; const w: i8[1,1,1,1] = [1]; const t: f32[] = [0.25]; "
          "const b: f32[1] = [0.3]; const q: f32[] = [2.0]; const r: u8[] = [5]; a = dequantize_linear(x, s); c = "
          "dequantize_linear(w, t); e = conv(a, c, b); y = quantize_linear(e, q, r); output y }",
          "graph { input x: u8[1,1,5,5]; const s: f32[] = [0.5]; const w: i8[1,1,1,1] = [1]; const t: f32[] = [0.25]; "
          "const b: f32[1] = [0.3]; const q: f32[] = [2.0]; const r: u8[] = [5]; const z: u8[] = [0]; const v: i8[] = "
          "[0]; y = qlinear_conv(x, s, z, w, t, v, q, r, b); output y }"},
         {"a bias quantised in other units, a result that stays float32",
          "graph { input x: u8[1,1,5,5]; const s: f32[] = [0.5]; const w: i8[1,1,1,1] = [1]; const t: f32[] = [0.25]; "
          "const b: i32[1] = [4]; const u: f32[] = [0.5]; const o: i32[] = [1]; a = dequantize_linear(x, s); c = "
          "dequantize_linear(w, t); d = dequantize_linear(b, u, o); y = conv(a, c, d); output y }",
          "graph { input x: u8[1,1,5,5]; const w: i8[1,1,1,1] = [1]; const z: u8[] = [0]; const v: i8[] = [0]; const "
          "m: f32[1,1,1,1] = [0.125]; const b: f32[1,1,1,1] = [1.5]; e = conv_integer(x, w, z, v); f = cast(e) "
          "{to=1}; g = mul(f, m); y = add(g, b); output y }"},
         {"a bias that is made while running stays",
          "graph { input x: u8[1,1,5,5]; input b: f32[1]; const s: f32[] = [0.5]; const w: i8[1,1,1,1] = [1]; const t: "
          "f32[] = [0.25]; a = dequantize_linear(x, s); c = dequantize_linear(w, t); y = conv(a, c, b); output y }",
          "graph { input x: u8[1,1,5,5]; input b: f32[1]; const s: f32[] = [0.5]; const w: i8[1,1,1,1] = [1]; const t: "
          "f32[] = [0.25]; a = dequantize_linear(x, s); c = dequantize_linear(w, t); y = conv(a, c, b); output y }"}},
}};

}  // namespace peri::passes
