// Observer: the log of requests, one line of JSON each, and their export to a trace collector, by OTLP in JSON. Neither
// can delay a request: what cannot be sent in time is dropped and counted.
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
  std::string access_log;     // a file; "-": standard error; "": none
  std::string otlp_endpoint;  // "http://host:4318"; "": no traces
  int64_t trace_one_in = 1;   // of requests whose caller says nothing of traces
  int64_t trace_count = -1;   // so many traces; -1: without an end
  ServerLog* server_log =
      nullptr;        // outlives the Observer: where it is verbose, it has a line for each request; may be null
  uint64_t seed = 1;  // of ids
  Log say = nullptr;
};

// All functions may be called from any thread.
class Observer {
 public:
  // Errors: the log cannot be opened, the endpoint is no URL.
  static Result<std::unique_ptr<Observer>> open(const ObserveOptions& options);
  ~Observer();  // spans that wait are sent, for two seconds at most

  bool logs() const { return log_ || (server_log_ && server_log_->verbose()); }
  // What a request with this "traceparent" is in a trace. `target`: its path, which may name a model.
  TraceContext trace(std::string_view traceparent, std::string_view target);
  TraceSettings& traces() { return *traces_; }
  void log(const RequestRecord& record);
  // Something to keep until the reply is sent, or is lost with its connection: it then makes the request's spans.
  std::shared_ptr<const void> until_sent(RequestRecord record);
  // The log's file is opened anew, by its name, as after a rotation. Errors leave the old one in use.
  Status reopen();
  // In OpenMetrics' text form.
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

// The body of an OTLP request with the spans of these records. `wall_offset_ns`: what monotonic times lack.
std::string otlp_json(std::span<const RequestRecord> records, int64_t wall_offset_ns);

}  // namespace peri::serve
