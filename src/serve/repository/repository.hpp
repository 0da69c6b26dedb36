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

// What a loader makes of a version.
struct Loaded {
  std::shared_ptr<runtime::Servable> servable;
  std::vector<int64_t> batch_sizes;  // that a batch may have; empty: none
  std::string note;                  // for people: what of the configuration does not hold, and why
  std::string backend;               // "cpu"
  int64_t memory_bytes = 0;          // weights, and what all instances take at the largest sizes planned; 0: not known
  Canary canary;
  // Parts of the engine that the server reads itself, by name: a tokenizer.
  std::map<std::string, std::string> sections = {};
};
struct LoadOrder {
  std::string name;
  int64_t version = 0;
  std::string path;
  std::string folder;  // of the model
  uint64_t stamp = 0;  // of the version's files
  ModelConfig config;
  std::optional<int64_t> instances = {};  // on the device that it is loaded for; none: as the configuration says
  // Of an earlier load of the same files, which need not be found again.
  std::optional<std::vector<int64_t>> known_sizes = {};
};
// Called on the repository's thread; may take minutes. `say` gets progress.
using Loader = std::function<Result<Loaded>(const LoadOrder&, const std::function<void(const std::string&)>& say)>;

struct IndexRow {
  std::string name, version, state, reason;  // state: READY, LOADING, UNAVAILABLE
};

// May change how a version is queued, before it is served. Called on the repository's thread; may take minutes.
using Settle = std::function<void(const std::string& folder, const LoadOrder&, const Loaded&, ModelOptions*)>;

struct RepositoryOptions {
  std::string root;
  std::string config_name;  // of configurations in models' folders configs/; "": none is looked for
  Control control = Control::kNone;
  std::vector<std::string> at_start;  // kExplicit: models to load at once; "*": all
  int64_t poll_ms = 2000;
  int64_t max_queue = 1024;              // of a model whose configuration states none
  int64_t inline_ns = 40000;             // see ModelOptions
  std::shared_ptr<ResponseCache> cache;  // of models whose configuration asks for one; null: none has one
  std::shared_ptr<Turns> turns;          // of all models but ensembles, which wait for others; null: none
  Log log;
  std::function<void()>
      changed;    // called without a mutex held where ready() or find() may say another thing; may be null
  Settle settle;  // may be null
};

class Repository {
 public:
  Repository(RepositoryOptions options, Loader loader);
  ~Repository();

  // Begins to load what the control mode asks for. Errors: the folder cannot be listed.
  Status start();
  // A version, "": the latest. Null: there is none, and `why` and `status` (404, 400, 503) say what is wrong.
  ServedPtr find(std::string_view name, std::string_view version, int* status, std::string* why) const;
  // Every version that is served, by name and version.
  std::vector<ServedPtr> all() const;
  // How many inferences succeeded, of versions that are no more too.
  uint64_t answered() const;
  // Versions of a model that are served.
  std::vector<int64_t> versions(std::string_view name) const;
  std::vector<IndexRow> index() const;
  // Loads or unloads as a client asks; `done` is called on the repository's thread. An ensemble brings the models it
  // is made of where they are not served. `config`: in place of the folder's, until the next load.
  void load(const std::string& name, std::optional<std::string> config, std::function<void(Status)> done);
  // `dependents`: models that an ensemble brought with it go too, where no other ensemble has them.
  void unload(const std::string& name, bool dependents, std::function<void(Status)> done);
  // Everything asked for is loaded and nothing failed.
  bool ready() const;
  // Returns when what start() began is done.
  void wait_started() const;
  Control control() const { return options_.control; }

 private:
  struct Entry {
    std::map<int64_t, ServedPtr> versions;
    std::map<int64_t, std::string> failed;  // why
    std::string reason;                     // why no version could be chosen
    std::string loading;                    // what is done now
    uint64_t seen = 0, tried = 0;           // stamps of the last scan and of the last load
    bool brought = false;                   // by an ensemble; nobody asked for it by its name
  };
  void work();
  void scan();
  void load_all(std::vector<std::string> names);
  Status load_now(const std::string& name, const std::optional<std::string>& given = {});
  Status try_load(const std::string& name, const std::optional<std::string>& given);
  FindModel finder() const;
  Result<Loaded> load_ensemble(const ModelConfig& config);
  Result<ServedPtr> make(const FoundModel& found, const FoundVersion& version, const ModelConfig& config);
  Status load_versions(const FoundModel& found, const ModelConfig& config);
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
  uint64_t answered_ = 0;  // by versions that were collected
  std::vector<ServedPtr> retired_;
  std::vector<std::function<void()>> tasks_;
  std::set<std::string> loading_now_;  // of the repository's thread: names whose loads are under way
  bool started_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace peri::serve
