// Queries of a repository; they hold its mutex only briefly.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "serve/repository/configuration.hpp"
#include "serve/repository/options.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

ServedPtr Repository::find(std::string_view name, std::string_view version, int* status, std::string* why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end()) {
    *status = 404;
    *why = "Request for unknown model: '" + std::string(name.substr(0, 80)) + "' is not found";
    return nullptr;
  }
  const Entry& e = it->second;
  if (version.empty() && !e.versions.empty()) return e.versions.rbegin()->second;
  int64_t number = -1;
  const auto read = std::from_chars(version.data(), version.data() + version.size(), number);
  if (!version.empty() && (read.ec != std::errc() || read.ptr != version.data() + version.size())) {
    *status = 400;
    *why = "the version of a model must be a number";
    return nullptr;
  }
  if (const auto found = e.versions.find(number); found != e.versions.end()) return found->second;
  *status = e.loading.empty() ? 404 : 503;
  *why = "Request for unknown model: '" + it->first + "' " +
         (version.empty()
              ? "has no available versions"
              : "version " + std::to_string(number) +
                    (e.loading.empty() && e.failed.count(number) == 0 ? " is not found" : " is not at ready state"));
  return nullptr;
}

// Why an ensemble finds no such version of a model.
std::string Repository::absence(const std::string& name, const std::string& version) const {
  std::error_code ec;
  const bool folder =
      plain_name(name) && std::filesystem::is_directory(std::filesystem::path(options_.root) / name, ec);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end()) return folder ? "the model is not loaded" : "there is no such model";
  const Entry& e = it->second;
  int64_t number = 0;
  std::from_chars(version.data(), version.data() + version.size(), number);
  if (e.failed.count(number) > 0 || (e.versions.empty() && (!e.failed.empty() || !e.reason.empty())))
    return "the model could not be loaded: its own row of the index says why";
  if (e.versions.empty()) return "the model is not loaded";
  std::string there;
  for (const auto& [v, served] : e.versions) there += (there.empty() ? "" : ", ") + std::to_string(v);
  return "the model has no version " + version + " now; served: " + there;
}

FindModel Repository::finder() const {
  return [this](const std::string& name, const std::string& version, std::string* why) {
    int status = 0;
    std::string unused;
    ServedPtr out = find(name, version, &status, &unused);
    if (!out && why) *why = absence(name, version);
    return out;
  };
}

// Those of the model of a step: as it is served, else as its folder says.
std::vector<EnsembleStep> Repository::steps_of(const EnsembleStep& step) const {
  int status = 0;
  std::string unused;
  if (const ServedPtr served = find(step.model, step.version, &status, &unused)) return served->config.steps;
  if (!plain_name(step.model)) return {};
  const auto found = scan_model(options_.root, step.model, options_.config_name);
  if (!found.ok()) return {};
  const auto config = configuration_of(*found, std::nullopt);
  return config.ok() ? config->steps : std::vector<EnsembleStep>();
}

std::vector<ServedPtr> Repository::all() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ServedPtr> out;
  for (const auto& [name, e] : entries_)
    for (const auto& [version, served] : e.versions) out.push_back(served);
  return out;
}

std::vector<int64_t> Repository::versions(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int64_t> out;
  if (const auto it = entries_.find(name); it != entries_.end())
    for (const auto& [version, served] : it->second.versions) out.push_back(version);
  return out;
}

std::vector<IndexRow> Repository::index() const {
  const auto found = scan_repository(options_.root, options_.config_name);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<IndexRow> out;
  for (const auto& [name, e] : entries_) {
    for (const auto& [version, served] : e.versions) {
      const auto failed = e.failed.find(version);
      const std::string trouble = served->model->trouble();
      const std::string& why = failed == e.failed.end() ? e.reason : failed->second;  // of the last load
      out.push_back({name, std::to_string(version), trouble.empty() ? "READY" : "UNAVAILABLE",
                     why.empty() ? trouble : "the version before goes on: " + why});
    }
    for (const auto& [version, why] : e.failed)
      if (!e.versions.count(version)) out.push_back({name, std::to_string(version), "UNAVAILABLE", why});
    if (!e.loading.empty() && e.versions.empty())
      out.push_back({name, "", "LOADING", e.loading});
    else if (e.versions.empty() && e.failed.empty())
      out.push_back({name, "", "UNAVAILABLE", e.reason.empty() ? "not loaded" : e.reason});  // not yet loaded
  }
  if (found.ok())
    for (const FoundModel& m : *found)
      if (!entries_.count(m.name)) out.push_back({m.name, "", "UNAVAILABLE", "not loaded"});
  for (IndexRow& row : out) row.reason = without_root(row.reason, options_.root);
  return out;
}

bool Repository::ready() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!started_) return false;
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& row) {
    const Entry& e = row.second;
    return !e.versions.empty() && e.failed.empty() && e.reason.empty();
  });
}

}  // namespace peri::serve
