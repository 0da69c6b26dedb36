// Each path has one response; query strings are ignored.
#include "serve/observe/pages.hpp"

#include <algorithm>
#include <set>

#include "serve/http/head.hpp"

namespace peri::serve {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// The name that a line "# TYPE NAME ..." or "# HELP NAME ..." is of; "": another line.
std::string_view described(std::string_view line) {
  if (!line.starts_with("# TYPE ") && !line.starts_with("# HELP ")) return {};
  line.remove_prefix(7);
  return line.substr(0, line.find(' '));
}
}  // namespace

std::string prometheus_text(std::string_view openmetrics) {
  const std::vector<std::string_view> lines = lines_of(openmetrics);
  std::set<std::string_view> counters;
  for (const std::string_view line : lines)
    if (line.starts_with("# TYPE ") && line.ends_with(" counter")) counters.insert(described(line));
  std::string out;
  for (const std::string_view line : lines) {
    if (line == "# EOF") continue;
    const std::string_view name = described(line);
    if (name.empty()) {
      out.append(line).append("\n");
      continue;
    }
    std::string_view rest = line.substr(7 + name.size());
    if (line.starts_with("# TYPE ") && rest == " unknown") rest = " counter";  // those without "_total"
    out.append(line.substr(0, 7)).append(name).append(counters.contains(name) ? "_total" : "").append(rest) += '\n';
  }
  return out;
}

bool is_page(std::string_view target) {
  target = target.substr(0, target.find('?'));
  return target == "/dashboard" || target == "/dashboard/";
}

void answer_pages(const Api& api, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& r = exchange->request();
  const std::string_view path = r.target.substr(0, r.target.find('?'));
  if (Pass pass; !is_page(r.target) && !api.admitted(*exchange, false, &pass)) return;
  if (r.method != "GET") return exchange->reply(wrong_method(kRead, "this port takes GET"));
  HttpReply reply;
  if (path == "/metrics") {
    const bool open = prefers_type(r.accept, "application/openmetrics-text", "text/plain");
    reply.content_type = open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                              : "text/plain; version=0.0.4; charset=utf-8";
    reply.text = open ? api.metrics() : prometheus_text(api.metrics());
  } else if (is_page(r.target)) {
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
