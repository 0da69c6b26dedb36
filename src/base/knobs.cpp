// Reading of the environment.
#include "base/knobs.hpp"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/spelling.hpp"

namespace peri {

namespace {
constexpr KnobRow kRows[] = {
#define PERI_KNOB(enumerator, variable, summary) {variable, summary},
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
    return usage("no knob is called %s", std::string(name).c_str())
        .advise(near.empty() ? "unset it; peri --help lists the knobs" : "did you mean " + near + "?");
  }
  return Ok{};
}

std::string cache_folder() {
  if (auto own = knob(Knob::kCache)) return *own;
  if (const std::string xdg = absolute("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/peri";
  if (const std::string home = absolute("HOME"); !home.empty()) return home + "/.cache/peri";
  return "";
}

}  // namespace peri
