// A folder for the temporary files of a process. It is deleted with its owner; the folder of a killed process is
// deleted when the next folder of that name is created.
#pragma once

#include <string>
#include <string_view>

#include "base/file.hpp"

namespace peri {

class TemporaryFolder {
 public:
  // peri-<name>-<6 characters> in $TMPDIR, else /tmp, accessible to this user only.
  static Result<TemporaryFolder> create(std::string_view name);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;  // empty: moved from
  Fd lock_;           // shows to other processes that the owner is alive
};

}  // namespace peri
