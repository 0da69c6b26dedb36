// Kernel cuda_pick: ops that copy each row of their result from one position of an input, on a GPU: gather,
// gather_elements, gather_nd, depth_to_space and back, reverse_sequence, tile, center_crop_pad, trilu, one_hot,
// eye_like. Contiguous runs are moved 16 bytes at a time.
#include <algorithm>
#include <optional>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

// Row `i` of the result, of `inner` elements that lie together, is row `at` of input `port`; zeros where it is below 0.
struct Pick {
  size_t port = 0;
  int64_t rows = 0, inner = 1;
  std::string at;  // statements that set PERI_INDEX at
  // What is wrong where a value of the indices is.
  std::optional<Error> fault = std::nullopt;
};

Error out_of_range(const ir::Node& n, int64_t extent) {
  return invalid("an index of %s is out of range", n.op.c_str())
      .expecting(format("indices in [%lld, %lld]", -static_cast<long long>(extent), static_cast<long long>(extent) - 1))
      .advise("check the input that holds the indices; indices that the model counts itself need smaller sizes");
}

int64_t product(const std::vector<int64_t>& d, size_t first, size_t last) {
  return cuda::elements_of(std::span(d).subspan(first, last - first));
}

// An index in the text: negative ones count from the end. One out of range is the run's error and reads the first
// element.
std::string index_text(const std::string& element, const std::string& extent) {
  return "peri_index((peri_i64)" + element + ", " + extent + ", PERI_PASS)";
}
constexpr std::string_view kIndex = R"(
PERI_DEVICE PERI_INDEX peri_index(peri_i64 v, const PERI_INDEX extent, PERI_PARAMETERS) {
  if (v < 0) v += extent;
  if (v >= 0 && v < extent) return (PERI_INDEX)v;
  *PERI_FAULT = 1;
  return 0;
}
)";

Result<Pick> gather(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", 0), d.size()));
  if (d[axis] == 0) return refused("an axis without elements");
  const int64_t picks = cuda::numel_of(*n.in(1));
  PERI_ASSIGN(const std::string index, s->value(p, *n.in(1)));
  Pick out{0, product(d, 0, axis) * picks, product(d, axis + 1, d.size()), {}};
  out.fault = out_of_range(n, d[axis]);
  const std::string extent = s->size(d[axis]), number = s->size(picks);
  out.at = "at = i / " + number + " * " + extent + " + " + index_text(index + "[i % " + number + "]", extent) + ";";
  return out;
}

Result<Pick> gather_elements(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), y = dims_of(*n.out());
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", 0), d.size()));
  if (d[axis] == 0) return refused("an axis without elements");
  PERI_ASSIGN(const std::string index, s->value(p, *n.in(1)));
  Pick out{0, product(y, 0, y.size()), 1, cuda::coordinates_text(y, s) + "    at = "};
  out.fault = out_of_range(n, d[axis]);
  for (size_t k = 0; k < d.size(); ++k) {
    const int64_t step = product(d, k + 1, d.size());
    out.at += (k ? " + " : "") + (k == axis ? index_text(index + "[i]", s->size(d[axis])) : "c" + std::to_string(k)) +
              (step == 1 ? "" : " * " + s->size(step));
  }
  out.at += ";";
  return out;
}

Result<Pick> gather_nd(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), x = dims_of(*n.in(1));
  const int64_t batch = n.i("batch_dims");
  if (x.empty() || batch < 0 || static_cast<size_t>(batch) >= x.size()) return refused("bad attributes");
  const size_t b = static_cast<size_t>(batch), depth = static_cast<size_t>(x.back());
  if (b + depth > d.size()) return refused("more indices than axes");
  PERI_ASSIGN(const std::string index, s->value(p, *n.in(1)));
  const int64_t rows = product(x, 0, x.size() - 1), each = product(x, b, x.size() - 1);
  Pick out{0, rows, product(d, b + depth, d.size()), {}};
  out.at = b == 0 ? "at = 0;" : "at = i / " + s->size(each) + ";";
  for (size_t k = 0; k < depth; ++k) {
    if (d[b + k] == 0) return refused("an axis without elements");
    if (k == 0) out.fault = out_of_range(n, d[b]);
    const std::string extent = s->size(d[b + k]);
    out.at += " at = at * " + extent + " + " +
              index_text(index + "[i * " + std::to_string(depth) + " + " + std::to_string(k) + "]", extent) + ";";
  }
  return out;
}

Result<Pick> blocks(const ir::Node& n, Signature* s) {
  const bool to_space = n.op == "depth_to_space";
  const std::vector<int64_t> wide = dims_of(to_space ? *n.outputs[0] : *n.inputs[0]);
  const int64_t b = n.i("blocksize");
  const bool depth_first = n.s("mode", "DCR") == "DCR";
  const std::string side = std::to_string(b), area = std::to_string(b * b), channels = s->size(wide[1]),
                    height = s->size(wide[2]), width = s->size(wide[3]);
  Pick out{0, cuda::numel_of(*n.out()), 1, {}};
  if (to_space) {
    const std::string small_h = s->size(wide[2] / b), small_w = s->size(wide[3] / b);
    out.at = "const PERI_INDEX w = i % " + width + ", h = i / " + width + " % " + height + ", c = i / " + width +
             " / " + height + " % " + channels + ", n = i / " + width + " / " + height + " / " + channels +
             ", offset = h % " + side + " * " + side + " + w % " + side +
             ", channel = " + (depth_first ? "offset * " + channels + " + c" : "c * " + area + " + offset") +
             "; at = ((n * " + channels + " * " + area + " + channel) * " + small_h + " + h / " + side + ") * " +
             small_w + " + w / " + side + ";";
    return out;
  }
  const std::string small_h = s->size(wide[2] / b), small_w = s->size(wide[3] / b);
  out.at = "const PERI_INDEX w = i % " + small_w + ", h = i / " + small_w + " % " + small_h + ", deep = i / " +
           small_w + " / " + small_h + " % (" + channels + " * " + area + "), n = i / " + small_w + " / " + small_h +
           " / (" + channels + " * " + area + "), offset = " + (depth_first ? "deep / " + channels : "deep % " + area) +
           ", c = " + (depth_first ? "deep % " + channels : "deep / " + area) + "; at = ((n * " + channels +
           " + c) * " + height + " + h * " + side + " + offset / " + side + ") * " + width + " + w * " + side +
           " + offset % " + side + ";";
  return out;
}

Result<Pick> reversed(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const bool batch_first = n.i("batch_axis", 1) == 0;
  PERI_ASSIGN(const std::string lengths, s->value(p, *n.in(1)));
  Pick out{0, d[0] * d[1], product(d, 2, d.size()), {}};
  const std::string second = s->size(d[1]);
  const std::string first_of = "i / " + second, second_of = "i % " + second;
  const std::string steps = s->size(d[batch_first ? 1 : 0]);
  out.fault = invalid("reverse_sequence has a length outside its time axis")
                  .expecting(format("0 to %lld", static_cast<long long>(d[batch_first ? 1 : 0])))
                  .advise("check the input that holds the lengths");
  out.at = "const PERI_INDEX item = " + (batch_first ? first_of : second_of) +
           ", t = " + (batch_first ? second_of : first_of) + "; const peri_i64 length = (peri_i64)" + lengths +
           "[item]; if (length < 0 || length > " + steps +
           ") *PERI_FAULT = 1; const bool turned = t < length && length <= " + steps +
           "; at = turned ? i + ((PERI_INDEX)length - 1 - 2 * t) * " + (batch_first ? "1" : second) + " : i;";
  return out;
}

// Each coordinate of the result to one of the input: repeated, or moved by what is cut or put around it.
Result<Pick> walked(const ir::Node& n, Signature* s) {
  const bool tile = n.op == "tile";
  const std::vector<int64_t> d = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (d.size() != y.size()) return refused("another rank");
  Pick out{0, product(y, 0, y.size()), 1, cuda::coordinates_text(y, s) + "    at = 0;\n"};
  for (size_t k = 0; k < y.size(); ++k) {
    const std::string c = "c" + std::to_string(k), extent = s->size(d[k]);
    const int64_t cut = d[k] >= y[k] ? (d[k] - y[k]) / 2 : -((y[k] - d[k]) / 2);
    if (tile)
      out.at += "    at = at * " + extent + " + " + c + " % " + extent + ";\n";
    else
      out.at += "    { const PERI_INDEX from = " + c + " + " + s->size(cut) +
                "; at = at < 0 || from < 0 || from >= " + extent + " ? -1 : at * " + extent + " + from; }\n";
  }
  return out;
}

Result<Pick> triangle(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0));
  std::string k = "0";
  if (n.in(1)) {
    PERI_ASSIGN(const std::string name, s->value(p, *n.in(1)));
    k = name + "[0]";
  }
  const std::string rows = s->size(d[d.size() - 2]), columns = s->size(d.back());
  Pick out{0, cuda::numel_of(*n.out()), 1, {}};
  out.at = "const peri_i64 over = (peri_i64)(i % " + columns + ") - (peri_i64)(i / " + columns + " % " + rows +
           "); at = over " + (n.i("upper", 1) != 0 ? ">=" : "<=") + " (peri_i64)" + k + " ? i : -1;";
  return out;
}

// The second of two values where the index is the place along the axis.
Result<Pick> one_hot(const Problem& p, const ir::Node& n, Signature* s) {
  const std::vector<int64_t> y = dims_of(*n.out());
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", -1), y.size()));
  if (y[axis] == 0) return refused("an empty result");
  const DType type = n.in(0)->type.dtype;
  PERI_ASSIGN(const std::string index, s->value(p, *n.in(0)));
  const std::string depth = s->size(y[axis]), inner = s->size(product(y, axis + 1, y.size()));
  const std::string element = index + "[i / (" + depth + " * " + inner + ") * " + inner + " + i % " + inner + "]";
  Pick out{2, cuda::numel_of(*n.out()), 1, {}};
  out.at = is_float(type) ? "const float wide = " + cuda::loaded(type, element) +
                                "; peri_i64 index = wide > -1e9f && wide < 1e9f ? (peri_i64)wide : -2147483648ll;"
                          : "peri_i64 index = (peri_i64)" + element + ";";
  out.at += " if (index < 0) index += " + depth + "; at = index == i / " + inner + " % " + depth + " ? 1 : 0;";
  return out;
}

Result<Pick> read(const Problem& p, const ir::Node& n, Signature* s) {
  constexpr std::string_view kOps[] = {"gather",         "gather_elements",  "gather_nd", "depth_to_space",
                                       "space_to_depth", "reverse_sequence", "tile",      "trilu",
                                       "one_hot",        "center_crop_pad"};
  if (std::find(std::begin(kOps), std::end(kOps), n.op) == std::end(kOps))
    return refused("does not take elements from places it knows");
  if (cuda::numel_of(*n.out()) == 0) return Pick{0, 0, 1, {}};
  if (n.op == "gather") return gather(p, n, s);
  if (n.op == "gather_elements") return gather_elements(p, n, s);
  if (n.op == "gather_nd") return gather_nd(p, n, s);
  if (n.op == "depth_to_space" || n.op == "space_to_depth") return blocks(n, s);
  if (n.op == "reverse_sequence") return reversed(p, n, s);
  if (n.op == "tile" || n.op == "center_crop_pad") return walked(n, s);
  if (n.op == "trilu") return triangle(p, n, s);
  return one_hot(p, n, s);
}

// Rows that indices name lie apart: memory reads at least so much of each.
double bytes_of(const ir::Node& n, const Pick& pick) {
  constexpr double kSector = 32;
  const double row = static_cast<double>(pick.inner) * dtype_size(n.out()->type.dtype);
  const bool apart = n.op == "gather" || n.op == "gather_elements" || n.op == "gather_nd";
  double bytes = static_cast<double>(pick.rows) * (row + (apart ? std::max(row, kSector) : row));
  if (apart) bytes += static_cast<double>(cuda::numel_of(*n.in(1))) * dtype_size(n.in(1)->type.dtype);
  return bytes;
}

constexpr std::string_view kKernel = R"(
struct alignas(16) peri_unit { unsigned w[4]; };
template <class T> PERI_DEVICE void peri_move(const T* from, T* to, const PERI_INDEX inner, PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, count = PERI_ROWS * inner;
  for (PERI_INDEX e = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; e < count; e += step) {
    const PERI_INDEX at = peri_row(inner == 1 ? e : e / inner, PERI_PASS);
    T v = {};
    if (at >= 0) v = from[inner == 1 ? at : at * inner + e % inner];
    to[e] = v;
  }
}
PERI_KERNEL __launch_bounds__(256) peri_pick(PERI_PARAMETERS) {
  const bool wide = PERI_INNER * PERI_BYTES % 16 == 0 && ((peri_u64)PERI_FROM | (peri_u64)PERI_TO) % 16 == 0;
  if (wide)
    peri_move((const peri_unit*)PERI_FROM, (peri_unit*)PERI_TO, PERI_INNER * PERI_BYTES / 16, PERI_PASS);
  else
    peri_move(PERI_FROM, PERI_TO, PERI_INNER, PERI_PASS);
}
)";

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Graph& g = *p.graph;
  const ir::Node& n = p.anchor();
  if (g.nodes.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(g));
  Signature s;
  PERI_ASSIGN(const Pick pick, read(p, n, &s));
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(pick.port)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  const int bytes = dtype_size(n.out()->type.dtype);
  std::string functions;
  if (pick.fault) functions = "#define PERI_FAULT " + s.fault() + "\n" + std::string(kIndex);
  const std::string text =
      functions +
      "PERI_DEVICE PERI_INDEX peri_row(const PERI_INDEX i, PERI_PARAMETERS) {\n    PERI_INDEX at = "
      "0;\n    " +
      pick.at + "\n    return at;\n}\n#define PERI_ROWS " + s.size(pick.rows) + "\n#define PERI_INNER " +
      (pick.inner == 1 ? "1" : s.size(pick.inner)) + "\n#define PERI_BYTES " + std::to_string(bytes) +
      "\n#define PERI_FROM " + from + "\n#define PERI_TO " + to + std::string(kKernel);
  cuda::Planned out{cuda::each_launch(p, s, "peri_pick", pick.rows * pick.inner, text)};
  if (pick.fault) out.faults.push_back(*pick.fault);
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  Signature unused;
  PERI_ASSIGN(const Pick pick, read(p, p.anchor(), &unused));
  std::vector<Offer> out = cuda::plain_offer(p);
  out[0].guess_ms = cuda::moving_ms(1, bytes_of(p.anchor(), pick));
  return out;
}
}  // namespace

extern const Entry cuda_pick_entry;
const Entry cuda_pick_entry =
    cuda::entry_of<offer, cuda::instance_of<plan>>("cuda_pick",
                                                   "gather, gather_elements, gather_nd, tile, trilu, one_hot, "
                                                   "depth_to_space, reverse_sequence, center_crop_pad on a GPU");

}  // namespace peri::kernels
