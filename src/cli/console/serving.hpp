// The worker processes of `peri serve`: flags, the order that starts a worker, its metrics.
#pragma once

#include "cli/entry.hpp"
#include "serve/access/access.hpp"
#include "serve/health/health.hpp"
#include "serve/http/tls.hpp"
#include "serve/worker/workers.hpp"

namespace peri::cli {

std::vector<Flag> worker_flags();
// --api-keys; null: everybody may ask.
Result<std::unique_ptr<serve::Access>> access_of(const Arguments& arguments);
// --tls-certificate, --tls-key; null: none.
Result<std::shared_ptr<serve::TlsContext>> tls_of(const Arguments& arguments);
// Whether a port of this address is reached by this machine alone; below 0 there is none.
bool nearby(const std::string& address, int port);
// Where models are managed: the options of that socket's server; none: on the public way, which is refused where others
// than this machine reach it (not `near`).
Result<std::optional<serve::HttpOptions>> management_of(const Arguments& arguments, bool near,
                                                        const serve::HttpLimits& limits, bool explicit_control);
// `peri serve-worker` with those of the flags that it takes, for each device; none: models run in this process.
Result<std::vector<serve::WorkerOptions>> worker_options(const Arguments& arguments);
// A device's number among those of its kind, as configurations name GPUs; -1: it is a CPU.
int64_t gpu_of(const std::string& device);
// --rate-limit-resource.
Result<serve::Turns::Copies> resources_of(const Arguments& arguments);
Result<serve::HealthOptions> health_options(const Arguments& arguments);
// Of devices that have memory of their own, by the names of their workers.
std::map<std::string, serve::Ram> device_memory(const serve::Workers* workers, const serve::Repository& repository);
// Families of OpenMetrics' text form.
void add_device_metrics(const std::map<std::string, serve::Ram>& devices, std::string* out);
void add_worker_metrics(const std::vector<std::pair<std::string, serve::WorkerCounts>>& all, std::string* out);
void add_memory_metrics(const serve::Health& health, const serve::ResponseCache* cache, std::string* out);

}  // namespace peri::cli
