// The tuned sizes with larger ones in them.
#include "lower/wide_sizes.hpp"

#include <algorithm>

#include "exec/region/region_payload.hpp"
#include "lower/data_sizes.hpp"

namespace peri::lower {

namespace {
constexpr int64_t kMany = 2 * exec::kAssumedSize;  // a sum of two assumed sizes
constexpr size_t kMaxWide = 8;                     // dimensions that are tried by themselves: each fits the whole graph
}  // namespace

const std::vector<DimBinding>& WideSizes::all() const {
  if (all_) return *all_;
  all_.emplace();
  DimBinding many = tuned_for_;
  int64_t largest = kMany;
  for (auto& [name, size] : many) {
    size = name.starts_with(kDataDim) ? exec::kAssumedSize : size == 1 ? kMany : size;
    largest = std::max(largest, size);
  }
  std::vector<DimBinding> found = {many};
  for (const auto& [name, size] : many) {
    if (name.starts_with(kDataDim) || found.size() > kMaxWide || largest > INT32_MAX) continue;
    found.push_back(many);
    found.back()[name] = 2 * largest;
  }
  for (DimBinding& dims : found) all_->push_back(fit_data_sizes(graph_, std::move(dims)));
  return *all_;
}

}  // namespace peri::lower
