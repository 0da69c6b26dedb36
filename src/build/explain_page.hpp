// An explanation as one self-contained HTML page: no script, no other file, no network.
#pragma once

#include "base/file_uses.hpp"
#include "build/explain.hpp"

namespace peri::build {

extern const FileKind kPageFile;

// Bars of the steps against their floors, groups of equal problems, totals by operator and by kernel, reasons of
// choices, memory, notes. `path`: the explained engine, for the title. All names are escaped.
std::string explanation_page(const std::string& path, const Json& proof, const Explanation& explanation);

}  // namespace peri::build
