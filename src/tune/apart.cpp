// Which candidates have results, and with whose they were compared.
#include "tune/apart.hpp"

#include <algorithm>

namespace peri::tune {

namespace {
std::string_view provider_of(const Candidate* c) { return c->kernel->provider; }

// Whether the one that it was compared with is of another provider. One that is unknown here counts as none.
bool compared_apart(const Candidate& c) {
  const std::string& with = c.evidence.compared_with;
  const kernels::Kernel* kernel = kernels::find(std::string_view(with).substr(0, with.find('@')));
  return kernel && kernel->provider != c.kernel->provider;
}
}  // namespace

std::optional<size_t> next_apart(std::span<const Candidate* const> candidates, const std::vector<bool>& tried,
                                 FunctionRef<bool(size_t)> passed) {
  std::optional<size_t> other;
  for (size_t k = 0; k < candidates.size(); ++k) {
    if (tried[k]) continue;
    bool has = false;
    for (size_t j = 0; j < candidates.size() && !has; ++j)
      has = provider_of(candidates[j]) == provider_of(candidates[k]) && passed(j);
    if (!has) return k;
    if (!other) other = k;
  }
  return other;
}

std::vector<Candidate*> tried_apart(std::vector<Candidate>& all, std::span<Candidate* const> fresh) {
  std::vector<Candidate*> known, others(fresh.begin(), fresh.end());
  for (Candidate& c : all) {
    const bool beside = c.evidence.positions > 0 || !c.evidence.compared_with.empty();
    if (c.evidence.right() && beside && std::find(fresh.begin(), fresh.end(), &c) == fresh.end()) known.push_back(&c);
  }
  others.insert(others.end(), known.begin(), known.end());
  std::vector<Candidate*> out;
  for (Candidate* c : known) {
    const bool other =
        std::any_of(others.begin(), others.end(), [&](const Candidate* o) { return provider_of(o) != provider_of(c); });
    if (other ? !compared_apart(*c) : others.size() > 1 && c->evidence.compared_with.empty()) out.push_back(c);
  }
  if (known.empty() || (fresh.empty() && out.empty())) return {};
  std::stable_sort(known.begin(), known.end(),
                   [](const Candidate* a, const Candidate* b) { return a->evidence.time_ms < b->evidence.time_ms; });
  const auto second = std::find_if(known.begin(), known.end(),
                                   [&](const Candidate* c) { return provider_of(c) != provider_of(known.front()); });
  const auto add = [&](Candidate* c) {
    if (std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
  };
  add(known.front());
  if (second != known.end()) add(*second);
  return out;
}

}  // namespace peri::tune
