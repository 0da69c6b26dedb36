// The worker processes of `peri serve`: flags, the order that starts a worker, its metrics.
#pragma once

#include "cli/entry.hpp"
#include "serve/access/access.hpp"
#include "serve/health/health.hpp"
#include "serve/http/tls.hpp"
#include "serve/worker/workers.hpp"

namespace peri::cli {

std::vector<Flag> worker_flags();
// From --api-keys; null: no access control.
Result<std::unique_ptr<serve::Access>> access_of(const Arguments& arguments);
// From --tls-certificate and --tls-key; null: no TLS.
Result<std::shared_ptr<serve::TlsContext>> tls_of(const Arguments& arguments);
// Whether a port at this address is reachable only from this machine; negative ports do not exist.
bool nearby(const std::string& address, int port);
// Options of the management socket's server; none: models are managed on the public listener, which is refused if other
// machines can reach it (not `near`).
Result<std::optional<serve::HttpOptions>> management_of(const Arguments& arguments, bool near,
                                                        const serve::HttpLimits& limits, bool explicit_control);
// Options to start `peri serve-worker` with its flags, for each device; none: models run in this process.
Result<std::vector<serve::WorkerOptions>> worker_options(const Arguments& arguments);
// A device's number among those of its kind, as in configurations; -1: a CPU.
int64_t gpu_of(const std::string& device);
// From --rate-limit-resource.
Result<serve::Turns::Copies> resources_of(const Arguments& arguments);
Result<serve::HealthOptions> health_options(const Arguments& arguments);
// Memory of devices that have their own, by the names of their workers.
std::map<std::string, serve::Ram> device_memory(const serve::Workers* workers, const serve::Repository& repository);
// Metric families in OpenMetrics text format.
void add_device_metrics(const std::map<std::string, serve::Ram>& devices, std::string* out);
void add_worker_metrics(const std::vector<std::pair<std::string, serve::WorkerCounts>>& all, std::string* out);
void add_memory_metrics(const serve::Health& health, const serve::ResponseCache* cache, std::string* out);

}  // namespace peri::cli
