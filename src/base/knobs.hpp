// Knobs: the environment as this program knows it. The only place that reads it; knobs.def lists them.
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
  std::string_view takes;                  // in words, for errors
  bool (*good)(const std::string& value);  // whether it may be set to that
};
std::span<const KnobRow> knob_rows();

// The variable's value; none where it is not set. Set to nothing is a value: the empty one.
std::optional<std::string> knob(Knob knob);

// kUsage for the first variable PERI_* that no row names, with the nearest that one does, and for the first whose value
// its row does not take.
Status check_knobs();

// Folder for what may be thrown away: $PERI_CACHE, else $XDG_CACHE_HOME/peri, else $HOME/.cache/peri; empty if none is
// set or PERI_CACHE is set to nothing (then nothing is cached).
std::string cache_folder();

}  // namespace peri
