// peri top: live state of a server in the terminal, continuously or once.
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "cli/console/endpoint.hpp"
#include "cli/console/page.hpp"
#include "cli/console/terminal.hpp"
#include "cli/console/top_page.hpp"

namespace peri::cli {

extern const Entry top_entry;

namespace {
constexpr int64_t kPatienceMs = 10000;           // time limit of a request
constexpr size_t kMaxAnswer = size_t{64} << 20;  // several hundred bytes per model

Result<Json> ask(const serve::Endpoint& where) {
  PERI_ASSIGN(const serve::HttpAnswer said, serve::http_ask(where, "GET", where.path + "/dashboard/data", "", "",
                                                            kPatienceMs, kMaxAnswer, interrupted));
  if (said.status == 401) return serve::asks_for_key(where);
  if (said.status != 200)
    return invalid("the server says status %d of /dashboard/data", said.status)
        .in_file(where.text())
        .advise("name the port of its metrics, 8002 where nothing else was said");
  auto json = parse_json(said.body);
  if (!json.ok()) return std::move(json).error().in_file(where.text());
  return json;
}

// Sleeps until the time is over or a signal arrives.
bool waited(double seconds) {
  const int64_t start = now_ns();
  while (seconds_since(start) < seconds && !interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return !interrupted();
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string url = arguments.positional.empty() ? "http://127.0.0.1:8002" : arguments.positional[0];
  PERI_ASSIGN(serve::Endpoint where, serve::Endpoint::parse(url, 8002));
  PERI_TRY(read_trust(arguments, url, &where));
  if (arguments.has("--key-file")) PERI_TRY(where.read_key(arguments.get("--key-file")));
  PERI_ASSIGN(const double interval, arguments.real("--interval", 0.05, 86400, 2));
  const bool once = arguments.has("--once"), since_load = once && !arguments.has("--interval");
  const bool draws = !once && isatty(STDOUT_FILENO) && !arguments.has("--quiet") && arguments.get("--json") != "-";
  const Page page(arguments);
  PERI_ASSIGN(Json now, ask(where));
  std::optional<Json> before;
  Outcome out;
  int64_t looks = 0;
  while (true) {
    if (!since_load) {
      if (!waited(interval)) break;
      auto next = ask(where);
      if (interrupted()) break;
      before = std::exchange(now, {});
      PERI_ASSIGN(now, std::move(next));
    }
    PERI_ASSIGN(const auto lines,
                top_lines(now, before ? &*before : nullptr, output_columns(), draws ? output_rows() : 0));
    PERI_ASSIGN(out.json, top_json(now, before ? &*before : nullptr));
    if (draws) clear_screen();
    for (const std::string& line : lines) page.line("%s", line.c_str());
    std::fflush(stdout);
    ++looks;
    if (once) break;
  }
  out.summary = format("%lld look%s at %s", static_cast<long long>(looks), looks == 1 ? "" : "s", where.text().c_str());
  return out;
}
}  // namespace

const Entry top_entry{{
    .name = "top",
    .summary = "show a server's queues, batches and why they were cut, latency and memory",
    .positional = "[URL]",
    .min_positional = 0,
    .max_positional = 1,
    .flags = {{"--once", "", "", "print once: since models were loaded, or with --interval over that time"},
              {"--interval", "", "S", "seconds between updates (default 2)"},
              {"--key-file", "", "FILE", "send the first line of FILE as the bearer token"},
              {"--ssl-https-ca-certificates-file", "", "FILE",
               "TLS: trusted certificate authorities in PEM (default: the system's)"},
              {"--ssl-https-verify-peer", "", "0|1", "TLS: 0 accepts any certificate (default 1)"},
              {"--ssl-https-client-certificate-file", "", "FILE", "TLS: the client's own certificate in PEM"},
              {"--ssl-https-private-key-file", "", "FILE", "TLS: its private key in PEM"}},
    .details = "URL is where the server has its metrics (default http://127.0.0.1:8002).\n\n"
               "example:\n  peri top http://127.0.0.1:8002 --once",
    .run = run,
    .stops = true,
    .runs_until_signal = true,
}};

}  // namespace peri::cli
