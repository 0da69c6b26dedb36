// The timing cache in SQLite. A row's checksum covers its value and the whole texts it holds for.
#include "tune/cache.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/plural.hpp"
#include "base/trust.hpp"
#include "base/version.hpp"
#include "exec/entry.hpp"
#include "tune/cache_files.hpp"
#include "tune/judge_key.hpp"
#include "tune/wire.hpp"

namespace peri::tune {

namespace {
constexpr const char* kSchema =
    "DROP TABLE IF EXISTS timing1; DROP TABLE IF EXISTS timing2; DROP TABLE IF EXISTS timing3;"
    "DROP TABLE IF EXISTS samples1; DROP TABLE IF EXISTS samples2;"
    "CREATE TABLE IF NOT EXISTS known4(kind TEXT, machine TEXT, subject TEXT, candidate TEXT, value TEXT, "
    "checksum TEXT, PRIMARY KEY(kind, machine, subject, candidate)) WITHOUT ROWID";
// Kinds of rows: evidence about a candidate on a problem, verdicts of tier 1 about a kernel, peaks of the machine,
// texts of problems, what libraries chose, what whole graphs decided, verdicts about engines,
// prices of a way to a device.
constexpr const char *kTiming = "timing", *kSamples = "samples", *kPeaks = "peaks", *kProblem = "problem",
                     *kResolved = "resolved", *kWhole = "whole graph", *kVerdict = "engine", *kCrossing = "crossing";

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

// What a row holds for, and what it holds.
struct Row {
  std::string kind, machine, subject, candidate;
};
std::string checksum(const Row& row, const std::string& value) {
  Hasher sum;  // texts with their lengths, so that no two rows have the same bytes
  for (const std::string* text : {&row.kind, &row.machine, &row.subject, &row.candidate, &value})
    sum.add_i64(static_cast<int64_t>(text->size())).add(*text);
  return hex64(sum.digest());
}

constexpr const char* kOwnFolder =
    "keep it in a folder of your own that others may not write to, such as a new one below this";

// Why the file is not opened: SQLite reads a journal beside it as well.
std::string distrust_cache(const std::string& folder) {
  if (const std::string wrong = distrust_folder(folder); !wrong.empty()) return "of its folder: " + wrong;
  for (const char* tail : {"", "-journal", "-wal", "-shm"})
    if (const std::string wrong = distrust_file(folder + kTimingsFile + tail); !wrong.empty())
      return (*tail ? format("of its %s: ", tail + 1) : std::string()) + wrong;
  return "";
}
}  // namespace

std::string machine_key(const device::Target& target) {
  std::string name = target.chip;
  for (const std::string& isa : target.isas) name += " " + isa;
  for (const std::string& library : target.libraries) name += ", " + library;
  return name + ", " + counted(target.threads, "thread");
}

struct Cache::State {
  Db db;  // outlives its statements
  Statement find, store;
  std::string folder, file, machine, trouble;
  struct stat opened{};
  std::vector<std::pair<Row, std::string>> written;  // what this object has stored
  int64_t damaged = 0;                               // rows that were found and not believed
  bool broken = false, anew = false;                 // SQLite found damage; the file was moved aside for it
  // Renewing: kind, subject and candidate of the rows that were written since.
  std::optional<std::set<std::array<std::string, 3>>> own;

  // One step of a query; what SQLite finds wrong with the file is told.
  bool row(sqlite3_stmt* q) {
    const int code = sqlite3_step(q);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) tell("cannot be read");
    return false;
  }
  void put_key(sqlite3_stmt* q, const Row& r) {
    put_text(q, 1, r.kind);
    put_text(q, 2, r.machine);
    put_text(q, 3, hex64(hash_text(r.subject)));
    put_text(q, 4, r.candidate);
  }
  // What was found by trying or asking is found anew; the machine's peaks and the texts of problems stay what they are.
  static bool renewed(const Row& r) { return r.kind != kPeaks && r.kind != kProblem; }
  // The value of a row as `read` understands it; a damaged row is none.
  template <class T>
  std::optional<T> recall(const Row& r, Result<T> (*read)(const Json&)) {
    if (!find || (own && renewed(r) && !own->contains({r.kind, r.subject, r.candidate}))) return std::nullopt;
    put_key(find.get(), r);
    std::optional<T> out;
    if (row(find.get())) {
      const std::string value = column(find.get(), 0);
      auto json = column(find.get(), 1) == checksum(r, value) ? parse_json(value) : invalid("damaged");
      auto made = json.ok() ? read(*json) : Result<T>(std::move(json).error());
      if (made.ok())
        out = std::move(*made);
      else
        ++damaged;
    }
    sqlite3_reset(find.get());
    if (broken) begin_anew();
    return out;
  }
  void keep(const Row& r, const std::string& value) {
    if (!store) return;
    if (deleted()) {
      connect();
      for (const auto& [row, text] : written) put(row, text);
    }
    put(r, value);
    written.emplace_back(r, value);
    if (broken) begin_anew();
    if (own) own->insert({r.kind, r.subject, r.candidate});
  }
  // Whether the file's name is no longer that of the open file: 'peri cache clear' has deleted it.
  bool deleted() const {
    struct stat now{};
    return ::stat(file.c_str(), &now) != 0 || now.st_ino != opened.st_ino || now.st_dev != opened.st_dev;
  }
  void connect();
  // Moves a damaged file aside, once, and stores in a new one what this object has stored; false if it is not moved.
  bool begin_anew();
  void put(const Row& r, const std::string& value) {
    if (!store) return;
    put_key(store.get(), r);
    put_text(store.get(), 5, value);
    put_text(store.get(), 6, checksum(r, value));
    if (sqlite3_step(store.get()) != SQLITE_DONE) tell("does not take a row");
    sqlite3_reset(store.get());
  }
  std::string why() const { return db ? sqlite3_errmsg(db.get()) : "unable to open it"; }
  void tell(const char* what) {
    broken = broken || (db && says_damage(sqlite3_errcode(db.get())));
    if (!trouble.empty()) return;
    trouble = format("the timing cache %s %s: %s; %s", file.c_str(), what, why().c_str(),
                     broken ? "what it does not give is determined again; delete it with: peri cache clear"
                            : "the build goes on without it");
  }
};
Cache::Cache() : state_(std::make_unique<State>()) {}
Cache::~Cache() = default;
std::string Cache::trouble() const {
  const State& s = *state_;
  if (!s.trouble.empty() || s.damaged == 0) return s.trouble;
  const bool one = s.damaged == 1;
  return format("%s of the timing cache %s %s damaged; %s contents are determined again",
                counted(s.damaged, "row").c_str(), s.file.c_str(), one ? "is" : "are", one ? "its" : "their");
}

// Opens the file, a new one if there is none.
void Cache::State::connect() {
  store.reset();
  find.reset();
  db.reset();
  make_own_folders(folder);
  if (const std::string wrong = distrust_cache(folder); !wrong.empty()) {
    trouble =
        "the timing cache " + file + " is not used, because " + wrong + "; the build goes on without it; " + kOwnFolder;
    return;
  }
  db = open_db(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // Losing the last rows to a power cut is fine; waiting for the disk after each candidate is not.
  const bool writes = db && sqlite3_exec(db.get(), "PRAGMA synchronous=OFF", nullptr, nullptr, nullptr) == SQLITE_OK &&
                      sqlite3_exec(db.get(), kSchema, nullptr, nullptr, nullptr) == SQLITE_OK &&
                      ::stat(file.c_str(), &opened) == 0;
  if (!writes) {
    tell("cannot be written");
    if (broken && begin_anew()) return;
    db = open_db(file, SQLITE_OPEN_READONLY);
  }
  if (db)
    find = prepared(db.get(),
                    "SELECT value, checksum FROM known4 WHERE kind=?1 AND machine=?2 AND subject=?3 AND candidate=?4");
  if (writes) store = prepared(db.get(), "INSERT OR REPLACE INTO known4 VALUES(?1,?2,?3,?4,?5,?6)");
}

bool Cache::State::begin_anew() {
  broken = false;
  if (anew) return false;
  const std::string said = why(), aside = set_aside(file);
  if (aside.empty()) return false;
  anew = true;
  trouble = format("the timing cache %s was damaged (%s) and is begun anew; the damaged one is now %s", file.c_str(),
                   said.c_str(), aside.c_str());
  connect();
  for (const auto& [row, text] : written) put(row, text);
  return true;
}

std::unique_ptr<Cache> Cache::open(const std::string& folder, std::string machine, bool renew) {
  std::unique_ptr<Cache> cache(new Cache());
  State& s = *cache->state_;
  if (renew) s.own.emplace();
  s.machine = std::move(machine);
  s.folder = folder;
  s.file = folder + kTimingsFile;
  s.connect();
  return cache;
}

std::optional<Evidence> Cache::find(const std::string& problem, const std::string& candidate) {
  return state_->recall<Evidence>({kTiming, state_->machine, problem, candidate}, read_evidence);
}

void Cache::store(const std::string& problem, const std::string& candidate, const Evidence& evidence) {
  if (!check_evidence(evidence).ok()) return;
  state_->keep({kTiming, state_->machine, problem, candidate}, evidence_text(evidence));
}

std::optional<SampleVerdict> Cache::find_samples(const std::string& kernel) {
  return state_->recall<SampleVerdict>({kSamples, state_->machine, kernel, ""}, read_samples);
}

void Cache::store_samples(const std::string& kernel, const SampleVerdict& v) {
  state_->keep({kSamples, state_->machine, kernel, ""}, samples_text(v));
}

std::optional<Resolved> Cache::find_resolved(const std::string& problem, const std::string& candidate) {
  return state_->recall<Resolved>({kResolved, state_->machine, problem, candidate}, read_resolved);
}

void Cache::store_resolved(const std::string& problem, const std::string& candidate, const Resolved& r) {
  state_->keep({kResolved, state_->machine, problem, candidate}, resolved_text(r));
}

std::optional<Crossing> Cache::find_crossing(std::string_view device) {
  return state_->recall<Crossing>({kCrossing, state_->machine, std::string(device), std::string(crossing_key())},
                                  read_crossing);
}

void Cache::store_crossing(std::string_view device, const Crossing& crossing) {
  state_->keep({kCrossing, state_->machine, std::string(device), std::string(crossing_key())}, crossing_text(crossing));
}

namespace {
Result<std::string> text_of(const Json& json) {
  JsonWriter w;
  w.value(json);
  return w.take();
}
}  // namespace

std::optional<std::string> Cache::find_whole(const std::string& program) {
  return state_->recall<std::string>({kWhole, state_->machine, program, ""}, text_of);
}

void Cache::store_whole(const std::string& program, const std::string& text) {
  state_->keep({kWhole, state_->machine, program, ""}, text);
}

std::optional<std::string> Cache::find_verdict(const std::string& engine) {
  return state_->recall<std::string>({kVerdict, state_->machine, engine, ""}, text_of);
}

void Cache::store_verdict(const std::string& engine, const std::string& text) {
  state_->keep({kVerdict, state_->machine, engine, ""}, text);
}

namespace {
Result<std::string> read_problem(const Json& json) {
  PERI_ASSIGN(const std::string_view text, json.get_string("problem"));
  return std::string(text);
}
}  // namespace

std::optional<std::string> Cache::find_problem(const std::string& hash) {
  return state_->recall<std::string>({kProblem, "", hash, ""}, read_problem);
}

void Cache::store_problem(const ir::Graph& region, const std::vector<bool>& weights) {
  if (problem::name(region, weights).find('@') == std::string::npos) return;
  JsonWriter w;
  w.begin_object().field("problem", problem::text(region, weights)).end_object();
  state_->keep({kProblem, "", problem::hash(region, weights), ""}, w.take());
}

namespace {
// One row a machine: newer peaks replace those of another start.
struct KeptPeaks {
  std::string holds_for;
  bench::Peaks peaks;
};
Result<KeptPeaks> read_kept_peaks(const Json& json) {
  KeptPeaks kept;
  PERI_ASSIGN(const std::string_view holds_for, json.get_string("holds_for"));
  PERI_ASSIGN(const Json* peaks, json.get("peaks"));
  if (!peaks->find("byte_gops")) return refused("peaks of an earlier version");
  PERI_ASSIGN(kept.peaks, bench::read_peaks(*peaks));
  kept.holds_for = holds_for;
  return kept;
}
}  // namespace

std::optional<bench::Peaks> Cache::find_peaks(const std::string& holds_for) {
  auto kept = state_->recall<KeptPeaks>({kPeaks, state_->machine, "", "of one start"}, read_kept_peaks);
  if (!kept || kept->holds_for != holds_for) return std::nullopt;
  return std::move(kept->peaks);
}

void Cache::store_peaks(const std::string& holds_for, const bench::Peaks& peaks) {
  JsonWriter w;
  w.begin_object().field("holds_for", holds_for).key("peaks");
  bench::write_peaks(w, peaks);
  w.end_object();
  state_->keep({kPeaks, state_->machine, "", "of one start"}, w.take());
}

std::string peaks_hold_for() {
  auto start = read_file("/proc/sys/kernel/random/boot_id", 64);
  return std::string(version()) + " " + (start.ok() ? *start : "of an unknown start");
}

std::optional<bench::Peaks> machine_peaks(const std::string& folder, int threads, double tuned_seconds) {
  constexpr double kSeconds = 0.05;  // for each of the peaks
  const auto cache =
      folder.empty() ? nullptr : Cache::open(folder, machine_key(device::cpu_target(threads, exec::libraries())));
  if (cache)
    if (auto known = cache->find_peaks(peaks_hold_for())) return known;
  if (tuned_seconds < kPeaksAfterSeconds) return std::nullopt;
  bench::Peaks peaks = bench::measure_peaks(threads, kSeconds);
  if (cache) cache->store_peaks(peaks_hold_for(), peaks);
  return peaks;
}

Result<CacheFacts> cache_facts(const std::string& folder) {
  CacheFacts f;
  f.file = folder + kTimingsFile;
  std::error_code missing;
  const uintmax_t bytes = std::filesystem::file_size(f.file, missing);
  if (folder.empty()) return f;
  if (const std::string wrong = distrust_cache(folder); !wrong.empty())
    return io_error("the timing cache is not used, because %s", wrong.c_str()).in_file(f.file).advise(kOwnFolder);
  if (missing) return f;
  f.exists = true;
  f.bytes = static_cast<int64_t>(bytes);
  if (bytes == 0) return f;  // a build has just made it, or had no room to write into it
  const Db db = open_db(f.file, SQLITE_OPEN_READONLY);
  const Statement q =
      db ? prepared(
               db.get(),
               "SELECT machine, COUNT(*), COUNT(DISTINCT subject) FROM known4 WHERE kind='timing' GROUP BY machine "
               "ORDER BY machine")
         : nullptr;
  if (!q) return io_error("the timing cache cannot be read").in_file(f.file).advise("delete it with: peri cache clear");
  while (sqlite3_step(q.get()) == SQLITE_ROW) {
    f.machines.emplace_back(column(q.get(), 0), sqlite3_column_int64(q.get(), 1));
    f.rows += sqlite3_column_int64(q.get(), 1);
    f.problems += sqlite3_column_int64(q.get(), 2);
  }
  return f;
}

}  // namespace peri::tune
