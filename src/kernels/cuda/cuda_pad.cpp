// Kernel cuda_pad: constant, reflect, edge and wrap padding with known sizes on a GPU, also negative ones, with the
// element-wise chain after it; one thread per element.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// The element of an axis of `length` under element `i` of the result; -1: the constant.
constexpr std::string_view kSources = R"(
PERI_DEVICE PERI_INDEX peri_source(const PERI_INDEX i, const PERI_INDEX length, const PERI_INDEX before,
                                   const PERI_INDEX after) {
  const PERI_INDEX low = before < 0 ? -before : 0, high = length - (after < 0 ? -after : 0), kept = high - low;
  const PERI_INDEX at = i - (before > 0 ? before : 0);
  if (at >= 0 && at < kept) return low + at;
  if (PERI_MODE == 0 || kept <= 0) return -1;
  if (PERI_MODE == 1) return at < 0 ? low : high - 1;
  if (PERI_MODE == 2) return low + (at % kept + kept) % kept;
  const PERI_INDEX period = kept > 1 ? 2 * (kept - 1) : 1, m = (at % period + period) % period;
  return low + (m < kept ? m : period - m);
}
)";

Result<int> mode_of(const ir::Node& n) {
  const std::string_view names[] = {"constant", "edge", "wrap", "reflect"};
  const std::string mode = n.s("mode", "constant");
  const auto it = std::find(std::begin(names), std::end(names), mode);
  if (it == std::end(names)) return refused("an unknown mode");
  return static_cast<int>(it - std::begin(names));
}

struct Sides {
  std::vector<int64_t> before, after;
};
Result<Sides> sides_of(const ir::Node& n, size_t rank) {
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(const std::vector<int64_t> pads, context.constants(1, "pads"));
  std::vector<int64_t> axes;
  for (size_t k = 0; k < rank; ++k) axes.push_back(static_cast<int64_t>(k));
  if (n.in(3)) {
    PERI_ASSIGN(axes, context.constants(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) return refused("pads and axes differ in number");
  Sides out{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  for (size_t k = 0; k < axes.size(); ++k) {
    PERI_ASSIGN(const size_t axis, cuda::axis_within(axes[k], rank));
    out.before[axis] = pads[k];
    out.after[axis] = pads[k + axes.size()];
  }
  return out;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "pad") return refused("not a padding");
  const DType dtype = n.in(0)->type.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kI32 &&
      dtype != DType::kI64 && dtype != DType::kBool)
    return refused("elements of %s", std::string(dtype_name(dtype)).c_str());
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  PERI_ASSIGN(const int mode, mode_of(n));
  PERI_ASSIGN(const Sides sides, sides_of(n, x.size()));
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  std::string fill = "(" + cuda::register_type(dtype) + ")0";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string value, s.value(p, *n.in(2)));
    fill = cuda::loaded(dtype, value + "[0]");
  }
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  int64_t count = 1, step = 1;
  std::string walk;
  for (size_t d = y.size(); d-- > 0;) {
    if (x[d] + sides.before[d] + sides.after[d] != y[d]) return refused("its output size is not the usual one");
    const std::string size = s.size(y[d]);
    walk += "    k = peri_source(rest % " + size + ", " + s.size(x[d]) + ", " + s.size(sides.before[d]) + ", " +
            s.size(sides.after[d]) + "); rest /= " + size + ";\n    inside = inside && k >= 0; at += k * " +
            s.size(step) + ";\n";
    step *= x[d];
    count *= y[d];
  }
  if (count == 0) return std::vector<KernelLaunch>{};
  const std::string body = format("#define PERI_MODE %d\n", mode) + finish + std::string(kSources) +
                           R"(PERI_KERNEL __launch_bounds__(256) peri_pad(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < )" +
                           s.size(count) + "; i += step) {\n    PERI_INDEX rest = i, at = 0, k = 0;\n" +
                           "    bool inside = true;\n" + walk + "    peri_finish(i, inside ? " +
                           cuda::loaded(dtype, from + "[at]") + " : " + fill + ", PERI_PASS);\n  }\n}\n";
  return std::vector<KernelLaunch>{
      s.launch("peri_pad", s.text(cuda::most_elements(p), body), cuda::blocks_for(count, 256), 256)};
}
}  // namespace

extern const Entry cuda_pad_entry;
const Entry cuda_pad_entry = cuda::entry_of<plan>("cuda_pad", "padding of every mode on a GPU, with its epilogue");

}  // namespace peri::kernels
