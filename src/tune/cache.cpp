// The timing cache in SQLite. A row's checksum covers its fields and the whole texts it holds for.
#include "tune/cache.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/trust.hpp"

namespace peri::tune {

namespace {
constexpr const char* kFile = "/timings.sqlite";
constexpr const char* kSchema =
    "DROP TABLE IF EXISTS timing1; DROP TABLE IF EXISTS timing2; DROP TABLE IF EXISTS samples1;"
    "CREATE TABLE IF NOT EXISTS timing3(machine TEXT, problem TEXT, candidate TEXT, median_ms REAL, max_error REAL, "
    "rejected TEXT,"
    " compared_with TEXT, checksum TEXT, PRIMARY KEY(machine, problem, candidate)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS samples2(machine TEXT, kernel TEXT, samples INTEGER, failed TEXT, checksum TEXT, "
    "PRIMARY KEY(machine, kernel)) WITHOUT ROWID";

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

// Texts and numbers of a row, each with its length, so that no two rows have the same bytes.
class RowSum {
 public:
  RowSum& text(std::string_view v) { return sum_.add_i64(static_cast<int64_t>(v.size())).add(v), *this; }
  RowSum& number(double v) { return sum_.add_bytes(&v, sizeof v), *this; }
  RowSum& number(int64_t v) { return sum_.add_i64(v), *this; }
  std::string digest() const { return hex64(sum_.digest()); }

 private:
  Hasher sum_;
};
std::string checksum(const std::string& machine, const std::string& problem, const std::string& candidate,
                     const CacheRow& row) {
  RowSum sum;
  sum.text("timing3").text(machine).text(problem).text(candidate).number(row.median_ms).number(row.max_error);
  return sum.text(row.rejected).text(row.compared_with).digest();
}
std::string checksum(const std::string& machine, const std::string& kernel, const SampleVerdict& v) {
  return RowSum().text("samples2").text(machine).text(kernel).number(v.samples).text(v.failed).digest();
}

// Times and errors that a judge may have told; -1 stands for none.
bool makes_sense(const CacheRow& row) {
  const auto number = [](double v) { return std::isfinite(v) && (v >= 0 || v == -1); };
  return number(row.median_ms) && number(row.max_error) && (!row.rejected.empty() || row.max_error <= 1);
}

// Why the file is not opened: SQLite reads a journal beside it as well.
std::string distrust_cache(const std::string& folder) {
  if (const std::string wrong = distrust_folder(folder); !wrong.empty()) return "of its folder: " + wrong;
  for (const char* tail : {"", "-journal", "-wal", "-shm"})
    if (const std::string wrong = distrust_file(folder + kFile + tail); !wrong.empty())
      return (*tail ? format("of its %s: ", tail + 1) : std::string()) + wrong;
  return "";
}
}  // namespace

std::string machine_key(const device::Target& target, const std::string& worker) {
  std::string name = target.chip;
  for (const std::string& isa : target.isas) name += " " + isa;
  for (const std::string& library : target.libraries) name += ", " + library;
  struct stat self = {};
  stat(worker.empty() ? "/proc/self/exe" : worker.c_str(), &self);
  return name + format(", %d threads, program %s", target.threads,
                       hex64(hash_text(format("%lld %lld %lld", static_cast<long long>(self.st_size),
                                              static_cast<long long>(self.st_mtim.tv_sec),
                                              static_cast<long long>(self.st_mtim.tv_nsec))))
                           .c_str());
}

struct Cache::State {
  Db db;  // outlives its statements
  Statement find, store, find_samples, store_samples;
  std::string file, machine, trouble;
  int64_t damaged = 0;  // rows that were found and not believed

  // One step of a query; what SQLite finds wrong with the file is told.
  bool row(sqlite3_stmt* q) {
    const int code = sqlite3_step(q);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) tell("cannot be read");
    return false;
  }
  void tell(const char* what) {
    if (!trouble.empty()) return;
    const int code = db ? sqlite3_errcode(db.get()) : SQLITE_CANTOPEN;
    trouble = format("the timing cache %s %s: %s; the build goes on without it%s", file.c_str(), what,
                     db ? sqlite3_errmsg(db.get()) : "unable to open it",
                     code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? "; delete it with: peri cache clear" : "");
  }
};
Cache::Cache() : state_(std::make_unique<State>()) {}
Cache::~Cache() = default;
std::string Cache::trouble() const {
  const State& s = *state_;
  if (!s.trouble.empty() || s.damaged == 0) return s.trouble;
  return format("%lld rows of the timing cache %s are damaged; what they held is found anew",
                static_cast<long long>(s.damaged), s.file.c_str());
}

std::unique_ptr<Cache> Cache::open(const std::string& folder, std::string machine) {
  std::unique_ptr<Cache> cache(new Cache());
  State& s = *cache->state_;
  s.machine = std::move(machine);
  make_own_folders(folder);
  const std::string& file = s.file = folder + kFile;
  if (const std::string wrong = distrust_cache(folder); !wrong.empty()) {
    s.trouble = "the timing cache " + file + " is not used, because " + wrong + "; the build goes on without it";
    return cache;
  }
  s.db = open_db(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // Losing the last rows to a power cut is fine; waiting for the disk after each candidate is not.
  const bool writes = s.db &&
                      sqlite3_exec(s.db.get(), "PRAGMA synchronous=OFF", nullptr, nullptr, nullptr) == SQLITE_OK &&
                      sqlite3_exec(s.db.get(), kSchema, nullptr, nullptr, nullptr) == SQLITE_OK;
  if (!writes) {
    s.tell("cannot be written");
    s.db = open_db(file, SQLITE_OPEN_READONLY);
  }
  if (s.db)
    s.find = prepared(s.db.get(),
                      "SELECT median_ms, max_error, rejected, compared_with, checksum FROM timing3 WHERE machine=?1 "
                      "AND problem=?2 AND candidate=?3");
  if (s.db)
    s.find_samples =
        prepared(s.db.get(), "SELECT samples, failed, checksum FROM samples2 WHERE machine=?1 AND kernel=?2");
  if (writes) s.store_samples = prepared(s.db.get(), "INSERT OR REPLACE INTO samples2 VALUES(?1,?2,?3,?4,?5)");
  if (writes) s.store = prepared(s.db.get(), "INSERT OR REPLACE INTO timing3 VALUES(?1,?2,?3,?4,?5,?6,?7,?8)");
  return cache;
}

std::optional<CacheRow> Cache::find(const std::string& problem, const std::string& candidate) {
  sqlite3_stmt* q = state_->find.get();
  if (!q) return std::nullopt;
  put_text(q, 1, state_->machine);
  put_text(q, 2, hex64(hash_text(problem)));
  put_text(q, 3, candidate);
  std::optional<CacheRow> out;
  if (state_->row(q)) {
    out = CacheRow{sqlite3_column_double(q, 0), sqlite3_column_double(q, 1), column(q, 2), column(q, 3)};
    if (column(q, 4) != checksum(state_->machine, problem, candidate, *out) || !makes_sense(*out))
      out.reset(), ++state_->damaged;
  }
  sqlite3_reset(q);
  return out;
}

void Cache::store(const std::string& problem, const std::string& candidate, const CacheRow& row) {
  sqlite3_stmt* q = state_->store.get();
  if (!q || !makes_sense(row)) return;
  put_text(q, 1, state_->machine);
  put_text(q, 2, hex64(hash_text(problem)));
  put_text(q, 3, candidate);
  sqlite3_bind_double(q, 4, row.median_ms);
  sqlite3_bind_double(q, 5, row.max_error);
  put_text(q, 6, row.rejected);
  put_text(q, 7, row.compared_with);
  put_text(q, 8, checksum(state_->machine, problem, candidate, row));
  if (sqlite3_step(q) != SQLITE_DONE) state_->tell("does not take a timing");
  sqlite3_reset(q);
}

std::optional<SampleVerdict> Cache::find_samples(const std::string& kernel) {
  sqlite3_stmt* q = state_->find_samples.get();
  if (!q) return std::nullopt;
  put_text(q, 1, state_->machine);
  put_text(q, 2, kernel);
  std::optional<SampleVerdict> out;
  if (state_->row(q)) {
    out = SampleVerdict{sqlite3_column_int64(q, 0), column(q, 1), true};
    if (column(q, 2) != checksum(state_->machine, kernel, *out) || out->samples < 0) out.reset(), ++state_->damaged;
  }
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
  put_text(q, 5, checksum(state_->machine, kernel, v));
  if (sqlite3_step(q) != SQLITE_DONE) state_->tell("does not take a verdict");
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
                    "SELECT machine, COUNT(*), COUNT(DISTINCT problem) FROM timing3 GROUP BY machine ORDER BY machine")
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
