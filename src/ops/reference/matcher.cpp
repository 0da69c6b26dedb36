// Matching of many texts by an automaton whose states are constructed on demand.
#include "ops/reference/regex.hpp"

namespace peri::ops {

Matcher::Matcher(const Regex& regex) : regex_(regex), plain_(regex.is_plain()) {
  if (plain_) state_of(regex_.begin());
}

int32_t Matcher::state_of(std::vector<int32_t> waiting) {
  const auto [it, fresh] = known_.try_emplace(waiting, static_cast<int32_t>(states_.size()));
  if (!fresh) return it->second;
  State s;
  s.ends = regex_.ends(waiting);
  s.waiting = std::move(waiting);
  s.to.fill(kUnknown);
  states_.push_back(std::move(s));
  return it->second;
}

bool Matcher::matches(std::string_view text) {
  if (!plain_) return regex_.matches(text);
  int32_t at = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128) return regex_.matches(text);
    int32_t to = states_[static_cast<size_t>(at)].to[byte];
    if (to == kUnknown) {
      if (states_.size() >= kMaxStates) return regex_.matches(text);
      to = state_of(regex_.behind(states_[static_cast<size_t>(at)].waiting, byte));
      states_[static_cast<size_t>(at)].to[byte] = to;
    }
    at = to;
  }
  return states_[static_cast<size_t>(at)].ends;
}

}  // namespace peri::ops
