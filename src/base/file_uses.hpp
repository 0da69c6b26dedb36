// What a command reads and writes is held together before it works: two names of one file are wrong usage, and a file
// that stands there gives way only to one of its own kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"

namespace peri {

// A kind of file that this program writes.
struct FileKind {
  std::string_view name;             // "an engine"
  bool (*begins)(std::string_view);  // whether a file with this beginning is one; it gets kFileHead bytes at most
  bool streams = true;               // it can go into a device such as /dev/null
  bool dash = false;                 // "-" is standard output or error, and no file
};
constexpr size_t kFileHead = 4096;

class FileUses {
 public:
  // `what` stands in errors: "the model", "--lock". An empty path is none.
  void reads(std::string_view what, const std::string& path);
  // One of a model's other files: in its folder may also lie what this program wrote, which is replaced.
  void reads_part(std::string_view what, const std::string& path);
  void writes(std::string_view what, const std::string& path, const FileKind& kind);

  // Errors: kUsage where two names are one file (the same node of the disk, or the same place once links are followed)
  // and one of them is written; kRefused where a file of another kind would be replaced and `force` is not set, an
  // empty one apart; kUsage for "-", which most kinds cannot go to; kInvalid for a folder, block device, FIFO or socket
  // that would be written, and for a character device such as /dev/null where the kind does not stream.
  Status check(bool force) const;

 private:
  struct Use {
    std::string what, path;
    const FileKind* kind = nullptr;  // null: it is read
    bool part = false;
  };
  Status check_apart(const Use& written, size_t at) const;
  std::vector<Use> uses_;
};

// The check of one file that is about to be written, where nothing else is known.
Status check_replaces(const std::string& path, const FileKind& kind, bool force);

// The path that a path given by a user leads to: links are followed, so that the file they name is replaced and they
// stay. What cannot be followed is given back as it is.
std::string behind_links(const std::string& path);
// A file made anew that grows line by line: a log. Errors: kIo.
Result<Fd> begin_named_file(const std::string& path);
Status append(const Fd& file, std::string_view bytes);
// Writes a whole file (write_file_atomic()) there, or into a character device.
Status write_named_file(const std::string& path, std::string_view bytes);

}  // namespace peri
