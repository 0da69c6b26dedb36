// Suggestions for misspelt words.
#include "base/spelling.hpp"

#include <algorithm>

namespace peri {

namespace {
// Edit distance, and beginnings, for "did you mean".
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string_view>& known) {
  std::string best;
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());  // of a flag: they say nothing
  size_t least = 1 + (word.size() - dashes) / 3;
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
