// Reading of the environment.
#include "base/knobs.hpp"

#include <cstdlib>

namespace peri {

namespace {
// A relative XDG_CACHE_HOME or HOME is not valid and counts as not set (XDG base directory specification).
std::string absolute(const char* name) {
  const char* v = std::getenv(name);
  return v && v[0] == '/' ? std::string(v) : std::string();
}
}  // namespace

std::string cache_folder() {
  if (const char* own = std::getenv("PERI_CACHE")) return own;
  if (const std::string xdg = absolute("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/peri";
  if (const std::string home = absolute("HOME"); !home.empty()) return home + "/.cache/peri";
  return "";
}

}  // namespace peri
