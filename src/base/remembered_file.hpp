// Files that are known by their bytes: one that was touched and not written is the one that was opened.
#pragma once

#include "base/file.hpp"

namespace peri {

// Reads the whole file once and recognizes it by its hash from then on (MappedFile::recognize). Call it before anything
// is taken from the file: what is written meanwhile is then read as well as hashed.
void remember(MappedFile& file);

}  // namespace peri
