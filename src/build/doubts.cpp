// Close choices among the reports of steps.
#include "build/doubts.hpp"

#include <algorithm>

namespace peri::build {

double Doubt::weight() const { return ms * std::max(0.0, 1 - gap / kClose); }

std::vector<Doubt> doubts(const std::vector<lower::StepReport>& steps, size_t most) {
  std::vector<Doubt> out;
  for (const lower::StepReport& s : steps) {
    if (s.conversion || !s.evidence.timed()) continue;
    if (const auto it = std::find_if(out.begin(), out.end(), [&](const Doubt& d) { return d.key == s.key; });
        it != out.end()) {
      it->ms += s.evidence.time_ms;
      continue;
    }
    const std::pair<std::string, tune::Evidence>* next = nullptr;
    for (const auto& o : s.others)
      if (o.second.right() && o.second.timed() && (!next || o.second.time_ms < next->second.time_ms)) next = &o;
    if (!next || next->second.time_ms > s.evidence.time_ms * (1 + kClose)) continue;
    const double gap = std::max(0.0, next->second.time_ms / s.evidence.time_ms - 1);
    out.push_back({s.name, s.key, s.chosen, next->first, s.evidence.time_ms, gap});
  }
  std::stable_sort(out.begin(), out.end(), [](const Doubt& a, const Doubt& b) { return a.weight() > b.weight(); });
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace peri::build
