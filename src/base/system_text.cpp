// Files of at most 1 MiB are read; none of these is near it.
#include "base/system_text.hpp"

#include <algorithm>
#include <charconv>

#include "base/file.hpp"

namespace peri {

std::string system_text(const std::string& path) {
  auto text = read_file(path, size_t{1} << 20);
  return text.ok() ? *std::move(text) : "";
}

std::vector<std::string> parts_of(std::string_view text, std::string_view between) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(between), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<std::string> words_of(std::string_view text) { return parts_of(text, " \t\n"); }

double number_of(const std::vector<std::string>& words, size_t k, double otherwise) {
  double v = 0;
  if (k >= words.size()) return otherwise;
  const auto [end, code] = std::from_chars(words[k].data(), words[k].data() + words[k].size(), v);
  return code == std::errc() && end == words[k].data() + words[k].size() ? v : otherwise;
}

double number_in(const std::string& path, double otherwise) {
  return number_of(words_of(system_text(path)), 0, otherwise);
}

double number_behind(std::string_view text, std::string_view key, double otherwise) {
  const std::vector<std::string> words = words_of(text);
  const auto at = std::find(words.begin(), words.end(), key);
  return at == words.end() ? otherwise : number_of(words, static_cast<size_t>(at - words.begin()) + 1, otherwise);
}

}  // namespace peri
