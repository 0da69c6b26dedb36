// Who has answers, and whether any two of them were compared.
#include "tune/apart.hpp"

#include <algorithm>

namespace peri::tune {

std::vector<Candidate*> tried_apart(std::vector<Candidate>& all, std::span<Candidate* const> fresh) {
  const auto provider = [](const Candidate* c) { return c->kernel->provider; };
  std::vector<Candidate*> known;
  for (Candidate& c : all)
    if (c.evidence.right() && c.evidence.positions > 0 && std::find(fresh.begin(), fresh.end(), &c) == fresh.end())
      known.push_back(&c);
  const bool others = std::any_of(known.begin(), known.end(), [&](const Candidate* k) {
    const auto other = [&](const Candidate* c) { return provider(c) != provider(k); };
    return std::any_of(known.begin(), known.end(), other) || std::any_of(fresh.begin(), fresh.end(), other);
  });
  const bool compared =
      std::any_of(known.begin(), known.end(), [](const Candidate* c) { return !c->evidence.compared_with.empty(); });
  if (!others || (compared && fresh.empty())) return {};
  if (!compared) return known;
  std::vector<Candidate*> out = {known.front()};
  const auto second = std::find_if(known.begin(), known.end(),
                                   [&](const Candidate* c) { return provider(c) != provider(known.front()); });
  if (second != known.end()) out.push_back(*second);
  return out;
}

}  // namespace peri::tune
