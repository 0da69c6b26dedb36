// Suggestions for misspelt words.
#include "base/spelling.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace peri {

namespace {
// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours cost one each.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}
}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string_view>& known) {
  std::string best;
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());  // of a flag: they say nothing
  size_t least = std::max<size_t>(1, (word.size() - dashes + 1) / 3);
  for (std::string_view k : known) {
    const size_t d = distance(word, k);
    if (d <= least) {
      least = d;
      best = k;
    }
  }
  // A word that was cut: the shortest that begins so.
  if (best.empty() && word.size() >= 4)
    for (std::string_view k : known)
      if (k.starts_with(word) && (best.empty() || k.size() < best.size())) best = k;
  return best;
}

}  // namespace peri
