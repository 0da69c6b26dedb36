// The timing cache in SQLite.
#include "tune/cache.hpp"

#include <cpuid.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "base/hash.hpp"

namespace peri::tune {

namespace {
constexpr const char* kFile = "/timings.sqlite";
constexpr const char* kSchema =
    "DROP TABLE IF EXISTS timing1;"
    "CREATE TABLE IF NOT EXISTS timing2(machine TEXT, problem TEXT, candidate TEXT, median_ms REAL, max_error REAL, "
    "rejected TEXT,"
    " compared_with TEXT, PRIMARY KEY(machine, problem, candidate)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS samples1(machine TEXT, kernel TEXT, samples INTEGER, failed TEXT, PRIMARY KEY(machine, "
    "kernel)) WITHOUT ROWID";

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

Db open_db(const std::string& file, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &raw, flags, nullptr);
  Db db(raw);
  if (code != SQLITE_OK) return nullptr;
  sqlite3_busy_timeout(raw, 2000);
  return db;
}
Statement prepared(sqlite3* db, const char* sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &raw, nullptr) != SQLITE_OK) return nullptr;
  return Statement(raw);
}
void put_text(sqlite3_stmt* s, int at, const std::string& text) {
  sqlite3_bind_text(s, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}
std::string column(sqlite3_stmt* s, int at) {
  const unsigned char* text = sqlite3_column_text(s, at);
  return text ? std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_column_bytes(s, at))) : "";
}

// mkdir -p. Folders that are there are fine.
void make_folders(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0777);
}
}  // namespace

std::string machine_key(const kernels::Machine& machine, const std::string& worker) {
  unsigned brand[12] = {};
  for (unsigned k = 0; k < 3; ++k)
    __get_cpuid(0x80000002u + k, &brand[4 * k], &brand[4 * k + 1], &brand[4 * k + 2], &brand[4 * k + 3]);
  std::string name(reinterpret_cast<const char*>(brand), sizeof brand);
  name.resize(name.find('\0') == std::string::npos ? name.size() : name.find('\0'));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  for (const std::string& isa : machine.isas) name += " " + isa;
  struct stat self = {};
  stat(worker.empty() ? "/proc/self/exe" : worker.c_str(), &self);
  return name + format(", %d threads, program %s", machine.threads,
                       hex64(hash_text(format("%lld %lld %lld", static_cast<long long>(self.st_size),
                                              static_cast<long long>(self.st_mtim.tv_sec),
                                              static_cast<long long>(self.st_mtim.tv_nsec))))
                           .c_str());
}

struct Cache::State {
  Db db;  // outlives its statements
  Statement find, store, find_samples, store_samples;
  std::string machine, trouble;
};
Cache::Cache() : state_(std::make_unique<State>()) {}
Cache::~Cache() = default;
const std::string& Cache::trouble() const { return state_->trouble; }

std::unique_ptr<Cache> Cache::open(const std::string& folder, std::string machine) {
  std::unique_ptr<Cache> cache(new Cache());
  State& s = *cache->state_;
  s.machine = std::move(machine);
  make_folders(folder);
  const std::string file = folder + kFile;
  s.db = open_db(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // Losing the last rows to a power cut is fine; waiting for the disk after each candidate is not.
  const bool writes = s.db &&
                      sqlite3_exec(s.db.get(), "PRAGMA synchronous=OFF", nullptr, nullptr, nullptr) == SQLITE_OK &&
                      sqlite3_exec(s.db.get(), kSchema, nullptr, nullptr, nullptr) == SQLITE_OK;
  if (!writes) {
    s.trouble =
        "the timing cache " + file + " cannot be written: " + (s.db ? sqlite3_errmsg(s.db.get()) : "unable to open it");
    s.db = open_db(file, SQLITE_OPEN_READONLY);
  }
  if (s.db)
    s.find = prepared(s.db.get(),
                      "SELECT median_ms, max_error, rejected, compared_with FROM timing2 WHERE machine=?1 AND "
                      "problem=?2 AND candidate=?3");
  if (s.db)
    s.find_samples = prepared(s.db.get(), "SELECT samples, failed FROM samples1 WHERE machine=?1 AND kernel=?2");
  if (writes) s.store_samples = prepared(s.db.get(), "INSERT OR REPLACE INTO samples1 VALUES(?1,?2,?3,?4)");
  if (writes) s.store = prepared(s.db.get(), "INSERT OR REPLACE INTO timing2 VALUES(?1,?2,?3,?4,?5,?6,?7)");
  return cache;
}

std::optional<CacheRow> Cache::find(const std::string& problem, const std::string& candidate) {
  sqlite3_stmt* q = state_->find.get();
  if (!q) return std::nullopt;
  put_text(q, 1, state_->machine);
  put_text(q, 2, hex64(hash_text(problem)));
  put_text(q, 3, candidate);
  std::optional<CacheRow> out;
  if (sqlite3_step(q) == SQLITE_ROW)
    out = CacheRow{sqlite3_column_double(q, 0), sqlite3_column_double(q, 1), column(q, 2), column(q, 3)};
  sqlite3_reset(q);
  return out;
}

void Cache::store(const std::string& problem, const std::string& candidate, const CacheRow& row) {
  sqlite3_stmt* q = state_->store.get();
  if (!q) return;
  put_text(q, 1, state_->machine);
  put_text(q, 2, hex64(hash_text(problem)));
  put_text(q, 3, candidate);
  sqlite3_bind_double(q, 4, row.median_ms);
  sqlite3_bind_double(q, 5, row.max_error);
  put_text(q, 6, row.rejected);
  put_text(q, 7, row.compared_with);
  if (sqlite3_step(q) != SQLITE_DONE && state_->trouble.empty())
    state_->trouble = std::string("a timing was not kept: ") + sqlite3_errmsg(state_->db.get());
  sqlite3_reset(q);
}

std::optional<SampleVerdict> Cache::find_samples(const std::string& kernel) {
  sqlite3_stmt* q = state_->find_samples.get();
  if (!q) return std::nullopt;
  put_text(q, 1, state_->machine);
  put_text(q, 2, kernel);
  std::optional<SampleVerdict> out;
  if (sqlite3_step(q) == SQLITE_ROW) out = SampleVerdict{sqlite3_column_int64(q, 0), column(q, 1), true};
  sqlite3_reset(q);
  return out;
}

void Cache::store_samples(const std::string& kernel, const SampleVerdict& v) {
  sqlite3_stmt* q = state_->store_samples.get();
  if (!q) return;
  put_text(q, 1, state_->machine);
  put_text(q, 2, kernel);
  sqlite3_bind_int64(q, 3, v.samples);
  put_text(q, 4, v.failed);
  if (sqlite3_step(q) != SQLITE_DONE && state_->trouble.empty())
    state_->trouble = std::string("a verdict was not kept: ") + sqlite3_errmsg(state_->db.get());
  sqlite3_reset(q);
}

Result<CacheFacts> cache_facts(const std::string& folder) {
  CacheFacts f;
  f.file = folder + kFile;
  struct stat info;
  if (folder.empty() || stat(f.file.c_str(), &info) != 0) return f;
  f.exists = true;
  f.bytes = info.st_size;
  const Db db = open_db(f.file, SQLITE_OPEN_READONLY);
  const Statement q =
      db ? prepared(db.get(),
                    "SELECT machine, COUNT(*), COUNT(DISTINCT problem) FROM timing2 GROUP BY machine ORDER BY machine")
         : nullptr;
  if (!q) return io_error("the timing cache cannot be read").in_file(f.file).advise("delete it with: peri cache clear");
  while (sqlite3_step(q.get()) == SQLITE_ROW) {
    f.machines.emplace_back(column(q.get(), 0), sqlite3_column_int64(q.get(), 1));
    f.rows += sqlite3_column_int64(q.get(), 1);
    f.problems += sqlite3_column_int64(q.get(), 2);
  }
  return f;
}

Result<int64_t> clear_cache(const std::string& folder) {
  int64_t bytes = 0;
  for (const char* tail : {"", "-journal", "-wal", "-shm"}) {
    const std::string file = folder + kFile + tail;
    struct stat info;
    if (folder.empty() || lstat(file.c_str(), &info) != 0) continue;
    if (unlink(file.c_str()) != 0) return os_error("delete", file);
    bytes += info.st_size;
  }
  return bytes;
}

}  // namespace peri::tune
