// What each fault does.
#include "tests/tune/planted.hpp"

#include <algorithm>
#include <cmath>

namespace peri::tune::planted {

double Instance::value(const kernels::Args& args, int64_t row, int64_t column) const {
  const float *x = static_cast<const float*>(args.in[0]), *w = static_cast<const float*>(args.in[1]);
  double sum = 0;
  for (int64_t l = 0; l < k_; ++l) sum += double{x[row * k_ + l]} * double{w[l * n_ + column]};
  return sum;
}

void Instance::run_task(int phase, int64_t task, const kernels::Args& args) const {
  float* y = static_cast<float*>(args.out[0]);
  auto* held = reinterpret_cast<float*>(args.workspace);
  if (phase == 0) {
    if (fault_ != Fault::kStale) held[0] = 0;
    return;
  }
  const auto* r = residual_ ? static_cast<const float*>(args.in[2]) : nullptr;
  if (fault_ == Fault::kOrder && task * 8 >= n_) {  // one task more: it adds a little, before or after the others
    held[0] = 1;
    return;
  }
  if (fault_ == Fault::kLazy) {
    const int64_t j = std::min(n_, task * 8 + 8) - 1;
    if (y[(m_ - 1) * n_ + j] == static_cast<float>(value(args, m_ - 1, j))) return;
  }
  for (int64_t i = 0; i < m_; ++i)
    for (int64_t j = task * 8; j < std::min(n_, task * 8 + 8); ++j) {
      const int64_t at = i * n_ + j;
      const double sum = value(args, i, j);
      if (fault_ == Fault::kReadsLate) {
        y[at] = static_cast<float>(sum);
        if (r) y[at] = static_cast<float>(sum + double{r[at]});
      } else {
        y[at] = static_cast<float>(sum + (r ? double{r[at]} : 0.0));
      }
      // Within the bound of the sum, and yet other bits.
      if (fault_ == Fault::kOrder && held[0] == 1) y[at] = std::nextafterf(y[at], 1e30f);
      if (fault_ == Fault::kStale) y[at] += held[0];
    }
  const bool last = task == (n_ + 7) / 8 - 1;
  if (!last) return;
  const int64_t end = m_ * n_;
  switch (fault_) {
    case Fault::kSmall: y[end / 2] += m_ < 8 ? 1 : 0; break;
    case Fault::kLarge: y[end / 2] += m_ > 64 ? 1 : 0; break;
    case Fault::kLastTile: y[end - 1] += 1; break;
    case Fault::kPastEnd: y[end] = 0; break;
    case Fault::kBeforeStart: y[-1] = 0; break;
    case Fault::kWorkspace: held[16] = 0; break;
    case Fault::kScratch: reinterpret_cast<float*>(args.scratch)[16] = 0; break;
    case Fault::kReadsPastEnd: y[0] += 0 * static_cast<const float*>(args.in[0])[m_ * k_]; break;
    case Fault::kChangesInput: static_cast<float*>(const_cast<void*>(args.in[1]))[0] += 1; break;
    default: break;
  }
}

}  // namespace peri::tune::planted
