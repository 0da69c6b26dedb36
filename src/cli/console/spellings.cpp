// camelCase becomes words with hyphens; what remains stands in a short table, and in Flag::also.
#include "cli/console/spellings.hpp"

#include <algorithm>
#include <cctype>

namespace peri::cli {

namespace {
struct Shorthand {
  std::string_view word, flag, value;
};
constexpr Shorthand kShorthands[] = {{"--fp16", "--dtype", "f16"},
                                     {"--bf16", "--dtype", "bf16"},
                                     {"--fp32", "--dtype", "f32"},
                                     {"--half", "--dtype", "f16"}};
// Flags whose value is the command's argument.
constexpr std::string_view kModels[] = {"--onnx", "--load-engine"};

std::string with_hyphens(const std::string& word) {
  if (!word.starts_with("--")) return word;
  std::string out;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte)) out += '-';
    out += static_cast<char>(std::tolower(byte));
  }
  return out;
}

bool has_flag(const Command& c, std::string_view name) {
  return std::any_of(c.flags.begin(), c.flags.end(), [&](const Flag& f) { return f.name == name; });
}
}  // namespace

std::vector<std::string_view> words_in(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0) out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

Spelt our_spelling(const Command& command, const std::string& word) {
  Spelt out{with_hyphens(word), {}, false};
  for (const Flag& f : command.flags)
    for (const std::string_view other : words_in(f.also))
      if (out.word == other) return {std::string(f.name), {}, false};
  for (const Shorthand& s : kShorthands)
    if (out.word == s.word && has_flag(command, s.flag)) return {std::string(s.flag), std::string(s.value), false};
  for (const std::string_view model : kModels)
    out.positional =
        out.positional || (out.word == model && command.positional.find("MODEL") != std::string_view::npos);
  return out;
}

}  // namespace peri::cli
