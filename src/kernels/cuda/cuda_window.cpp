// Kernel cuda_window: sliding windows other than the usual pooling, on a GPU: max_pool of integers and with indices,
// lp_pool; one thread per result.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "ops/shape/window.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// Loops over the taps inside the image; `offset` is the place within it. Attributes are numbers of the text.
struct Taps {
  std::string head, ends;
};
Taps taps_of(const ir::Node& n, const std::vector<int64_t>& x, const std::vector<int64_t>& y, Signature* s) {
  const ops::Window w = ops::window_of(n);
  Taps out;
  out.head = cuda::coordinates_text(y, s) + "    PERI_INDEX image = c0 * " + s->size(x[1]) + " + c1;\n";
  std::string offset = "0", image = "1";
  for (size_t d = 0; d < w.rank(); ++d) {
    const std::string k = std::to_string(d), in = s->size(x[2 + d]);
    const auto number = [](int64_t v) { return "(" + std::to_string(v) + ")"; };
    out.head += "    for (int k" + k + " = 0; k" + k + " < " + number(w.kernel[d]) + "; ++k" + k +
                ") {\n    const PERI_INDEX at" + k + " = c" + std::to_string(2 + d) + " * " + number(w.stride[d]) +
                " - " + number(w.pad_begin[d]) + " + k" + k + " * " + number(w.dilation[d]) + ";\n    if (at" + k +
                " < 0 || at" + k + " >= " + in + ") continue;\n";
    offset = "(" + offset + ") * " + in + " + at" + k;
    image += " * " + in;
    out.ends += "    }\n";
  }
  out.head += "    const PERI_INDEX offset = " + offset + ", place = image * (" + image + ") + offset;\n";
  return out;
}

// The flat place in x of what was found, read in the order that the op asks for.
std::string place_text(const ir::Node& n, const std::vector<int64_t>& x, Signature* s) {
  if (n.i("storage_order") == 0) return "image * PERI_IMAGE + found";
  std::string out = "image * PERI_IMAGE", rest = "found", step = "1";
  std::vector<std::string> terms;
  for (size_t d = x.size(); d-- > 2;) {
    const std::string size = s->size(x[d]);
    terms.insert(terms.begin(), "(" + rest + " % " + size + ")");
    rest = "(" + rest + " / " + size + ")";
  }
  for (size_t d = 2; d < x.size(); ++d) {
    out += " + " + terms[d - 2] + " * (" + step + ")";
    step += " * " + s->size(x[d]);
  }
  return out;
}

Result<std::vector<KernelLaunch>> largest(const Problem& p, const ir::Node& n) {
  const ir::Graph& g = *p.graph;
  const DType t = n.in(0)->type.dtype;
  if (g.nodes.size() != 1 || t == DType::kF64) return refused("takes one node of another type");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.outputs[0]);
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  const Taps taps = taps_of(n, x, y, &s);
  const std::string lowest = t == DType::kF32    ? "peri_bits(0xff7fffffu)"
                             : t == DType::kF16  ? "-65504.0f"
                             : t == DType::kBF16 ? "peri_bits(0xff7f0000u)"
                             : t == DType::kI8   ? "-128"
                                                 : "0";
  std::string body = "    " + cuda::register_type(t) + " best = " + lowest + ";\n    PERI_INDEX found = -1;\n" +
                     taps.head + "    const auto v = " + cuda::loaded(t, from + "[place]") +
                     ";\n    if (found < 0 || v > best || (v != v && best == best)) best = v, found = offset;\n" +
                     taps.ends;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    PERI_ASSIGN(const std::string to, s.output(p, k));
    if (g.outputs[k] == n.outputs[0])
      body += "    " + to + "[i] = " + cuda::stored(t, "best") + ";\n";
    else
      body += "    " + to + "[i] = found < 0 ? -1 : (peri_i64)(" + place_text(n, x, &s) + ");\n";
  }
  std::string image = "1";
  for (size_t d = 2; d < x.size(); ++d) image += " * " + s.size(x[d]);
  const int64_t count = cuda::numel_of(*n.outputs[0]);
  return cuda::each_launch(
      p, s, "peri_window", count,
      "#define PERI_IMAGE (" + image + ")\n" + cuda::each_text("peri_window", s.size(count), body));
}

Result<std::vector<KernelLaunch>> norm(const Problem& p, const ir::Node& n) {
  const DType t = n.in(0)->type.dtype;
  if (t != DType::kF32 && t != DType::kF16 && t != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(t)));
  const int64_t power = n.i("p", 2);
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  const Taps taps = taps_of(n, dims_of(*n.in(0)), dims_of(*n.out()), &s);
  const std::string term = power == 1   ? "fabsf(v)"
                           : power == 2 ? "v * v"
                                        : format("powf(fabsf(v), %d.0f)", static_cast<int>(power));
  const std::string root = power == 1   ? "sum"
                           : power == 2 ? "sqrtf(sum)"
                                        : format("powf(sum, 1.0f / %d.0f)", static_cast<int>(power));
  const std::string body = "    float sum = 0.0f;\n" + taps.head +
                           "    const float v = " + cuda::loaded(t, from + "[place]") + ";\n    sum += " + term +
                           ";\n" + taps.ends + "    peri_finish(i, " + root + ", PERI_PASS);\n";
  const int64_t count = cuda::numel_of(*n.out());
  return cuda::each_launch(p, s, "peri_window", count, finish + cuda::each_text("peri_window", s.size(count), body));
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_pool" && n.op != "lp_pool") return refused("no pooling it knows");
  PERI_TRY(cuda::check_row_major(*p.graph));
  return n.op == "max_pool" ? largest(p, n) : norm(p, n);
}
}  // namespace

extern const Entry cuda_window_entry;
const Entry cuda_window_entry = cuda::entry_of<plan>(
    "cuda_window", "max_pool of integers or with the places of its results, and lp_pool, on a GPU");

}  // namespace peri::kernels
