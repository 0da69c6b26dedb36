// Stores packed weights for later processes: files in the cache folder, named by their content, mapped by the next
// engine that has the same step with the same weights once owner, key and checksum are verified. The oldest are deleted
// if they exceed the limit.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

// The files of this process: one object while any engine holds it. A folder that is absent, read-only or full is no
// error: then nothing is stored.
class PackedFiles {
 public:
  // Null where the cache is off, or its limit ($PERI_PACKED_CACHE_MIB) is 0.
  static std::shared_ptr<PackedFiles> shared();
  // `folder` is created when the first file is written; files are deleted, oldest first, while their total exceeds
  // limit_bytes.
  PackedFiles(std::string folder, uint64_t limit_bytes);
  ~PackedFiles();  // waits until all pending files are written

  // The file that keep() wrote for this key and size, verified completely; null if there is none. An untrusted one
  // (damaged, another user's, writable by others) is reported in the notes.
  std::shared_ptr<const MappedFile> find(const std::string& key, int64_t bytes) const;
  static std::span<const std::byte> data_of(const MappedFile& file);
  // Writes in the background, replacing any file of that name.
  void keep(std::string key, Tensor data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Faults of stored files found since the last call, one line each: nearly always none.
std::vector<std::string> take_packed_notes();

// One step's view of the files: its key and its weights. `sound` says whether the weights match the key, so that a
// damaged engine stores nothing; it is called before a file is written.
class StepStore final : public kernels::PackedStore {
 public:
  StepStore(std::shared_ptr<PackedFiles> files, std::string key, std::function<bool()> sound);
  Result<Tensor> get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) override;
  // What get() consists of: a view of the stored file, undefined where there is none, and storing what was made. The
  // bytes stay in memory until they are written.
  Tensor find(std::string_view form, int64_t bytes);
  void keep(std::string_view form, Tensor made);
  // kIo if a mapped file was truncated since: results computed from it are invalid.
  Status check() const;

 private:
  bool stores(int64_t bytes) const;
  std::string key_of(std::string_view form) const { return key_ + "\nform " + std::string(form); }

  std::shared_ptr<PackedFiles> files_;
  std::string key_;
  std::function<bool()> sound_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<const MappedFile>> mapped_;  // those that a tensor still views
};

}  // namespace peri::exec
