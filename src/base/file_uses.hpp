// The files that a command reads and writes are checked together before it starts: two names of one file are a usage
// error, and an existing file is replaced only by one of its own kind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"

namespace peri {

// A kind of file that this program writes.
struct FileKind {
  std::string_view name;             // "an engine"
  bool (*begins)(std::string_view);  // whether a file that begins with these bytes, at most kFileHead, is of this kind
  bool streams = true;               // it can be written to a device such as /dev/null
  // What "-" means instead of a file of that name; kNone: nothing, it is refused.
  enum class Dash : uint8_t { kNone, kOutput, kError } dash = Dash::kNone;
  std::string_view beginning = {};  // what a file of this kind begins with, where `begins` is null
  bool is(std::string_view head) const { return begins ? begins(head) : head.starts_with(beginning); }
};
constexpr size_t kFileHead = 4096;

class FileUses {
 public:
  // `what` names the file in errors: "the model", "--lock". An empty path is ignored.
  void reads(std::string_view what, const std::string& path);
  // Files behind one that is read, such as those of a folder. Among them may be outputs of this program, which give way
  // to their own kind; `files` is asked only where one of another kind would be replaced.
  void reads_parts(std::string_view what, std::function<std::vector<std::string>()> files);
  void writes(std::string_view what, const std::string& path, const FileKind& kind);

  // Errors: kUsage where two names are one file (the same inode, or the same path once links are followed; "-" is that
  // of standard output) and one of them is written; kRefused where a non-empty file of another kind would be replaced
  // and `force` is not set; kUsage for "-" if the kind does not accept it; kInvalid for a folder, block device, FIFO or
  // socket that would be written, and for a character device such as /dev/null where the kind does not stream.
  Status check(bool force) const;
  // Whether one of the files may be written whatever check() says of the others.
  bool may_write(const std::string& path, bool force) const;

 private:
  struct Use {
    std::string what, path;
    const FileKind* kind = nullptr;  // null: the file is read
  };
  struct Parts {
    std::string what;
    std::function<std::vector<std::string>()> files;
  };
  Status check_apart() const;
  Status check_parts() const;
  std::vector<Use> uses_;
  std::vector<Parts> parts_;
};

// The check for a single file that is about to be written.
Status check_replaces(const std::string& path, const FileKind& kind, bool force);

// Whether two paths name one file, which need not exist; a device that keeps nothing, such as /dev/null, is none.
bool same_file(const std::string& a, const std::string& b);

// The path that a user's path resolves to: links are followed, so that the file they point to is replaced and the links
// remain. A path that cannot be resolved is returned unchanged.
std::string behind_links(const std::string& path);
// Creates or truncates a file that grows line by line, such as a log. Errors: kIo.
Result<Fd> begin_named_file(const std::string& path);
Status append(const Fd& file, std::string_view bytes);
// Writes a whole file with write_file_atomic(), or into a character device.
Status write_named_file(const std::string& path, std::string_view bytes);

}  // namespace peri
