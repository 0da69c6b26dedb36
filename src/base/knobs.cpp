// Reading of the environment.
#include "base/knobs.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/spelling.hpp"

namespace peri {

namespace {
constexpr int64_t kMaxMib = int64_t{1} << 30;

bool any(const std::string&) { return true; }  // what cannot be used is told by who uses it
bool is_switch(const std::string& v) { return v.empty() || v == "0" || v == "1"; }
bool is_mib(const std::string& v) {
  int64_t n = 0;
  const auto [end, code] = std::from_chars(v.data(), v.data() + v.size(), n);
  return code == std::errc() && end == v.data() + v.size() && n >= 0 && n <= kMaxMib;
}
bool is_program(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0;
}
bool is_program_or_none(const std::string& v) { return v.empty() || is_program(v); }
// By a path, or by a name that PATH finds.
bool is_command(const std::string& v) { return v.find('/') == std::string::npos || is_program(v); }
bool are_folders(const std::string& v) {
  for (size_t at = 0; at < v.size();) {
    const size_t end = std::min(v.find(':', at), v.size());
    std::error_code unknown;
    if (end > at && !std::filesystem::is_directory(v.substr(at, end - at), unknown)) return false;
    at = end + 1;
  }
  return true;
}

constexpr KnobRow kRows[] = {
#define PERI_KNOB(enumerator, variable, summary, takes, good) {variable, summary, takes, good},
#include "base/knobs.def"
#undef PERI_KNOB
};

// A relative XDG_CACHE_HOME or HOME is not valid and counts as not set (XDG base directory specification).
std::string absolute(const char* name) {
  const char* v = std::getenv(name);
  return v && v[0] == '/' ? std::string(v) : std::string();
}
}  // namespace

std::span<const KnobRow> knob_rows() { return kRows; }

std::optional<std::string> knob(Knob knob) {
  const char* v = std::getenv(kRows[static_cast<size_t>(knob)].variable.data());
  return v ? std::optional<std::string>(v) : std::nullopt;
}

Status check_knobs() {
  std::vector<std::string_view> known;
  for (const KnobRow& row : kRows) known.push_back(row.variable);
  for (char** e = environ; e && *e; ++e) {
    const std::string_view entry = *e, name = entry.substr(0, entry.find('='));
    if (!name.starts_with("PERI_")) continue;
    bool found = false;
    for (std::string_view k : known) found = found || k == name;
    if (found) continue;
    const std::string near = nearest(name, known);
    return usage("unknown environment variable %s", std::string(name).c_str())
        .advise(near.empty() ? "unset it; peri --help lists those that are known" : "did you mean " + near + "?");
  }
  for (const KnobRow& row : kRows) {
    const char* const value = std::getenv(row.variable.data());
    if (!value || row.good(value)) continue;
    return usage("the environment variable %s has an invalid value", std::string(row.variable).c_str())
        .expecting(row.takes)
        .but_found("'" + std::string(value) + "'")
        .advise("unset it, or correct it");
  }
  return Ok{};
}

bool terminal_is_dumb() {
  const char* const name = std::getenv("TERM");
  return !name || !*name || std::string_view(name) == "dumb";
}

std::string cache_folder() {
  if (auto own = knob(Knob::kCache)) return *own;
  if (const std::string xdg = absolute("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/peri";
  if (const std::string home = absolute("HOME"); !home.empty()) return home + "/.cache/peri";
  return "";
}

}  // namespace peri
