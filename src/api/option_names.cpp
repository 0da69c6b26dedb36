// The flags that messages name, and the corresponding options of peri.h.
#include "api/option_names.hpp"

#include <algorithm>
#include <cctype>

namespace peri::api {

namespace {
struct Name {
  std::string_view flag, option;
};
// What stands with a hyphen here and an underscore there is not listed: see option_of().
constexpr Name kNames[] = {
    {"--shapes", "dims"},
    {"--opt-shapes", "dims"},
    {"--min-shapes", "min_dims"},
    {"--max-shapes", "max_dims"},
    {"--fix", "fixed"},
    {"--lock", "lock_path"},
    {"--locked", "locked_path"},
    {"--output", "engine_path"},
    {"--disable-pass", "disabled_passes"},
    {"--dump-passes", "dump_folder"},
    {"--onnxruntime", "peer_model"},
    {"--repeat", "processes"},
    {"--iterations", "max_runs"},
    {"--seed", "seeds"},
};
constexpr Name kCalls[] = {{"--kernel", "peri_kernel_add()"}};
// Remedies that name commands, and the calls that they are here.
constexpr Name kRemedies[] = {
    {"run, bench, verify, explain and inspect take the engine as it is",
     "peri_engine_load() takes the engine as it is"},
};
constexpr std::string_view kSame[] = {
    "--backend",   "--bisect",   "--budget",     "--compare",          "--device",    "--dims",
    "--dtype",     "--force",    "--io-dtype",   "--layers",           "--max-error", "--max-iterations",
    "--nan-equal", "--no-cache", "--no-tune",    "--no-verify",        "--provider",  "--retune",
    "--seconds",   "--settings", "--steps-only", "--strict-placement", "--threads",   "--tolerance",
    "--warm-up",
};

// "": none that a program could set.
std::string option_of(std::string_view flag) {
  for (const Name& n : kCalls)
    if (n.flag == flag) return std::string(n.option);
  for (const Name& n : kNames)
    if (n.flag == flag) return "the option " + std::string(n.option);
  if (std::find(std::begin(kSame), std::end(kSame), flag) == std::end(kSame)) return "";
  std::string out = "the option " + std::string(flag.substr(2));
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Where the word that begins at `at` ends.
size_t word_end(std::string_view text, size_t at) {
  while (at < text.size() && (is_word(text[at]) || text[at] == '=' || text[at] == '.')) ++at;
  while (at > 0 && text[at - 1] == '.') --at;
  return at;
}

bool is_placeholder(std::string_view value) {
  return !value.empty() && std::none_of(value.begin(), value.end(), [](char c) { return std::islower(c); });
}

// Whether what follows a flag is its value, and no word of the sentence.
bool is_value(std::string_view flag, std::string_view word) {
  constexpr std::string_view kBackends[] = {"auto", "cpu", "cuda"}, kTypes[] = {"bf16", "f16", "f32"};
  const auto among = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
  };
  if (flag == "--backend") return among(kBackends);
  if (flag == "--dtype" || flag == "--io-dtype") return among(kTypes);
  return !word.empty() && (flag == "--disable-pass" || word.find('=') != word.npos);
}

// The sizes of NAME:AxBxC, as the list that the option takes: "NAME.0=A", "NAME.1=B", "NAME.2=C"; of the smallest ones
// those of 0, if there are some. "": no such value.
std::string sizes_of(std::string_view flag, std::string_view value) {
  if (value.size() > 2 && value.starts_with('\'') && value.ends_with('\'')) value = value.substr(1, value.size() - 2);
  const size_t colon = value.rfind(':');
  if (!flag.ends_with("shapes") || colon == value.npos || colon == 0) return "";
  const std::string_view sizes = value.substr(colon);
  const bool zeros = flag == "--min-shapes" && (sizes.starts_with(":0") || sizes.find("x0") != sizes.npos);
  std::string out;
  std::string_view left = value.substr(colon + 1);
  for (int axis = 0; !left.empty(); ++axis) {
    const size_t end = std::min(left.find('x'), left.size());
    const std::string_view size = left.substr(0, end);
    if (size.empty() || size.find_first_not_of("0123456789") != size.npos) return "";
    if (!zeros || size == "0")
      out += (out.empty() ? "\"" : ", \"") + std::string(value.substr(0, colon)) + "." + std::to_string(axis) + "=" +
             std::string(size) + "\"";
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return out;
}

// A whole command at `at`: up to where its sentence goes on.
size_t command_end(std::string_view text, size_t at) {
  constexpr std::string_view kPeri = "peri ";
  if (!text.substr(at).starts_with(kPeri) || (at > 0 && is_word(text[at - 1]))) return at;
  const size_t word = at + kPeri.size();
  if (word >= text.size() || (!std::islower(static_cast<unsigned char>(text[word])) && text[word] != '-')) return at;
  const bool quoted = at > 0 && text[at - 1] == '\'';
  return std::min(text.find_first_of(quoted ? "'" : ";,", at), text.size());
}
}  // namespace

std::string in_words_of_library(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = command_end(text, at); end > at) {
      out += text.substr(at, end - at);
      at = end;
      continue;
    }
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(' || text[at - 1] == '\'';
    size_t end = at;
    if (begins && text.substr(at).starts_with("--"))
      while (end < text.size() && (std::islower(static_cast<unsigned char>(text[end])) || text[end] == '-')) ++end;
    const std::string_view flag = text.substr(at, end - at);
    const std::string option = end > at ? option_of(flag) : "";
    if (option.empty()) {
      out += text[at++];
      continue;
    }
    out += option;
    at = end;
    if (at + 1 >= text.size() || text[at] != ' ') continue;
    const std::string_view shape = text.substr(at + 1, text.find_first_of(" ;,", at + 1) - at - 1);
    if (const std::string sizes = sizes_of(flag, shape); !sizes.empty()) {
      out += " " + sizes;
      at += 1 + shape.size();
      continue;
    }
    const size_t stop = word_end(text, at + 1);
    const std::string_view value = text.substr(at + 1, stop - at - 1);
    if (is_placeholder(value)) {
      at = stop;
    } else if (is_value(flag, value)) {
      out += " \"" + std::string(value) + "\"";
      at = stop;
    }
  }
  return out;
}

Error in_words_of_library(Error e) {
  for (std::string* part : {&e.message, &e.expected, &e.found, &e.remedy})
    if (part->find("--") != std::string::npos) *part = in_words_of_library(*part);
  for (const Name& n : kRemedies)
    if (e.remedy == n.flag) e.remedy = n.option;
  return e;
}

}  // namespace peri::api
