// What a command reads and writes is held together before it works: two names of one file are wrong usage, and a file
// that stands there gives way only to one of its own kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri {

// A kind of file that this program writes.
struct FileKind {
  std::string_view name;             // "an engine"
  bool (*begins)(std::string_view);  // whether a file with this beginning is one; it gets kFileHead bytes at most
};
constexpr size_t kFileHead = 4096;

class FileUses {
 public:
  // `what` stands in errors: "the model", "--lock". An empty path is none.
  void reads(std::string_view what, const std::string& path);
  void writes(std::string_view what, const std::string& path, const FileKind& kind);

  // Errors: kUsage where two names are one file (the same node of the disk, or the same place once links are followed)
  // and one of them is written; kRefused where a file of another kind would be replaced and `force` is not set, an
  // empty one apart; kInvalid for a folder, device, FIFO or socket that would be written.
  Status check(bool force) const;

 private:
  struct Use {
    std::string what, path;
    const FileKind* kind = nullptr;  // null: it is read
  };
  Status check_apart(const Use& written, size_t at) const;
  std::vector<Use> uses_;
};

// The check of one file that is about to be written, where nothing else is known.
Status check_replaces(const std::string& path, const FileKind& kind, bool force);

}  // namespace peri
