// Folders of the cache whose files are limited in size: one row each, with a description and the limit. The least
// recently used files are deleted first; a file that a process holds is kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/knobs.hpp"

namespace peri {

// One kind of files, each named by digits and its suffix.
struct KeptKind {
  std::string_view folder;  // relative to the cache folder
  std::string_view words;   // what they are, in the plural
  std::string_view suffix;
  size_t digits;
  Knob limit;  // its value: the limit in MiB; 0: none are kept
  uint64_t default_mib;
  std::string_view beside = "";  // suffix of the companion file of each, deleted with it
};
extern const KeptKind kPackedWeights, kServedEngines, kMachineCode;
// All kinds.
std::span<const KeptKind* const> kept_kinds();

std::string kept_folder(const KeptKind& kind, const std::string& cache);
uint64_t kept_limit_bytes(const KeptKind& kind);

// Deletes the least recently used files of this kind in a folder while their total is above limit_bytes.
void trim_kept(const KeptKind& kind, const std::string& folder, uint64_t limit_bytes);

// Marks a file as used now; while the result lives, here or in a child of this process, no process trims or clears it.
// A file that cannot be opened or locked is not held; the only cost is that it may have to be made again.
Fd hold_kept(const std::string& path);

struct KeptFacts {
  int64_t files = 0, bytes = 0, held = 0;
};
KeptFacts kept_facts(const KeptKind& kind, const std::string& cache);
// Deletes the files of this kind that no process holds, and nothing else; returns the number of bytes deleted. Errors:
// kIo for a file that cannot be deleted.
Result<int64_t> clear_kept(const KeptKind& kind, const std::string& cache);

}  // namespace peri
