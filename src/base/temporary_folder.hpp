// A folder for what a process needs while it runs. It goes with its owner; what a killed process left behind goes when
// the next folder of that name is made.
#pragma once

#include <string>
#include <string_view>

#include "base/file.hpp"

namespace peri {

class TemporaryFolder {
 public:
  // peri-<name>-<6 characters> below $TMPDIR, else /tmp, for this user alone.
  static Result<TemporaryFolder> create(std::string_view name);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;  // empty: moved from
  Fd lock_;           // says to others that the owner lives
};

}  // namespace peri
