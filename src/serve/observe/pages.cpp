// Each path has one response; query strings are ignored.
#include "serve/observe/pages.hpp"

namespace peri::serve {

void answer_pages(const Api& api, const std::shared_ptr<Exchange>& exchange) {
  if (uint32_t tenant = 0; !api.admitted(*exchange, false, &tenant)) return;
  const HttpRequest& r = exchange->request();
  const std::string_view path = r.target.substr(0, r.target.find('?'));
  if (r.method != "GET") return exchange->reply(wrong_method(kRead, "this port takes GET"));
  HttpReply reply;
  if (path == "/metrics") {
    reply.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    reply.text = api.metrics();
  } else if (path == "/dashboard" || path == "/dashboard/") {
    reply.content_type = "text/html; charset=utf-8";
    reply.text = kDashboard;
  } else if (path == "/dashboard/data") {
    reply.text = api.status();
  } else {
    reply = error_reply(404, "no such path: expected /metrics, /dashboard or /dashboard/data");
  }
  exchange->reply(std::move(reply));
}

}  // namespace peri::serve
