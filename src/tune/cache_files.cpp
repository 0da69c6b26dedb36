// A file is judged as a whole, under a lock of its folder, before it is moved.
#include "tune/cache_files.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.hpp"
#include "tune/cache.hpp"

namespace peri::tune {

namespace {
bool is_damaged(const std::string& file) {
  sqlite3* db = nullptr;
  sqlite3_stmt* check = nullptr;
  int code = sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  bool damaged = false;
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(db, 2000);
    code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &check, nullptr);
  }
  if (code == SQLITE_OK) {
    code = sqlite3_step(check);
    const unsigned char* said = code == SQLITE_ROW ? sqlite3_column_text(check, 0) : nullptr;
    damaged = said && std::string(reinterpret_cast<const char*>(said)) != "ok";
  }
  damaged = damaged || says_damage(code);
  sqlite3_finalize(check);
  sqlite3_close(db);
  return damaged;
}
}  // namespace

bool says_damage(int code) { return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB; }

std::string set_aside(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) return "";
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) return "";
  if (!is_damaged(file)) return "";
  std::string aside = file + kDamagedTail;
  for (const char* tail : {"-journal", "-wal", "-shm", ""})
    if (std::rename((file + tail).c_str(), (aside + tail).c_str()) != 0 && (errno != ENOENT || !*tail)) return "";
  return aside;
}

Result<int64_t> clear_cache(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code unknown;
  if (const auto there = std::filesystem::status(folder, unknown);
      !folder.empty() && std::filesystem::exists(there) && !std::filesystem::is_directory(there))
    return io_error("the folder of the cache is not a folder: nothing is deleted").in_file(folder);
  std::vector<std::string> tails;
  for (const char* kind : {"", kDamagedTail})
    for (const char* tail : {"", "-journal", "-wal", "-shm"}) tails.push_back(std::string(kind) + tail);
  for (const std::string& tail : tails) {
    const std::string file = folder + kTimingsFile + tail;
    std::error_code failed;
    const auto kind = std::filesystem::symlink_status(file, failed);
    if (folder.empty() || !std::filesystem::exists(kind)) continue;
    const uintmax_t size = std::filesystem::is_regular_file(kind) ? std::filesystem::file_size(file, failed) : 0;
    if (!std::filesystem::remove(file, failed) || failed)
      return io_error("cannot delete: %s", failed.message().c_str()).in_file(file);
    bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace peri::tune
