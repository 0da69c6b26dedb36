// What a candidate is called, and the order of those that were judged.
#include <algorithm>

#include "tune/tuner.hpp"

namespace peri::tune {

std::string Candidate::id() const {
  return std::string(kernel->name) + "@" + std::to_string(kernel->version) + " {" + offer.config + "}";
}

void put_fastest_first(std::vector<Candidate>* list) {
  std::stable_sort(list->begin(), list->end(), [](const Candidate& a, const Candidate& b) {
    if (a.evidence.right() != b.evidence.right()) return a.evidence.right();
    if (a.evidence.timed() != b.evidence.timed()) return a.evidence.timed();
    return a.evidence.time_ms < b.evidence.time_ms;
  });
}

}  // namespace peri::tune
