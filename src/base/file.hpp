// Safe access to files: only regular files are read, sizes are limited, a name from a model cannot leave its folder, a
// file cut or overwritten while mapped is an error and not a crash, and a file is written completely or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace peri {

// An open file descriptor, closed with its owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

// kIo: "cannot <action>: <text of errno>" in `file`. Reads errno, so call it first.
Error os_error(const char* action, std::string_view file);

// Opens a regular file for reading. Directories, FIFOs, sockets and devices are refused (kInvalid) without being
// opened. Symlinks are followed, since the user gave the name.
Result<Fd> open_file(const std::string& path);

enum class Links {
  kNone,      // no component below `dir` may be a symlink
  kHubCache,  // the file itself may be one, as in hub caches, wherever it leads; no folder on the way to it may be
};

// Opens the regular file `relative` below the folder `dir`, where `relative` comes from an untrusted file. Absolute
// names, "..", empty names, NUL and symlinks (but see Links) are refused with kInvalid; a race between check and open
// cannot leave the folder (openat2, or a walk with O_NOFOLLOW where the kernel lacks it).
Result<Fd> open_beneath(const std::string& dir, std::string_view relative, Links links = Links::kNone);

// Size of an open regular file in bytes.
Result<uint64_t> file_size(const Fd& fd, std::string_view name);

// The whole file; kMemory if it is larger than max_bytes. `name` is used in errors.
Result<std::string> read_file(const std::string& path, size_t max_bytes);
Result<std::string> read_file(const Fd& fd, std::string_view name, size_t max_bytes);

// A regular file mapped read-only; size 0 is allowed. Movable; the address of the bytes does not change. Thread-safe.
// Another process may cut the file while it is mapped, its missing pages read as zero from then on, or write others
// into it. check() reports both: call it after the bytes were used and before a result that depends on them leaves the
// process. Until then a parser must not read a size twice and expect the same value.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  // `fd` may be closed then. The first 128 files mapped at once stay open for check(); others it finds by their path,
  // and no longer once they are renamed.
  static Result<MappedFile> map(const Fd& fd, std::string_view name);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& name() const { return name_; }

  // Releases the memory of whole pages within a range; a later access reads them from the file again.
  void drop(size_t offset, size_t bytes) const;

  // Whether bytes are still those that the reader took: asked by check() where the file's time of modification is
  // another, which for a file without it is an error. Call it before the file is shared.
  void recognize(std::function<bool(std::span<const std::byte>)> same);

  // kIo, with the file's name, if it is shorter or was written since it was mapped. Told by its size and time of
  // modification, which the system sets before it changes the bytes; a write within one tick of the file system's
  // clock after map() may have none. Once an error, always: what was read meanwhile may be kept.
  Status check() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;
  std::string name_, place_;  // place_: the path without links, also after a change of the folder; empty: fd_ is open
  Fd fd_;
  std::function<bool(std::span<const std::byte>)> same_;
};

// A file that appears under its name completely, by commit(), or not at all. Until then it has no name (O_TMPFILE) or,
// where the file system lacks that, a hidden name in the same folder that is removed with this object.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(const void* data, size_t size);
  Status write(std::string_view text) { return write(text.data(), text.size()); }
  // Writes at `offset`, independently of what write() appends; bytes that are never written are zero. Several threads
  // may write disjoint ranges.
  Status write_at(uint64_t offset, const void* data, size_t size);
  // Flushes to the disk and replaces any regular file of that name.
  Status commit();

 private:
  AtomicFile() = default;
  std::string path_;
  std::string temp_;  // hidden name, empty if the file has none
  Fd fd_;
};

Status write_file_atomic(const std::string& path, std::string_view bytes);

// `name` as a file name that stays in its folder: every byte outside [A-Za-z0-9._-] and a leading dot become %XX.
// What is longer than file systems take ends with the hash of `name` instead. Distinct names stay distinct.
std::string percent_encode_name(std::string_view name);

}  // namespace peri
