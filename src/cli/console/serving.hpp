// What of `peri serve` is about its worker process: flags, the order that starts it, its metrics.
#pragma once

#include "cli/entry.hpp"
#include "serve/health/health.hpp"
#include "serve/worker/worker.hpp"

namespace peri::cli {

std::vector<Flag> worker_flags();
// `peri serve-worker` with those of the flags that it takes.
Result<serve::WorkerOptions> worker_options(const Arguments& arguments);
Result<serve::HealthOptions> health_options(const Arguments& arguments);
// Families of OpenMetrics' text form.
void add_worker_metrics(const serve::WorkerCounts& counts, std::string* out);

}  // namespace peri::cli
