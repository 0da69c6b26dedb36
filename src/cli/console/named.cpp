// A name ends at any "=" of the word.
#include "cli/console/named.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace peri::cli {

std::vector<Named> readings(const std::string& word) {
  std::vector<Named> out;
  for (size_t at = word.find('=', 1); at != std::string::npos; at = word.find('=', at + 1))
    out.push_back({word.substr(0, at), word.substr(at + 1)});
  return out;
}

const Named& reading_of(std::span<const Named> readings, std::span<const std::string_view> names) {
  PERI_CHECK(!readings.empty(), "a word without a reading");
  for (size_t k = readings.size(); k-- > 0;)
    if (std::find(names.begin(), names.end(), readings[k].name) != names.end()) return readings[k];
  return readings[0];
}

}  // namespace peri::cli
