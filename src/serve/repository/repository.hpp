// Repository: the models that are currently served. Lookups never wait for a load; a version that is replaced answers
// the requests it has accepted and is removed when its last call has ended; a failed load leaves everything as it was.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "serve/observe/server_log.hpp"
#include "serve/repository/scan.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

enum class Control : uint8_t { kNone, kPoll, kExplicit };

// The result of loading a version.
struct Loaded {
  std::shared_ptr<runtime::Servable> servable;
  std::vector<int64_t> batch_sizes;  // permitted batch sizes; empty: no batches
  std::string note;                  // for users: configuration settings without effect, and why
  std::string backend;               // "cpu"
  int64_t memory_bytes = 0;          // weights, and memory of all instances at the largest planned sizes; 0: unknown
  Canary canary;
  // Sections of the engine that the server itself reads, by name: a tokenizer.
  std::map<std::string, std::string> sections = {};
  std::map<std::string, std::string> told = {};  // further parameters of the configuration that clients read
};
struct LoadOrder {
  std::string name;
  int64_t version = 0;
  std::string path;
  std::string folder;  // of the model
  uint64_t stamp = 0;  // of the version's files
  ModelConfig config;
  std::optional<int64_t> instances = {};  // per device; none: from the configuration
  // Batch sizes found by an earlier load of the same files; they are not determined again.
  std::optional<std::vector<int64_t>> known_sizes = {};
};
// Called on the repository's thread; may take minutes. `say` receives progress messages.
using Loader = std::function<Result<Loaded>(const LoadOrder&, const std::function<void(const std::string&)>& say)>;

struct IndexRow {
  std::string name, version, state, reason;  // state: READY, LOADING, UNAVAILABLE
};

// May change the queue options of a version before it is served. Called on the repository's thread; may take minutes.
using Settle = std::function<void(const std::string& folder, const LoadOrder&, const Loaded&, ModelOptions*)>;

struct RepositoryOptions {
  std::string root;
  std::string config_name;  // file name in the models' folders configs/; "": not used
  Control control = Control::kNone;
  std::vector<std::string> at_start;  // kExplicit: models to load at the start; "*": all
  int64_t poll_ms = 2000;
  int64_t max_queue = 1024;              // for models whose configuration sets none
  int64_t inline_ns = 40000;             // see ModelOptions
  std::shared_ptr<ResponseCache> cache;  // for models whose configuration enables it; null: no cache
  std::shared_ptr<Turns> turns;          // of all models except ensembles, which only wait for others; null: none
  Log log;
  std::function<void()> changed;  // called without a mutex when ready() or find() may have changed; may be null
  Settle settle;                  // may be null
};

class Repository {
 public:
  Repository(RepositoryOptions options, Loader loader);
  ~Repository();

  // Begins to load what the control mode requests. Errors: the folder cannot be listed.
  Status start();
  // A version, "": the latest. Null: not available; `why` and `status` (404, 400, 503) are set.
  ServedPtr find(std::string_view name, std::string_view version, int* status, std::string* why) const;
  // Every served version, by name and version.
  std::vector<ServedPtr> all() const;
  // Served versions of a model, ascending.
  std::vector<int64_t> versions(std::string_view name) const;
  std::vector<IndexRow> index() const;
  // Loads or unloads at a client's request; `done` is called on the repository's thread. Loading an ensemble also loads
  // those of its models that are not served. `config`: replaces the folder's configuration until the next load; if that
  // load fails, the model is as it was.
  void load(const std::string& name, std::optional<std::string> config, std::function<void(Status)> done);
  // `dependents`: also unloads models that were loaded for this ensemble and are not used by another.
  void unload(const std::string& name, bool dependents, std::function<void(Status)> done);
  // Everything requested is loaded, without a failure.
  bool ready() const;
  // Returns when the loads begun by start() are complete.
  void wait_started() const;
  Control control() const { return options_.control; }

 private:
  struct Entry {
    std::map<int64_t, ServedPtr> versions;
    std::map<int64_t, std::string> failed;  // reasons
    std::string reason;                     // why no version could be chosen
    std::string loading;                    // the load in progress, for messages
    uint64_t seen = 0, tried = 0;           // stamps of the last scan and of the last load
    bool brought = false;                   // loaded for an ensemble, not by request
  };
  void work();
  void scan();
  void load_all(std::vector<std::string> names);
  Status load_now(const std::string& name, const std::optional<std::string>& given = {});
  Status try_load(const std::string& name, const std::optional<std::string>& given);
  FindModel finder() const;
  std::vector<EnsembleStep> steps_of(const EnsembleStep& step) const;
  std::string absence(const std::string& name, const std::string& version) const;
  Result<Loaded> load_ensemble(const std::string& name, const ModelConfig& config);
  Result<ServedPtr> make(const FoundModel& found, const FoundVersion& version, const ModelConfig& config);
  Status load_versions(const FoundModel& found, const ModelConfig& config, bool given);
  bool is_ensemble(const FoundModel& found) const;
  Status unload_now(const std::string& name, bool dependents = false);
  void bring_parts(const ModelConfig& config);
  void unload_parts(const std::vector<ServedPtr>& ensembles);
  void collect();
  void log(const LogLine& line) const;
  void post(std::function<void()> task);
  void tell_changed() const;

  const RepositoryOptions options_;
  const Loader loader_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<ServedPtr> retired_;
  std::vector<std::function<void()>> tasks_;
  // Accessed by the repository's thread only: names of loads in progress, and why the last scan failed.
  std::set<std::string> loading_now_;
  std::string scan_trouble_;
  bool started_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace peri::serve
