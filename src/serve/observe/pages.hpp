// The metrics server: /metrics for collectors, /dashboard for users, /dashboard/data for `peri top` and other programs.
#pragma once

#include <memory>

#include "serve/kserve/api.hpp"

namespace peri::serve {

// Answers one request.
void answer_pages(const Api& api, const std::shared_ptr<Exchange>& exchange);
// One page of HTML that fetches nothing but dashboard/data beside it.
extern const char* const kDashboard;

}  // namespace peri::serve
