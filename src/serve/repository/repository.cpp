// One thread loads, unloads and scans; results are published under a mutex that is held briefly.
#include "serve/repository/repository.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "serve/ensemble/ensemble.hpp"
#include "serve/repository/configuration.hpp"
#include "serve/repository/options.hpp"

namespace peri::serve {

Repository::Repository(RepositoryOptions options, Loader loader)
    : options_(std::move(options)), loader_(std::move(loader)) {}

Repository::~Repository() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // A model's own thread may otherwise release the last reference to it, after a recent answer.
  for (const ServedPtr& s : all()) s->model->end();
  for (const ServedPtr& s : retired_) s->model->end();
}

Status Repository::start() {
  PERI_ASSIGN(const auto found, scan_repository(options_.root, options_.config_name));
  for (const std::string& name : options_.at_start)
    if (name != "*" && std::none_of(found.begin(), found.end(), [&](const FoundModel& m) { return m.name == name; }))
      return usage("the repository has no folder '%s', which --load-model names", name.c_str()).in_file(options_.root);
  for (const std::string& name : misnamed_folders(options_.root))
    log({LogLevel::kWarning,
         "the folder '" + name + "' is not a model: expected a name of letters, digits, '.', '_', " + "'-' and '+'"});
  for (const LooseModel& m : loose_models(options_.root))
    log({LogLevel::kWarning, "the file '" + m.file +
                                 "' is not served, since it is in no version's folder: move it to '" + m.belongs +
                                 "'"});
  thread_ = std::thread([this] { work(); });
  return Ok{};
}

void Repository::log(const LogLine& line) const {
  if (options_.log) options_.log(line);
}

void Repository::tell_changed() const {
  if (options_.changed) options_.changed();
}

void Repository::post(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Repository::work() {
  scan();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    started_ = true;
  }
  changed_.notify_all();
  tell_changed();
  const bool polls = options_.control == Control::kPoll;
  int64_t next_ns = now_ns() + options_.poll_ms * 1000000;  // of the next scan
  while (true) {
    std::vector<std::function<void()>> tasks;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto some = [&] { return stopping_ || !tasks_.empty(); };
      int64_t wait = retired_.empty() ? INT64_MAX : 100'000'000;
      if (polls) wait = std::min(wait, std::max<int64_t>(next_ns - now_ns(), 0));
      if (wait < INT64_MAX)
        changed_.wait_for(lock, std::chrono::nanoseconds(wait), some);
      else
        changed_.wait(lock, some);
      if (stopping_) return;
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    collect();
    if (!polls || now_ns() < next_ns) continue;
    scan();
    next_ns = now_ns() + options_.poll_ms * 1000000;
  }
}

// Destroys replaced versions on this thread, once they have no other references.
void Repository::collect() {
  std::vector<ServedPtr> over;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto held = std::stable_partition(
        retired_.begin(), retired_.end(), [](const ServedPtr& s) { return s.use_count() > 1 || s->model->open() > 0; });
    for (auto at = retired_.begin(); at != held; ++at) (*at)->model->expect_no_more();
    over.assign(std::make_move_iterator(held), std::make_move_iterator(retired_.end()));
    retired_.erase(held, retired_.end());
  }
  for (const ServedPtr& s : over) log("unloaded " + s->model->name() + " version " + s->model->version_text());
}

// The state that the folder requests. A change takes effect when two consecutive scans agree: the files are then
// complete.
void Repository::scan() {
  const auto found = scan_repository(options_.root, options_.config_name);
  const std::string trouble = found.ok() ? "" : found.error().text();
  if (const std::string before = std::exchange(scan_trouble_, trouble); before != trouble)  // not at every poll
    log(found.ok() ? LogLine{LogLevel::kInfo, "the repository can be read again"} : LogLine{LogLevel::kError, trouble});
  if (!found.ok()) return;
  std::vector<std::string> load, gone, failed;
  const auto of_models = [&](const std::string& name) {
    return std::any_of(found->begin(), found->end(),
                       [&](const FoundModel& m) { return m.name == name && is_ensemble(m); });
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const FoundModel& m : *found) {
      const auto& list = options_.at_start;
      const bool wanted = options_.control != Control::kExplicit ||
                          std::find(list.begin(), list.end(), "*") != list.end() ||
                          std::find(list.begin(), list.end(), m.name) != list.end();
      if (!wanted) continue;
      Entry& e = entries_[m.name];
      if (e.tried != m.stamp() && (!started_ || e.seen == m.stamp()))
        load.push_back(m.name);
      else if (!e.failed.empty())
        failed.push_back(m.name);
      e.seen = m.stamp();
    }
    for (const auto& [name, e] : entries_)
      if (std::none_of(found->begin(), found->end(), [&](const FoundModel& m) { return m.name == name; }))
        gone.push_back(name);
  }
  if (!load.empty()) tell_changed();  // not everything requested is loaded
  if (!load.empty())                  // an ensemble may have waited for one of these
    std::copy_if(failed.begin(), failed.end(), std::back_inserter(load), of_models);
  std::stable_partition(load.begin(), load.end(), [&](const std::string& name) { return !of_models(name); });
  load_all(std::move(load));
  for (const std::string& name : gone)
    if (options_.control == Control::kPoll) (void)unload_now(name).ok();
}

// Ensembles may depend on each other in any order: failures are retried as long as other models are loaded.
void Repository::load_all(std::vector<std::string> names) {
  std::map<std::string, std::string> failed;
  for (size_t before = names.size() + 1; names.size() < before;) {
    before = names.size();
    failed.clear();
    std::vector<std::string> left;
    for (const std::string& name : names) {
      const Status s = load_now(name);
      if (s.ok()) continue;
      const auto found = scan_model(options_.root, name, options_.config_name);
      if (found.ok() && is_ensemble(*found)) left.push_back(name);
      failed[name] = s.error().text();
      if (left.empty() || left.back() != name) log({LogLevel::kError, "cannot load " + name + ": " + failed[name]});
    }
    names = std::move(left);
    if (names.empty()) return;
  }
  for (const std::string& name : names) log({LogLevel::kError, "cannot load " + name + ": " + failed[name]});
}

Status Repository::load_now(const std::string& name, const std::optional<std::string>& given) {
  loading_now_.insert(name);
  Status s = try_load(name, given);
  loading_now_.erase(name);
  tell_changed();
  return s;
}

// Loads the models of an ensemble that are not served. Failures are reported by the ensemble's own load.
void Repository::bring_parts(const ModelConfig& config) {
  for (const EnsembleStep& step : config.steps) {
    if (!versions(step.model).empty() || loading_now_.count(step.model) > 0 || !plain_name(step.model)) continue;
    if (const Status s = load_now(step.model); !s.ok()) {
      log({LogLevel::kError, "cannot load " + step.model + ": " + s.error().text()});
      continue;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[step.model].brought = true;
  }
}

Status Repository::try_load(const std::string& name, const std::optional<std::string>& given) {
  auto found = scan_model(options_.root, name, options_.config_name);
  if (!found.ok()) return unsupported("the repository has no model of this name");
  const auto fail = [&](Error e) -> Status {
    if (given) return e;  // of the request, not of the repository
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[name];
    entry.tried = found->stamp();
    entry.reason = e.text();
    return e;
  };
  if (given) found->config_stamp = Hasher().add(*given).digest();
  const auto config = configuration_of(*found, given);
  if (!config.ok()) return fail(config.error());
  if (options_.control == Control::kExplicit) bring_parts(*config);
  return load_versions(*found, *config, given.has_value());
}

Result<Loaded> Repository::load_ensemble(const std::string& name, const ModelConfig& config) {
  Loaded out;
  PERI_TRY(check_no_circle(name, config, [this](const EnsembleStep& s) { return steps_of(s); }));
  out.backend = "ensemble";
  PERI_ASSIGN(out.servable, make_ensemble(config, finder()));
  return out;
}

// Ensembles are loaded after their models.
bool Repository::is_ensemble(const FoundModel& found) const {
  if (found.config_path.empty()) return false;
  const auto text = read_file(found.config_path, 1 << 20);
  return text.ok() && text->find("ensemble_scheduling") != std::string::npos;
}

Result<ServedPtr> Repository::make(const FoundModel& found, const FoundVersion& version, const ModelConfig& config) {
  LoadOrder order;
  order.name = found.name;
  order.version = version.version;
  order.config = config;
  order.folder = found.folder;
  order.stamp = version.stamp;
  if (config.steps.empty()) {
    PERI_ASSIGN(order.path, model_path(version, config.default_model_filename));
  }
  PERI_ASSIGN(Loaded loaded, contained([&]() -> Result<Loaded> {
                if (!config.steps.empty()) return load_ensemble(found.name, config);
                return loader_(order, [&](const std::string& progress) {
                  const std::lock_guard<std::mutex> lock(mutex_);
                  entries_[found.name].loading = progress;
                });
              }));
  auto served = std::make_shared<Served>();
  served->config = config;
  served->note = loaded.note;
  for (const std::string& n : config.notes) served->note += (served->note.empty() ? "" : "; ") + n;
  served->backend = loaded.backend;
  served->told = loaded.told;
  const auto tokenizer = loaded.sections.find(std::string(text::kTokenizerSection));
  const auto pipeline = loaded.sections.find(std::string(text::kPipelineSection));
  if (tokenizer != loaded.sections.end() && pipeline != loaded.sections.end()) {
    PERI_ASSIGN(text::TextPipeline made, text::TextPipeline::from_sections(tokenizer->second, pipeline->second));
    served->text = std::make_shared<text::TextPipeline>(std::move(made));
  }
  PERI_ASSIGN(served->labels, labels_of(found.folder, config, loaded.sections));
  served->memory_bytes = loaded.memory_bytes;
  served->stamp = found.stamp(version);
  ModelOptions options = options_of(config, loaded, options_);
  if (config.steps.empty())
    options.turns = options_.turns;
  else
    queue_ensemble(config, finder(), &options);
  PERI_ASSIGN(options.form, Form::make(config, loaded.servable->inputs(), loaded.servable->outputs(), found.folder));
  if (options_.settle) options_.settle(found.folder, order, loaded, &options);
  served->canary = std::move(loaded.canary);
  if (options.turns) {
    PERI_ASSIGN(options.share, share_of(config, *options.turns));
  }
  served->model = std::make_unique<Model>(found.name, version.version, loaded.servable, std::move(options));
  if (const std::string note = labels_note(config, served->labels, served->model->outputs()); !note.empty())
    log({LogLevel::kWarning, found.name + ": " + note});
  return ServedPtr(std::move(served));
}

Status Repository::load_versions(const FoundModel& found, const ModelConfig& config, bool given) {
  std::vector<int64_t> present;
  for (const FoundVersion& v : found.versions) present.push_back(v.version);
  const std::vector<int64_t> chosen = config.versions.choose(present);
  Entry next;
  next.seen = next.tried = found.stamp();
  if (chosen.empty()) next.reason = config.versions.why_none(present);
  for (const int64_t version : config.versions.specific)
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), version) == chosen.end())
      log({LogLevel::kWarning, found.name + ": version_policy wants version " + std::to_string(version) +
                                   ", and there is no folder of it"});
  std::optional<Entry> before_it;
  std::map<int64_t, ServedPtr> before;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = entries_.find(found.name); it != entries_.end()) before_it = it->second;
    before = entries_[found.name].versions;
    entries_[found.name].loading = "loading";
  }
  for (const FoundVersion& v : found.versions) {
    if (std::find(chosen.begin(), chosen.end(), v.version) == chosen.end()) continue;
    const auto old = before.find(v.version);
    if (old != before.end() && old->second->stamp == found.stamp(v)) {
      next.versions[v.version] = old->second;
      continue;
    }
    auto served = make(found, v, config);
    if (served.ok()) {
      next.versions[v.version] = *served;
      log("loaded " + found.name + " version " + std::to_string(v.version) +
          ((*served)->note.empty() ? "" : ": " + (*served)->note));
    } else {
      next.failed[v.version] = served.error().text();
    }
  }
  const auto failure = [&] {
    return next.failed.empty() ? refused("%s", next.reason.c_str())
                               : refused("version %lld: %s", static_cast<long long>(next.failed.begin()->first),
                                         next.failed.begin()->second.c_str());
  };
  const bool fails = chosen.empty() || !next.failed.empty();
  if (given && fails) {  // the request is refused, and all is as it was
    const std::lock_guard<std::mutex> lock(mutex_);
    if (before_it)
      entries_[found.name] = *before_it;
    else
      entries_.erase(found.name);
    return failure();
  }
  if (!next.failed.empty()) next.versions.insert(before.begin(), before.end());  // keep serving the earlier versions
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [version, served] : before)
      if (const auto it = next.versions.find(version); it == next.versions.end() || it->second != served)
        retired_.push_back(served);
    entries_[found.name] = next;
  }
  for (const auto& [version, served] : next.versions)
    for (const auto& [old_version, old] : before)
      if (std::none_of(before.begin(), before.end(), [&](const auto& b) { return b.second == served; }))
        served->model->follow(*old->model);
  return fails ? Status(failure()) : Ok{};
}

Status Repository::unload_now(const std::string& name, bool dependents) {
  std::vector<ServedPtr> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(name);
    if (it == entries_.end()) return Ok{};
    for (const auto& [version, served] : it->second.versions) gone.push_back(served);
    retired_.insert(retired_.end(), gone.begin(), gone.end());
    entries_.erase(it);
  }
  if (dependents) unload_parts(gone);
  tell_changed();
  return Ok{};
}

void Repository::unload_parts(const std::vector<ServedPtr>& ensembles) {
  for (const ServedPtr& ensemble : ensembles)
    for (const EnsembleStep& step : ensemble->config.steps) {
      const auto has_it = [&](const ServedPtr& s) {
        return std::any_of(s->config.steps.begin(), s->config.steps.end(),
                           [&](const EnsembleStep& other) { return other.model == step.model; });
      };
      const std::vector<ServedPtr> others = all();
      bool brought = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto it = entries_.find(step.model);
        brought = it != entries_.end() && it->second.brought;
      }
      if (brought && std::none_of(others.begin(), others.end(), has_it)) (void)unload_now(step.model, true).ok();
    }
}

void Repository::load(const std::string& name, std::optional<std::string> config, std::function<void(Status)> done) {
  post([this, name, config = std::move(config), done = std::move(done)] {
    Status s = load_now(name, config);
    if (s.ok()) return done(Ok{});
    log({LogLevel::kError, "cannot load " + name + ": " + s.error().text()});
    Error told = std::move(s).error();
    for (std::string* part : {&told.message, &told.node, &told.expected, &told.found, &told.remedy})
      *part = without_root(*part, options_.root);
    done(std::move(told));
  });
}
void Repository::unload(const std::string& name, bool dependents, std::function<void(Status)> done) {
  post([this, name, dependents, done = std::move(done)] { done(unload_now(name, dependents)); });
}

void Repository::wait_started() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return started_ || stopping_; });
}

}  // namespace peri::serve
