// Stores packed weights for later processes: files below the cache's folder, named by their content, mapped by the next
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
// error: then nothing is kept.
class PackedFiles {
 public:
  // Null where the cache is off, or its limit ($PERI_PACKED_CACHE_MIB) is 0.
  static std::shared_ptr<PackedFiles> shared();
  // `folder` is made when the first file is written; files are deleted, oldest first, while they hold more than
  // limit_bytes.
  PackedFiles(std::string folder, uint64_t limit_bytes);
  ~PackedFiles();  // waits until all that was to be kept is written

  // The file that keep() wrote for this key and size, every byte of it as it was written; null if there is none. One
  // that is there and cannot be believed (damaged, another user's, open to others) is told in the notes.
  std::shared_ptr<const MappedFile> find(const std::string& key, int64_t bytes) const;
  static std::span<const std::byte> data_of(const MappedFile& file);
  // Writes in the background, in place of what has the name.
  void keep(std::string key, Tensor data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What was found wrong with kept files since the last call, a line each: nearly always none.
std::vector<std::string> take_packed_notes();

// One step's view of the files: its key and its weights. `sound` says whether the weights are what the key names, so
// that a damaged engine leaves nothing behind; it is asked before a file is written.
class StepStore final : public kernels::PackedStore {
 public:
  StepStore(std::shared_ptr<PackedFiles> files, std::string key, std::function<bool()> sound);
  Result<Tensor> get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) override;
  // kIo if a file that was mapped was cut since: what was computed from it is void.
  Status check() const;

 private:
  std::shared_ptr<PackedFiles> files_;
  std::string key_;
  std::function<bool()> sound_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const MappedFile>> mapped_;
};

}  // namespace peri::exec
