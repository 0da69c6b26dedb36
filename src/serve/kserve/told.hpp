// The part of an error that is shown to clients: subject and remedy, without file names.
#pragma once

#include <string>

#include "base/result.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {

inline std::string told(const Error& e) {
  std::string out = e.node.empty() ? e.message : "'" + e.node + "': " + e.message;
  if (!e.expected.empty()) out += ": expected " + e.expected;
  if (!e.found.empty()) out += (e.expected.empty() ? ": found " : ", found ") + e.found;
  if (!e.remedy.empty()) out += "; " + without_paths(e.remedy);
  return out;
}

}  // namespace peri::serve
