// Kernel cuda_map: one element-wise op on numbers of any type on a GPU, for which block code has no registers or no
// instruction: integers of every width, float64, casts, bits, the rarer functions.
#include <cmath>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// Registers: floats as float, float64 as double, integers as 64 bits, bool.
enum class Kind { kFloat, kWhole, kBool };
Kind kind_of(DType t) { return is_float(t) ? Kind::kFloat : t == DType::kBool ? Kind::kBool : Kind::kWhole; }

std::string register_of(DType t) {
  if (t == DType::kF64) return "double";
  if (t == DType::kU64) return "peri_u64";
  return is_float(t) ? "float" : t == DType::kBool ? "bool" : "peri_i64";
}

constexpr std::string_view kFunctions = R"(
PERI_DEVICE peri_i64 peri_whole(const double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0) return 9223372036854775807ll;
  return v < -9223372036854775808.0 ? -9223372036854775807ll - 1 : (peri_i64)v;
}
PERI_DEVICE peri_u64 peri_whole_unsigned(const double v) {
  if (v >= 18446744073709551616.0) return ~0ull;
  return v >= 9223372036854775808.0 ? (peri_u64)v : (peri_u64)peri_whole(v);
}
template <class T> PERI_DEVICE T peri_divided(const T a, const T b) {
  if (b == 0) return 0;
  return b == (T)-1 && (T)-1 < 0 ? (T)(0 - (peri_u64)a) : a / b;
}
template <class T> PERI_DEVICE T peri_remainder(const T a, const T b, const bool truncate) {
  if (b == 0 || (b == (T)-1 && (T)-1 < 0)) return 0;
  const T r = a % b;
  return !truncate && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T> PERI_DEVICE T peri_float_remainder(const T a, const T b, const bool truncate) {
  const T r = fmod(a, b);
  if (truncate || r != r) return r;
  if (r == 0) return copysign((T)0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
template <class T> PERI_DEVICE T peri_whole_power(T x, peri_i64 y) {
  if (y < 0) return x == 1 ? 1 : x == (T)-1 ? (y % 2 ? (T)-1 : 1) : 0;
  T out = 1;
  for (; y; y >>= 1) {
    if (y & 1) out = (T)((peri_u64)out * (peri_u64)x);
    x = (T)((peri_u64)x * (peri_u64)x);
  }
  return out;
}
template <class T> PERI_DEVICE T peri_shifted(const T x, const T by, const int bits, const bool left) {
  const bool all_out = by < 0 || (peri_u64)by >= (peri_u64)bits;
  if (left) return all_out ? 0 : (T)((peri_u64)x << by);
  if (all_out) return x < 0 ? (T)-1 : 0;
  return x >> by;
}
template <class T> PERI_DEVICE T peri_between(const T a) { return a < 0 ? 0 : a > 1 ? 1 : a; }
template <class T> PERI_DEVICE T peri_log1p_exp(const T a) { return (a < 0 ? 0 : a) + log1p(exp(-fabs(a))); }
)";

struct Row {
  std::string_view op, text;
};
// Of one float `a` of type R.
constexpr Row kFloatUnary[] = {
    {"sqrt", "sqrt(a)"},
    {"reciprocal", "(R)1 / a"},
    {"exp", "exp(a)"},
    {"log", "log(a)"},
    {"tanh", "tanh(a)"},
    {"erf", "erf(a)"},
    {"sin", "sin(a)"},
    {"cos", "cos(a)"},
    {"tan", "tan(a)"},
    {"asin", "asin(a)"},
    {"acos", "acos(a)"},
    {"atan", "atan(a)"},
    {"sinh", "sinh(a)"},
    {"cosh", "cosh(a)"},
    {"asinh", "asinh(a)"},
    {"acosh", "acosh(a)"},
    {"atanh", "atanh(a)"},
    {"round", "rint(a)"},
    {"floor", "floor(a)"},
    {"ceil", "ceil(a)"},
    {"abs", "fabs(a)"},
    {"neg", "-a"},
    {"sign", "a > 0 ? (R)1 : a < 0 ? (R)-1 : a + (R)0"},
    {"relu", "a < 0 ? (R)0 : a"},
    {"sigmoid", "(R)1 / ((R)1 + exp(-a))"},
    {"softsign", "a / ((R)1 + fabs(a))"},
    {"softplus", "peri_log1p_exp(a)"},
    {"mish", "a * tanh(peri_log1p_exp(a))"},
    {"hard_swish", "a * peri_between(a / (R)6 + (R)0.5)"},
    {"leaky_relu", "a < 0 ? a * ALPHA : a"},
    {"elu", "a < 0 ? ALPHA * expm1(a) : a"},
    {"celu", "a < 0 ? ALPHA * expm1(a / ALPHA) : a"},
    {"selu", "GAMMA * (a < 0 ? ALPHA * expm1(a) : a)"},
    {"thresholded_relu", "a > ALPHA ? a : (R)0"},
    {"swish", "a / ((R)1 + exp(-ALPHA * a))"},
    {"identity", "a"},
    {"dropout", "a"},
};
// Of two floats, or of two integers, of type R.
constexpr Row kFloatBinary[] = {
    {"add", "a + b"},
    {"sub", "a - b"},
    {"mul", "a * b"},
    {"div", "a / b"},
    {"prelu", "a < 0 ? a * b : a"},
    {"pow", "pow(a, b)"},
    {"swiglu", "a / ((R)1 + exp(-ALPHA * a)) * b"},
    {"max", "a > b || a != a ? a : b"},
    {"min", "a < b || a != a ? a : b"},
    {"sum", "a + b"},
    {"mean", "a + b"},
};
constexpr Row kWholeBinary[] = {
    {"add", "(R)((peri_u64)a + (peri_u64)b)"},
    {"sub", "(R)((peri_u64)a - (peri_u64)b)"},
    {"mul", "(R)((peri_u64)a * (peri_u64)b)"},
    {"div", "peri_divided(a, b)"},
    {"prelu", "a < 0 ? (R)((peri_u64)a * (peri_u64)b) : a"},
    {"max", "a > b ? a : b"},
    {"min", "a < b ? a : b"},
    {"bitwise_and", "a & b"},
    {"bitwise_or", "a | b"},
    {"bitwise_xor", "a ^ b"},
};
constexpr Row kWholeUnary[] = {
    {"abs", "a < 0 ? (R)(0 - (peri_u64)a) : a"},
    {"neg", "(R)(0 - (peri_u64)a)"},
    {"sign", "a > 0 ? 1 : a < 0 ? -1 : 0"},
    {"relu", "a < 0 ? 0 : a"},
    {"bitwise_not", "~a"},
    {"identity", "a"},
};
// Of two of any one kind; bool.
constexpr Row kCompare[] = {
    {"equal", "a == b"},
    {"less", "a < b"},
    {"less_or_equal", "a <= b"},
    {"greater", "a > b"},
    {"greater_or_equal", "a >= b"},
    {"and", "a && b"},
    {"or", "a || b"},
    {"xor", "a != b"},
};

template <size_t N>
std::string look_up(const Row (&table)[N], std::string_view op) {
  for (const Row& r : table)
    if (r.op == op) return std::string(r.text);
  return "";
}

std::string number(double v) {
  if (std::isnan(v)) return "(R)(peri_inf() - peri_inf())";
  return std::isinf(v) ? std::string(v < 0 ? "-" : "") + "(R)peri_inf()" : format("(R)(%.17g)", v);
}
void replace(std::string* text, std::string_view word, const std::string& by) {
  for (size_t at; (at = text->find(word)) != std::string::npos;) text->replace(at, word.size(), by);
}

std::string one_of(const ir::Node& n, Kind kind) {
  if (n.op == "not" && kind == Kind::kBool) return "!a";
  if (n.op == "identity" && kind == Kind::kBool) return "a";
  if (kind == Kind::kWhole) return look_up(kWholeUnary, n.op);
  if (kind != Kind::kFloat) return "";
  if (n.op == "is_nan") return "a != a";
  if (n.op == "is_inf") {
    const bool up = n.i("detect_positive", 1) != 0, down = n.i("detect_negative", 1) != 0;
    return std::string("fabs(a) == (R)peri_inf() && (a > 0 ? ") + (up ? "true" : "false") + " : " +
           (down ? "true)" : "false)");
  }
  if (n.op == "gelu")
    return n.s("approximate", "none") == "tanh"
               ? "a / ((R)1 + exp((R)-1.5957691216057308 * (a + (R)0.044715 * a * a * a)))"
               : "(R)0.5 * a * erfc((R)-0.70710678118654752 * a)";
  if (n.op == "hard_sigmoid")
    return "peri_between(" + number(n.f("alpha", 0.2F)) + " * a + " + number(n.f("beta", 0.5)) + ")";
  if (n.op == "shrink")
    return "a < -" + number(n.f("lambd", 0.5)) + " ? a + " + number(n.f("bias", 0)) + " : a > " +
           number(n.f("lambd", 0.5)) + " ? a - " + number(n.f("bias", 0)) + " : (R)0";
  std::string out = look_up(kFloatUnary, n.op);
  const bool selu = n.op == "selu";
  const double alpha = selu ? 1.67326319217681884765625 : n.op == "leaky_relu" ? 0.01F : 1;
  replace(&out, "ALPHA", number(n.f("alpha", alpha)));
  replace(&out, "GAMMA", number(n.f("gamma", 1.05070102214813232421875)));
  return out;
}

std::string two_of(const ir::Node& n, DType from) {
  const Kind kind = kind_of(from);
  if (std::string out = look_up(kCompare, n.op); !out.empty()) return out;
  const std::string truncate = n.i("fmod", 0) != 0 ? "true" : "false";
  if (n.op == "mod" && kind != Kind::kBool)
    return (kind == Kind::kFloat ? "peri_float_remainder(a, b, " : "peri_remainder(a, b, ") + truncate + ")";
  if (kind == Kind::kBool) return "";
  if (kind == Kind::kWhole && n.op == "bit_shift")
    return format("peri_shifted(a, b, %d, %s)", static_cast<int>(dtype_bits(from)),
                  n.s("direction") == "LEFT" ? "true" : "false");
  std::string out = kind == Kind::kFloat ? look_up(kFloatBinary, n.op) : look_up(kWholeBinary, n.op);
  replace(&out, "ALPHA", number(n.f("alpha", 1)));
  return out;
}

std::string power_of(const ir::Node& n) {
  const Kind x = kind_of(n.in(0)->type.dtype), y = kind_of(n.in(1)->type.dtype);
  if (x == Kind::kFloat) return "pow(a, (R)b)";
  return y == Kind::kFloat ? "(R)peri_whole(pow((double)a, (double)b))" : "peri_whole_power(a, (peri_i64)b)";
}

std::string cast_of(DType from, DType to) {
  if (to == DType::kBool) return "a != 0";
  if (kind_of(from) == Kind::kFloat && kind_of(to) == Kind::kWhole)
    return to == DType::kU64 ? "peri_whole_unsigned((double)a)" : "peri_whole((double)a)";
  return "(" + register_of(to) + ")a";
}

bool folds(const ir::Node& n) { return n.op == "sum" || n.op == "mean" || n.op == "max" || n.op == "min"; }

// The result by the inputs a, b, c; of those that fold any number, by two.
Result<std::string> expression(const ir::Node& n) {
  const DType from = n.in(0)->type.dtype;
  std::string out;
  if (n.op == "cast" || n.op == "cast_like") {
    out = cast_of(from, n.out()->type.dtype);
  } else if (folds(n)) {
    out = two_of(n, from);
  } else if (n.op == "where") {
    out = "a ? b : c";
  } else if (n.op == "pow") {
    out = power_of(n);
  } else if (n.op == "clip") {
    out = "a";
    if (n.in(1)) out = "(a < b ? b : a)";
    if (n.in(2)) out = "(" + out + " > c ? c : " + out + ")";
  } else {
    out = n.inputs.size() == 1 ? one_of(n, kind_of(from)) : two_of(n, from);
  }
  if (out.empty()) return refused("no instruction for %s", n.op.c_str());
  return out;
}

// Element `at` of an input as a register, and a register as an element.
std::string read(DType t, const std::string& element) {
  if (t == DType::kF64 || t == DType::kU64) return element;
  if (is_float(t)) return cuda::loaded(t, element);
  return t == DType::kBool ? "(" + element + " != 0)" : "(peri_i64)" + element;
}
Result<std::string> written(DType t, const std::string& value) {
  if (t == DType::kF16 || t == DType::kBF16) return cuda::stored(t, "(float)(" + value + ")");
  PERI_ASSIGN(const std::string type, cuda::stored_type(t));
  return "(" + type + ")(" + value + ")";
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Graph& g = *p.graph;
  const ir::Node& n = p.anchor();
  const ops::OpDef* op = ops::find(n.op);
  if (g.nodes.size() != 1 || !op || !op->elementwise || n.outputs.size() != 1)
    return refused("takes one element-wise op");
  PERI_TRY(cuda::check_row_major(g));
  const std::vector<int64_t> dims = dims_of(*n.out());
  const DType from = n.in(n.op == "where" ? 1 : 0)->type.dtype, to = n.out()->type.dtype;
  PERI_ASSIGN(const std::string value, expression(n));
  Signature s;
  std::string body = cuda::coordinates_text(dims, &s);
  const size_t read_inputs = n.op == "cast_like" ? 1 : n.inputs.size();
  if (n.op == "mean" && kind_of(from) != Kind::kFloat) return refused("a mean of integers");
  for (size_t k = 0; k < read_inputs; ++k) {
    const ir::Value* v = n.inputs[k];
    if (!v) continue;
    PERI_TRY(cuda::stored_type(v->type.dtype));
    PERI_ASSIGN(const std::string name, s.value(p, *v));
    PERI_ASSIGN(const std::string at, cuda::place_text(dims_of(*v), dims, &s));
    body += "    const " + register_of(v->type.dtype) + " x" + std::to_string(k) + " = " +
            read(v->type.dtype, name + "[" + at + "]") + ";\n";
    if (k < 3 && !folds(n)) body += std::string("    const auto ") + char('a' + k) + " = x" + std::to_string(k) + ";\n";
  }
  PERI_ASSIGN(const std::string out, s.output(p, 0));
  const std::string made = kind_of(to) == Kind::kBool ? "bool" : register_of(to);
  PERI_ASSIGN(const std::string element, written(to, "v"));
  body += "    " + made + " v = " + (folds(n) ? "x0" : value) + ";\n";
  for (size_t k = 1; folds(n) && k < read_inputs; ++k)
    body += "    { const R a = v, b = x" + std::to_string(k) + "; v = " + value + "; }\n";
  if (n.op == "mean") body += "    v = v / (R)" + std::to_string(read_inputs) + ";\n";
  body += "    " + out + "[i] = " + element + ";\n";
  const int64_t count = cuda::numel_of(*n.out());
  const std::string text = "typedef " + register_of(from) + " R;\n" + std::string(kFunctions) +
                           cuda::each_text("peri_map", s.size(count), body);
  return cuda::each_launch(p, s, "peri_map", count, text);
}
}  // namespace

extern const Entry cuda_map_entry;
const Entry cuda_map_entry =
    cuda::entry_of<plan>("cuda_map", "one element-wise op on numbers of any type on a GPU, any broadcasting");

}  // namespace peri::kernels
