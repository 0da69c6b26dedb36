// Whether the float64 reference ends in time.
#include <cmath>

#include "judge/verify.hpp"
#include "judge/whole.hpp"

namespace peri::judge {

// The reference does 0.1 to 1 Gflop a second: up to an hour or some.
constexpr double kMaxTflop = 1;

Status check_affordable(const ir::Graph& reference, const DimBinding& sizes) {
  const double tflop = flops_at(reference, sizes) / 1e12;
  if (tflop <= kMaxTflop || std::isinf(tflop)) return Ok{};
  std::string at;
  for (const auto& [name, size] : sizes) at += (at.empty() ? " at " : ",") + name + "=" + std::to_string(size);
  return refused("the float64 reference would take hours%s", at.c_str())
      .expecting(format("at most %.3g Tflop", kMaxTflop))
      .but_found(format("%.3g Tflop", tflop))
      .advise(format("%sjudge each step alone with --steps-only, or compare with --onnxruntime",
                     sizes.empty() ? "" : "give smaller sizes with --dims, "));
}

}  // namespace peri::judge
