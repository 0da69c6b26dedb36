// Knobs: the environment variables of this program, listed in knobs.def. The only module that reads the environment.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri {

enum class Knob {
#define PERI_KNOB(enumerator, variable, summary, takes, good) enumerator,
#include "base/knobs.def"
#undef PERI_KNOB
};

struct KnobRow {
  std::string_view variable, summary;
  std::string_view takes;                  // the accepted values in words, for errors
  bool (*good)(const std::string& value);  // whether the value is accepted
};
std::span<const KnobRow> knob_rows();

// The variable's value; none where it is not set. A variable set to an empty string has a value: "".
std::optional<std::string> knob(Knob knob);

// kUsage for the first variable PERI_* that no row names, with the nearest name, and for the first whose value its row
// does not accept.
Status check_knobs();

// Folder for data that may be deleted: $PERI_CACHE, else $XDG_CACHE_HOME/peri, else $HOME/.cache/peri; empty if none is
// set or PERI_CACHE is set to "" (then nothing is cached).
std::string cache_folder();

// Whether TERM says that a terminal cannot move its cursor and erase: it is not set, empty, or "dumb".
bool terminal_is_dumb();

}  // namespace peri
