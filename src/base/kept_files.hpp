// Folders of the cache whose files go when they are too many: a row each, with what they are and the most they may
// hold. The least recently used go first; a file that a process holds stays.
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
  std::string_view folder;  // below the cache's
  std::string_view words;   // what they are, several of them
  std::string_view suffix;
  size_t digits;
  Knob limit;  // its value: the most MiB; 0: none are kept
  uint64_t default_mib;
  std::string_view beside = "";  // suffix of the file beside each that goes with it
};
extern const KeptKind kPackedWeights, kServedEngines, kMachineCode;
// All that there are.
std::span<const KeptKind* const> kept_kinds();

std::string kept_folder(const KeptKind& kind, const std::string& cache);
uint64_t kept_limit_bytes(const KeptKind& kind);

// Deletes the least recently used files of this kind in a folder while they hold more than limit_bytes.
void trim_kept(const KeptKind& kind, const std::string& folder, uint64_t limit_bytes);

// Marks a file as used now; while the result lives, here or in a child of this process, no process trims or clears it.
// One that cannot be opened or locked is not held, which costs no more than making it again.
Fd hold_kept(const std::string& path);

struct KeptFacts {
  int64_t files = 0, bytes = 0, held = 0;
};
KeptFacts kept_facts(const KeptKind& kind, const std::string& cache);
// Deletes the files of this kind that nobody holds, and nothing else; returns how many bytes went. Errors: kIo for one
// that cannot be deleted.
Result<int64_t> clear_kept(const KeptKind& kind, const std::string& cache);

}  // namespace peri
