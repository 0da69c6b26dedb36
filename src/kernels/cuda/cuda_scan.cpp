// Kernel cuda_scan: ops that process one axis in order, on a GPU: running sums and products, arg_max, arg_min, hardmax,
// top_k, for numbers of any type; one thread per line, or per result of top_k.
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

constexpr int64_t kMaxSorted = 4096;  // elements of a line of top_k: each is held against all

bool running_op(const ir::Node& n) { return n.op == "cum_sum" || n.op == "cum_prod"; }

Result<size_t> axis_of(const ir::Node& n, size_t rank) {
  int64_t axis = n.i("axis", n.op.starts_with("arg_") ? 0 : -1);
  if (running_op(n)) {
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_ASSIGN(const std::vector<int64_t> given, context.constants(1, "axis"));
    if (given.size() != 1) return refused("more than one axis");
    axis = given[0];
  }
  return cuda::axis_within(axis, rank);
}

// Registers that order and add as the type does.
std::string register_of(DType t) {
  if (t == DType::kF64) return "double";
  return is_float(t) ? "float" : t == DType::kU64 ? "peri_u64" : "peri_i64";
}
std::string read(DType t, const std::string& element) {
  return t == DType::kF16 || t == DType::kBF16 ? cuda::loaded(t, element) : "(" + register_of(t) + ")" + element;
}
Result<std::string> written(DType t, const std::string& value) {
  if (t == DType::kF16 || t == DType::kBF16) return cuda::stored(t, value);
  PERI_ASSIGN(const std::string type, cuda::stored_type(t));
  return "(" + type + ")(" + value + ")";
}

// Line `i` begins at `first`; PERI_X(k) is its element k.
constexpr std::string_view kLine =
    "    const PERI_INDEX first = i / PERI_INNER * PERI_LENGTH * PERI_INNER + i % PERI_INNER;\n";

// The axis of the line where the run says it: thread `i` has a line where there are so many.
std::string axis_text(const std::string& axis, const std::vector<int64_t>& d, Signature* s) {
  std::string out = "    peri_i64 axis = (peri_i64)" + axis +
                    format("[0];\n    if (axis < 0) axis += %zu;\n", d.size()) +
                    format("    if (axis < 0 || axis >= %zu) *%s = 1, axis = 0;\n", d.size(), s->fault().c_str()) +
                    "    PERI_INDEX length = 1, inner = 1;\n";
  for (size_t k = 0; k < d.size(); ++k) {
    const std::string size = s->size(d[k]), at = std::to_string(k);
    out += "    if (axis == " + at + ") length = " + size + ";\n    if (axis < " + at + ") inner *= " + size + ";\n";
  }
  return out + "    if (i >= " + s->size(cuda::elements_of(d)) + " / length) continue;\n";
}

std::string running(const ir::Node& n, const std::string& out, const std::string& element) {
  const bool product = n.op == "cum_prod", exclusive = n.i("exclusive") != 0;
  const char* const join = product ? "run * PERI_X(k)" : "run + PERI_X(k)";
  std::string text(kLine);
  text += format("    R run = %d;\n    for (PERI_INDEX n = 0; n < PERI_LENGTH; ++n) {\n", product);
  text += format("      const PERI_INDEX k = %s;\n", n.i("reverse") != 0 ? "PERI_LENGTH - 1 - n" : "n");
  text += exclusive ? format("      const R v = run;\n      run = %s;\n", join)
                    : format("      run = %s;\n      const R v = run;\n", join);
  return text + format("      %s[first + k * PERI_INNER] = %s;\n    }\n", out.c_str(), element.c_str());
}

// Whether element a stands before b; the first of equals stays, or the last.
std::string search(const ir::Node& n) {
  const char* const sign = n.op != "arg_min" ? ">" : "<";
  std::string text(kLine);
  text += "    PERI_INDEX best = 0;\n    R held = PERI_X(0);\n";
  text += "    for (PERI_INDEX k = 1; k < PERI_LENGTH; ++k) {\n      const R v = PERI_X(k);\n";
  text += format("      const bool beats = held == held && (v != v || v %s held);\n", sign);
  text += format("      const bool beaten = v == v && (held != held || held %s v);\n", sign);
  return text +
         format("      if (beats%s) best = k, held = v;\n    }\n", n.i("select_last_index") != 0 ? " || !beaten" : "");
}

// Each element of a line counts those that stand before it: its place, if it is one of the first.
std::string top(const ir::Node& n, const std::string& values, const std::string& indices, const std::string& element) {
  const std::string larger = n.i("largest", 1) != 0 ? ">" : "<";
  return "    const PERI_INDEX line = i / PERI_LENGTH, own = i % PERI_LENGTH;\n"
         "    const PERI_INDEX first = line / PERI_INNER * PERI_LENGTH * PERI_INNER + line % PERI_INNER;\n"
         "    const R v = PERI_X(own);\n    PERI_INDEX before = 0;\n"
         "    for (PERI_INDEX k = 0; k < PERI_LENGTH; ++k) {\n      const R u = PERI_X(k);\n"
         "      const bool more = u != u ? v == v : u > v, less = v != v ? u == u : u < v;\n"
         "      before += (" +
         std::string(larger == ">" ? "more" : "less") +
         ") || (!more && !less && k < own);\n    }\n    if (before < PERI_KEPT) {\n"
         "      const PERI_INDEX to = (line / PERI_INNER * PERI_KEPT + before) * PERI_INNER + line % PERI_INNER;\n"
         "      " +
         values + "[to] = " + element + ";\n" +
         (indices.empty() ? "" : "      " + indices + "[to] = (peri_i64)own;\n") + "    }\n";
}

struct Lines {
  cuda::Around shape;      // of an axis that the run says: as many lines as there may be
  std::string head;        // definitions
  std::string begin = {};  // of the body: the line of an axis that the run says
  std::vector<Error> faults = {};
};
Result<Lines> lines_of(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const DType t = n.in(0)->type.dtype;
  PERI_ASSIGN(const std::string x, s->value(p, *n.in(0)));
  Lines out{{}, "typedef " + register_of(t) + " R;\n"};
  const std::string element = "\n#define PERI_X(K) " + read(t, x + "[first + (K) * PERI_INNER]") + "\n";
  if (running_op(n) && input_index(*p.graph, n.in(1)) >= 0 && cuda::numel_of(*n.in(1)) == 1 && !d.empty() &&
      !axis_of(n, d.size()).ok()) {
    PERI_ASSIGN(const std::string axis, s->value(p, *n.in(1)));
    const int64_t elements = cuda::elements_of(d);
    out.shape = {elements, 1, 1};
    out.begin = axis_text(axis, d, s);
    out.head += "#define PERI_LENGTH length\n#define PERI_INNER inner" + element;
    out.faults = {invalid("the axis of %s is out of range", n.op.c_str())
                      .expecting(format("an axis in [-%zu, %zu)", d.size(), d.size()))
                      .advise("check the input that holds the axis")};
    return out;
  }
  PERI_ASSIGN(const size_t axis, axis_of(n, d.size()));
  out.shape = cuda::around(d, axis, axis + 1);
  out.head += "#define PERI_LENGTH " + s->size(out.shape.axis) + "\n#define PERI_INNER " +
              (out.shape.inner == 1 ? "1" : s->size(out.shape.inner)) + element;
  return out;
}

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Graph& g = *p.graph;
  const ir::Node& n = p.anchor();
  const bool cum = running_op(n), arg = n.op == "arg_max" || n.op == "arg_min", hard = n.op == "hardmax",
             sorted = n.op == "top_k";
  if (g.nodes.size() != 1 || !(cum || arg || hard || sorted)) return refused("does not go along one axis");
  PERI_TRY(cuda::check_row_major(g));
  Signature s;
  PERI_ASSIGN(Lines l, lines_of(p, n, &s));
  const auto [outer, axis, inner] = l.shape;
  if (axis * outer * inner == 0 && !arg) return cuda::Planned{};
  if (axis == 0) return refused("an axis without elements");
  const DType t = n.in(0)->type.dtype;
  const auto result = [&](const ir::Value* v) -> Result<std::string> {
    for (size_t k = 0; k < g.outputs.size(); ++k)
      if (g.outputs[k] == v) return s.output(p, k);
    return std::string();
  };
  std::string body, kept_text;
  int64_t count = outer * inner;
  PERI_ASSIGN(const std::string out, result(n.outputs[0]));
  if (out.empty()) return refused("a result that nothing reads");
  if (cum) {
    PERI_ASSIGN(const std::string element, written(t, "v"));
    body = l.begin + running(n, out, element);
  } else if (arg) {
    body = search(n) + "    " + out + "[i] = (peri_i64)best;\n";
  } else if (hard) {
    PERI_ASSIGN(const std::string element, written(t, "k == best ? (R)1 : (R)0"));
    body = search(n) + "    for (PERI_INDEX k = 0; k < PERI_LENGTH; ++k) " + out +
           "[first + k * PERI_INNER] = " + element + ";\n";
  } else {
    if (axis > kMaxSorted) return refused("more than %lld elements in a line", static_cast<long long>(kMaxSorted));
    std::string indices;
    if (n.outputs.size() > 1) {
      PERI_ASSIGN(indices, result(n.outputs[1]));
    }
    PERI_ASSIGN(const std::string element, written(t, "v"));
    const std::vector<int64_t> y = dims_of(*n.outputs[0]), d = dims_of(*n.in(0));
    int64_t kept = axis;
    for (size_t k = 0; k < y.size(); ++k)
      if (y[k] != d[k]) kept = y[k];
    kept_text = "#define PERI_KEPT " + s.size(kept) + "\n";
    body = top(n, out, indices, element);
    count *= axis;
  }
  return cuda::Planned{cuda::each_launch(p, s, "peri_scan", count,
                                         l.head + kept_text + cuda::each_text("peri_scan", s.size(count), body)),
                       std::move(l.faults)};
}
}  // namespace

extern const Entry cuda_scan_entry;
const Entry cuda_scan_entry = [] {
  Entry out =
      cuda::entry_of<plan>("cuda_scan", "cum_sum, cum_prod, arg_max, arg_min, hardmax, top_k along any axis on a GPU");
  out.kernel.samples = {  // the run says the axis
      "graph { input x: f32[3,4,5]; input a: i32[]; y = cum_sum(x, a) {reverse=1}; output y }",
      "graph { input x: i32[4,3]; input a: i64[1]; y = cum_prod(x, a) {exclusive=1}; output y }"};
  return out;
}();

}  // namespace peri::kernels
