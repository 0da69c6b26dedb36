// Kernel cuda_scatter: scatter_elements and scatter_nd with every reduction, max_unpool and tensor_scatter on a GPU. Of
// updates of one element the last remains, or they are joined in their order, so that no bit depends on the threads.
#include <algorithm>
#include <optional>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

// Registers that join as the type does.
std::string register_of(DType t) {
  if (t == DType::kF64) return "double";
  return is_float(t) ? "float" : t == DType::kU64 ? "peri_u64" : "peri_i64";
}

// What `a`, an element, becomes by `b`, an update; nothing for an unknown word. Of truths a sum is the larger one and a
// product the smaller.
std::string join_text(std::string how, DType t) {
  if (t == DType::kBool) how = how == "add" ? "max" : how == "mul" ? "min" : how;
  const bool whole = !is_float(t);
  if (how == "add") return whole ? "(R)((peri_u64)a + (peri_u64)b)" : "a + b";
  if (how == "mul") return whole ? "(R)((peri_u64)a * (peri_u64)b)" : "a * b";
  if (how == "max") return "b != b || (a == a && b > a) ? b : a";
  if (how == "min") return "b != b || (a == a && b < a) ? b : a";
  return "";
}

// Updates, `slice` neighbouring elements each, and where they go.
struct Scatter {
  size_t updates_port = 2;
  int64_t updates = 0, slice = 1, elements = 0;
  std::string target;  // statements that set PERI_INDEX at, the slice of update `t`; below 0 there is none
  // The updates that may meet update `t`: `others` of them, `step` apart; t is the one of number `own`.
  std::string own = "t", others, step = "1";
  bool from_zeros = false;  // instead of the data
  int64_t extent = 0;       // of the indices of the first axis
};

// A statement that sets `name` to an index: negative ones count from the end if they may; none where it is out of
// range.
std::string index_text(const std::string& name, const std::string& element, const std::string& extent, bool negative) {
  return "  peri_i64 " + name + " = (peri_i64)" + element + ";\n" +
         (negative ? "  if (" + name + " < 0) " + name + " += " + extent + ";\n" : "") + "  if (" + name + " < 0 || " +
         name + " >= " + extent + ") {\n    *PERI_FAULT = 1;\n    return -1;\n  }\n";
}

Result<Scatter> by_elements(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), u = dims_of(*n.in(1));
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", 0), d.size()));
  if (u.size() != d.size()) return refused("indices of another rank");
  PERI_ASSIGN(const std::string indices, s->value(p, *n.in(1)));
  Scatter out;
  out.updates = cuda::elements_of(u);
  out.elements = cuda::elements_of(d);
  out.extent = d[axis];
  out.target = index_text("index", indices + "[t]", s->size(d[axis]), true) + "  const PERI_INDEX i = t;\n" +
               cuda::coordinates_text(u, s) + "  at = 0;\n";
  for (size_t k = 0; k < d.size(); ++k)
    out.target +=
        "  at = at * " + s->size(d[k]) + " + " + (k == axis ? "(PERI_INDEX)index" : "c" + std::to_string(k)) + ";\n";
  out.step = s->size(cuda::elements_of(std::span(u).subspan(axis + 1)));
  out.others = s->size(u[axis]);
  out.own = "t / " + out.step + " % " + out.others;
  return out;
}

Result<Scatter> by_tuples(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), x = dims_of(*n.in(1));
  if (x.empty() || static_cast<size_t>(x.back()) > d.size()) return refused("bad indices");
  const size_t depth = static_cast<size_t>(x.back());
  PERI_ASSIGN(const std::string indices, s->value(p, *n.in(1)));
  Scatter out;
  out.updates = cuda::elements_of(std::span(x).first(x.size() - 1));
  out.slice = cuda::elements_of(std::span(d).subspan(depth));
  out.elements = cuda::elements_of(d);
  out.target = "  at = 0;\n";
  for (size_t k = 0; k < depth; ++k) {
    const std::string name = "index" + std::to_string(k), extent = s->size(d[k]);
    out.target += index_text(name, indices + format("[t * %zu + %zu]", depth, k), extent, true) + "  at = at * " +
                  extent + " + (PERI_INDEX)" + name + ";\n";
  }
  if (depth > 0) out.extent = d[0];
  out.others = s->size(out.updates);
  return out;
}

Result<Scatter> unpooled(const Problem& p, const ir::Node& n, Signature* s) {
  if (n.in(2)) return refused("an output_shape");
  PERI_ASSIGN(const std::string indices, s->value(p, *n.in(1)));
  Scatter out;
  out.updates_port = 0;
  out.from_zeros = true;
  out.updates = cuda::numel_of(*n.in(0));
  out.elements = out.extent = cuda::numel_of(*n.out());
  out.target = index_text("index", indices + "[t]", s->size(out.elements), false) + "  at = (PERI_INDEX)index;\n";
  out.others = s->size(out.updates);
  return out;
}

// Of each element the number of the last update is kept, so that any order of threads gives the same.
constexpr std::string_view kLast = R"(
#ifdef __CUDACC_RTC__
PERI_DEVICE void peri_raise(int* at, const int v) { atomicMax(at, v); }
#else
PERI_DEVICE void peri_raise(int* at, const int v) { if (v > *at) *at = v; }
#endif
)";
std::string last_text(const Scatter& u, const std::string& last, const std::string& updates, const std::string& to,
                      const std::string& base, Signature* s) {
  const std::string slices = s->size(u.elements / std::max<int64_t>(u.slice, 1));
  return std::string(kLast) + cuda::each_text("peri_none", slices, "    " + last + "[i] = -1;\n") +
         cuda::each_text("peri_mark", s->size(u.updates),
                         "    const PERI_INDEX at = peri_target(i, PERI_PASS);\n    if (at >= 0) peri_raise(" + last +
                             " + at, (int)i);\n") +
         cuda::each_text("peri_put", s->size(u.elements),
                         "    const PERI_INDEX t = " + last + "[i / PERI_SLICE];\n    " + to + "[i] = t >= 0 ? " +
                             updates + "[t * PERI_SLICE + i % PERI_SLICE] : " + base + ";\n");
}

// The first update of an element joins those after it.
std::string join_all_text(const Scatter& u, const std::string& join, DType type, const std::string& updates,
                          const std::string& to, const std::string& base, Signature* s) {
  const auto read = [&](const std::string& element) {
    return type == DType::kF64 ? element : is_float(type) ? cuda::loaded(type, element) : "(R)" + element;
  };
  const std::string element =
      type == DType::kF16 || type == DType::kBF16 ? cuda::stored(type, "v") : "(" + *cuda::stored_type(type) + ")v";
  return "typedef " + register_of(type) + " R;\nPERI_DEVICE R peri_join(const R a, const R b) { return " + join +
         "; }\n" + cuda::each_text("peri_put", s->size(u.elements), "    " + to + "[i] = " + base + ";\n") +
         cuda::each_text(
             "peri_add", s->size(u.updates * u.slice),
             "    const PERI_INDEX t = i / PERI_SLICE, own = " + u.own +
                 ", at = peri_target(t, PERI_PASS);\n    bool first = at >= 0;\n"
                 "    for (PERI_INDEX k = 0; first && k < own; ++k)\n"
                 "      first = peri_target(t + (k - own) * " +
                 u.step + ", PERI_PASS) != at;\n    if (!first) continue;\n    const PERI_INDEX place = at * " +
                 "PERI_SLICE + i % PERI_SLICE;\n    R v = " + read(to + "[place]") +
                 ";\n    for (PERI_INDEX k = own; k < " + u.others + "; ++k) {\n      const PERI_INDEX other = t + " +
                 "(k - own) * " + u.step + ";\n      if (peri_target(other, PERI_PASS) == at) v = peri_join(v, " +
                 read(updates + "[other * PERI_SLICE + i % PERI_SLICE]") + ");\n    }\n    " + to +
                 "[place] = " + element + ";\n");
}

Error out_of_range(const ir::Node& n, int64_t extent, bool negative) {
  const auto end = static_cast<long long>(extent);
  return invalid("an index of %s is out of range", n.op.c_str())
      .expecting(format("indices in [%lld, %lld]", negative ? -end : 0, end - 1))
      .advise("check the input that holds the indices");
}

Result<cuda::Planned> scattered(const Problem& p, const ir::Node& n) {
  Signature s;
  PERI_ASSIGN(const Scatter u, n.op == "scatter_elements" ? by_elements(p, n, &s)
                               : n.op == "scatter_nd"     ? by_tuples(p, n, &s)
                                                          : unpooled(p, n, &s));
  if (u.elements == 0) return cuda::Planned{};
  if (u.updates >= INT32_MAX) return refused("too many updates");
  const DType type = n.out()->type.dtype;
  const std::string how = n.s("reduction", "none");
  const std::string join = join_text(how, type);
  if (how != "none" && join.empty()) return refused("reduction %s", how.c_str());
  std::string base = "0";
  if (!u.from_zeros) {
    PERI_ASSIGN(base, s.value(p, *n.in(0)));
    base += "[i]";
  }
  PERI_ASSIGN(const std::string updates, s.value(p, *n.in(u.updates_port)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  const std::string head = "#define PERI_FAULT " + s.fault() + "\n#define PERI_SLICE " +
                           (u.slice == 1 ? "1" : s.size(u.slice)) +
                           "\nPERI_DEVICE PERI_INDEX peri_target(const PERI_INDEX t, PERI_PARAMETERS) {\n"
                           "  PERI_INDEX at;\n" +
                           u.target + "  return at;\n}\n";
  cuda::Planned out;
  out.faults = {out_of_range(n, u.extent, !u.from_zeros)};
  const int64_t slices = u.elements / std::max<int64_t>(u.slice, 1);
  std::string text;
  std::vector<std::pair<std::string, int64_t>> entries;
  if (join.empty()) {
    text = last_text(u, "((int*)" + s.workspace() + ")", updates, to, base, &s);
    entries = {{"peri_none", slices}, {"peri_mark", u.updates}, {"peri_put", u.elements}};
    out.workspace = static_cast<size_t>(slices) * sizeof(int32_t);
  } else {
    text = join_all_text(u, join, type, updates, to, base, &s);
    entries = {{"peri_put", u.elements}, {"peri_add", u.updates * u.slice}};
  }
  text = s.text(cuda::most_elements(p), head + text);
  for (const auto& [entry, count] : entries)
    if (count > 0) out.launches.push_back(s.launch(entry, text, cuda::blocks_for(count, 256), 256));
  return out;
}

// A cache with an update along one axis: each element asks whether it was written.
Result<cuda::Planned> cached(const Problem& p, const ir::Node& n) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), u = dims_of(*n.in(1));
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -2), d.size()));
  if (axis == 0) return refused("a bad axis");
  const int64_t count = cuda::elements_of(d);
  if (count == 0) return cuda::Planned{};
  const bool circular = n.s("mode", "linear") == "circular";
  Signature s;
  PERI_ASSIGN(const std::string cache, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string update, s.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  std::string begin = "0";
  cuda::Planned out;
  const std::string inner = s.size(cuda::elements_of(std::span(d).subspan(axis + 1))), extent = s.size(d[axis]),
                    length = s.size(u[axis]);
  if (n.in(2)) {
    PERI_ASSIGN(const std::string first, s.value(p, *n.in(2)));
    begin = "(peri_i64)" + first + "[i / " + s.size(count / d[0]) + "]";
    out.faults = {invalid("tensor_scatter writes outside its cache")
                      .expecting(format("first places from 0%s", circular ? "" : " on that leave room for the update"))
                      .advise("check the input that holds the first places")};
  }
  std::string body = "    const PERI_INDEX k = i / " + inner + " % " + extent + ", row = i / " + inner + " / " +
                     extent + ";\n    peri_i64 first = " + begin + ";\n    bool good = true;\n";
  if (n.in(2))
    body += "    good = first >= 0" + (circular ? std::string() : " && first <= " + extent + " - " + length) +
            ";\n    if (!good) *" + s.fault() + " = 1, first = 0;\n";
  body += "    PERI_INDEX written = k - (PERI_INDEX)(first % " + extent +
          ");\n    if (written < 0) written += " + extent + ";\n    " + to + "[i] = good && written < " + length +
          " ? " + update + "[(row * " + length + " + written) * " + inner + " + i % " + inner + "] : " + cache +
          "[i];\n";
  out.launches = cuda::each_launch(p, s, "peri_cache", count, cuda::each_text("peri_cache", s.size(count), body));
  return out;
}

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  const bool caches = n.op == "tensor_scatter";
  if (n.op != "scatter_elements" && n.op != "scatter_nd" && n.op != "max_unpool" && !caches)
    return refused("not a scatter");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(*p.graph));
  return caches ? cached(p, n) : scattered(p, n);
}
}  // namespace

extern const Entry cuda_scatter_entry;
const Entry cuda_scatter_entry = [] {
  Entry out = cuda::entry_of<plan>(
      "cuda_scatter", "scatter_elements, scatter_nd with every reduction, max_unpool, tensor_scatter on a GPU");
  out.kernel.samples = {
      "graph { input data: f32[4,3,7]; input i: i64[4,2,7]; input u: f32[4,2,7]; y = "
      "scatter_elements(data, i, u) {axis=1, reduction=\"add\"}; output y }",
      "graph { input data: f16[5,3,7]; input i: i32[9,3,2]; input u: f16[9,3,2]; y = scatter_elements(data, i, u); "
      "output y }",
      "graph { input data: i64[5,3]; input i: i64[9,1]; input u: i64[9,3]; y = scatter_nd(data, i, u) "
      "{reduction=\"mul\"}; output y }",
      "graph { input data: bool[4,3,7]; input i: i64[9,2]; input u: bool[9,7]; y = scatter_nd(data, i, u); output y }"};
  return out;
}();

}  // namespace peri::kernels
