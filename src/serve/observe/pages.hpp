// The metrics server: /metrics for collectors, /dashboard for users, /dashboard/data for `peri top` and other programs.
#pragma once

#include <memory>

#include "serve/kserve/api.hpp"

namespace peri::serve {

// Replies to one request.
void answer_pages(const Api& api, const std::shared_ptr<Exchange>& exchange);
// An HTML page that fetches nothing but dashboard/data, by relative path.
extern const char* const kDashboard;

}  // namespace peri::serve
