// Choices of libraries as configurations, checked against the offers they were made for.
#include "tune/resolved.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "tune/cache.hpp"
#include "tune/cache_keys.hpp"
#include "tune/worker.hpp"

namespace peri::tune {

namespace {
constexpr size_t kMaxConfigs = 64;  // far beyond what a kernel asks its library for: a list that long is a fault
}

Result<std::vector<kernels::Offer>> offers_of(const kernels::Kernel& kernel, const kernels::Problem& problem,
                                              const device::Target& target) {
  if (kernels::has_library(kernel, target)) return kernel.offer(problem, target);
  return refused("the target has no %s", std::string(kernel.library).c_str());
}

Resolved resolve_here(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate,
                      const device::Target& target, device::Device* device) {
  const kernels::Kernel& kernel = *candidate.kernel;
  Resolved out;
  if (!kernel.resolve) return out;
  auto found = contained([&] { return kernel.resolve({&region, constant}, candidate.offer.config, target, device); });
  if (found.ok()) {
    out.configs = *std::move(found);
    return out;
  }
  out.failed = found.error().text();
  out.lasting = found.error().kind != ErrorKind::kMemory;
  return out;
}

std::string resolved_text(const Resolved& r) {
  JsonWriter w;
  w.begin_object().key("configs").begin_array();
  for (const std::string& c : r.configs) w.value(c);
  w.end_array().field("failed", r.failed).field("lasting", r.lasting).end_object();
  return w.take();
}

Result<Resolved> read_resolved(const Json& json) {
  Resolved r;
  PERI_ASSIGN(const Json::Array* configs, json.get_array("configs"));
  if (configs->size() > kMaxConfigs) return invalid("%zu configurations of one offer", configs->size());
  for (const Json& c : *configs) {
    PERI_ASSIGN(const std::string_view text, c.as_string());
    r.configs.emplace_back(text);
  }
  PERI_ASSIGN(const std::string_view failed, json.get_string("failed"));
  PERI_ASSIGN(r.lasting, json.get_bool("lasting"));
  r.failed = failed;
  return r;
}

namespace {
Resolved ask(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, const Askable& askable,
             const Candidate& candidate) {
  const std::string name = candidate_key(candidate, region);
  if (askable.cache)
    if (auto known = askable.cache->find_resolved(key, name)) return *std::move(known);
  RemoteJudge* const worker = askable.worker();
  auto told = worker ? worker->resolve(region, constant, candidate) : Result<Resolved>(refused("no worker"));
  const Resolved found = told.ok() ? *std::move(told) : askable.here().resolve(region, constant, candidate);
  if (askable.cache && found.lasting) askable.cache->store_resolved(key, name, found);
  return found;
}
}  // namespace

void add_resolved(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                  const Askable& askable, Candidates* all) {
  const size_t offered = all->list.size();
  for (size_t k = 0; k < offered; ++k) {
    const Candidate from = all->list[k];
    if (!from.kernel->resolve) continue;
    const Resolved found = ask(region, constant, key, askable, from);
    if (!found.failed.empty()) all->refusals.push_back({from.id(), "asking its library: " + found.failed});
    for (const std::string& config : found.configs) {
      Candidate c = {from.kernel, from.offer};
      c.offer.config = config;
      if (const Status fine = kernels::check_resolved(*from.kernel, from.offer.config, config); !fine.ok())
        all->refusals.push_back({from.id(), fine.error().text()});
      else if (std::none_of(all->list.begin(), all->list.end(), [&](const Candidate& o) { return o.id() == c.id(); }))
        all->list.push_back(std::move(c));
    }
  }
}

}  // namespace peri::tune
