// The metrics server: /metrics for collectors, /dashboard for users, /dashboard/data for `peri top` and other programs.
#pragma once

#include <memory>

#include "serve/kserve/api.hpp"

namespace peri::serve {

// Whether a target is the page itself, which has no data and needs no key.
bool is_page(std::string_view target);
// Replies to one request.
void answer_pages(const Api& api, const std::shared_ptr<Exchange>& exchange);
// OpenMetrics in Prometheus' text format: counters carry the names of their samples, and nothing ends the text.
std::string prometheus_text(std::string_view openmetrics);
// An HTML page that fetches nothing but dashboard/data, by relative path.
extern const char* const kDashboard;

}  // namespace peri::serve
