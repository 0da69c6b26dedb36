// Any bytes as changes of the settings of traces and of the log, in JSON or, by the first byte, as the message of a
// call of gRPC: refused with nothing changed, or settings that are JSON again.
// links: serve
#include <cstdlib>

#include "serve/grpc/methods.hpp"
#include "serve/observe/server_log.hpp"
#include "serve/observe/trace_settings.hpp"

using peri::serve::find_method;
using peri::serve::LogLevel;
using peri::serve::ServerLog;
using peri::serve::TraceSettings;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 > 0) {
    const char* calls[] = {"TraceSetting", "LogSettings", "RepositoryModelUnload"};
    const auto* method = find_method("/inference.GRPCInferenceService/" + std::string(calls[data[0] % 4 - 1]));
    const auto ask = method->ask(std::as_bytes(std::span(text)), {.depth = 8, .parts = 1000, .values = 1000});
    if (!ask.ok() || ask->body.empty()) return 0;
    if (!ask->target.starts_with("/v2/")) std::abort();
    text = ask->body;
    if (!peri::parse_json(text).ok()) std::abort();
  }
  const auto json = peri::parse_json(text, {32, 1 << 20, 10000});
  if (!json.ok()) return 0;
  TraceSettings traces({.possible = (data[0] & 4) != 0, .one_in = 10});
  ServerLog log({}, [](const std::string&) {});
  for (const char* model : {"", "m"}) {
    const std::string before = traces.text(model);
    if (!traces.update(model, *json).ok() && traces.text(model) != before) std::abort();
    if (!peri::parse_json(traces.text(model)).ok()) std::abort();
    (void)traces.take("m", std::nullopt);
  }
  const std::string before = log.text();
  if (!log.update(*json).ok() && log.text() != before) std::abort();
  if (!peri::parse_json(log.text()).ok()) std::abort();
  log.say({LogLevel::kVerbose, text});
  return 0;
}
