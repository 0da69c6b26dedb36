// Knobs: the environment as this program knows it. The only place that reads it.
#pragma once

#include <string>

namespace peri {

// Folder for what may be thrown away: $PERI_CACHE, else $XDG_CACHE_HOME/peri, else $HOME/.cache/peri; empty if none is set
// or PERI_CACHE is set to nothing (then nothing is cached).
std::string cache_folder();

}  // namespace peri
