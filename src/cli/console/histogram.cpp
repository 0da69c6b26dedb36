// Ranges of equal width; bar lengths are relative to the largest.
#include "cli/console/histogram.hpp"

#include <algorithm>
#include <cmath>

#include "base/result.hpp"

namespace peri::cli {

namespace {
constexpr size_t kMinSamples = 20;
constexpr size_t kRanges = 10;
constexpr double kBar = 32;  // columns of the longest bar

std::string line_of(double from_ms, size_t count, size_t most, bool beyond) {
  const auto bar = static_cast<size_t>(std::ceil(kBar * static_cast<double>(count) / static_cast<double>(most)));
  return format("%10.4g ms%s %7zu  %s", from_ms, beyond ? "+" : " ", count, std::string(bar, '#').c_str());
}
}  // namespace

std::vector<std::string> histogram(std::span<const double> samples_ms) {
  std::vector<std::string> out;
  if (samples_ms.size() < kMinSamples) return out;
  std::vector<double> sorted(samples_ms.begin(), samples_ms.end());
  std::sort(sorted.begin(), sorted.end());
  const double low = sorted.front(), high = sorted[(sorted.size() - 1) * 99 / 100];
  const double width = (high - low) / kRanges;
  if (!(width > 0)) return out;
  size_t count[kRanges + 1] = {};
  for (const double ms : sorted)
    ++count[ms > high ? kRanges : std::min(kRanges - 1, static_cast<size_t>((ms - low) / width))];
  const size_t most = *std::max_element(std::begin(count), std::end(count));
  out.emplace_back("   from         runs");
  for (size_t k = 0; k < kRanges; ++k)
    out.push_back(line_of(low + static_cast<double>(k) * width, count[k], most, false));
  if (count[kRanges]) out.push_back(line_of(high, count[kRanges], most, true));
  for (std::string& line : out) line.erase(line.find_last_not_of(' ') + 1);
  return out;
}

}  // namespace peri::cli
