// Observer: the log of requests, one line of JSON each, and their export to a trace collector as OTLP in JSON. Neither
// delays a request: what cannot be sent in time is dropped and counted.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "serve/observe/record.hpp"
#include "serve/observe/server_log.hpp"
#include "serve/observe/trace_settings.hpp"

namespace peri::serve {

struct ObserveOptions {
  std::string access_log;           // a file; "-": standard error; "": none
  std::string otlp_endpoint;        // "http://host:4318"; "": no traces
  int64_t trace_one_in = 1;         // of requests without a traceparent, one in this many is traced
  int64_t trace_count = -1;         // limit of traces; -1: unlimited
  ServerLog* server_log = nullptr;  // outlives the Observer; if verbose, receives a line per request; may be null
  uint64_t seed = 1;                // of ids
  Log say = nullptr;
};

// Thread-safe.
class Observer {
 public:
  // Errors: the log cannot be opened; the endpoint is not a valid URL.
  static Result<std::unique_ptr<Observer>> open(const ObserveOptions& options);
  ~Observer();  // sends pending spans, for at most two seconds

  bool logs() const { return log_ || (server_log_ && server_log_->verbose()); }
  // The trace context of a request with this "traceparent". `target`: its path, which may contain a model's name.
  TraceContext trace(std::string_view traceparent, std::string_view target);
  TraceSettings& traces() { return *traces_; }
  void log(const RequestRecord& record);
  // An object to release when the reply has been sent or lost; its release records the request and its spans.
  std::shared_ptr<const void> until_sent(RequestRecord record);
  // Reopens the log file by name, for rotation. On an error the old file stays in use.
  Status reopen();
  // OpenMetrics text format.
  std::string metrics() const;

 private:
  class File;
  class Tracer;
  Observer();
  std::unique_ptr<File> log_;
  ServerLog* server_log_ = nullptr;
  std::unique_ptr<TraceSettings> traces_;
  std::shared_ptr<Tracer> tracer_;
};

// The body of an OTLP request with the spans of these records. `wall_offset_ns`: wall clock minus monotonic clock.
std::string otlp_json(std::span<const RequestRecord> records, int64_t wall_offset_ns);

}  // namespace peri::serve
