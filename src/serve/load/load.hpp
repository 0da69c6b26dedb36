// Puts a load on a server and measures it: a constant number of concurrent requests, or a rate of requests independent
// of the server's speed. One thread, one loop, non-blocking sockets keep the client's overhead small.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "serve/load/wire.hpp"
#include "stats/histogram.hpp"

namespace peri::serve {

struct LoadTerms {
  int64_t concurrency = 1;           // concurrent requests, if `rate` is 0
  double rate = 0;                   // requests per second
  bool poisson = true;               // of a rate: exponential gaps, as of independent clients; else constant
  int64_t connections = 1024;        // of a rate: limit
  int64_t interval_ns = 1000000000;  // of a window
  double stability = 0.1;            // stable if three consecutive windows are within this fraction of their mean
  int trials = 10;                   // limit of windows
  int64_t warm_up_ns = 200000000;
  int64_t count = 0;          // above 0: exactly as many requests, in one window, instead of windows until stable
  int64_t warm_up_count = 0;  // above 0: as many requests before the first window, instead of warm_up_ns
  int64_t timeout_ns = 10000000000;  // per request
  // A server is taken to be gone that refuses connections, or leaves requests without an answer, for so long, with no
  // answer between them; where requests time out, for two timeouts at least.
  int64_t patience_ns = 2000000000;
  int64_t threshold_ns = 0;  // answers within it count as goodput; 0: all
  double quantile = 0.99;    // the quantile that must be stable
  // The requests of each connection are of sequences: connections take turns, and all sequences are ended after the
  // last window.
  bool sequences = false;
  uint64_t seed = 1;           // for gaps
  std::function<bool()> stop;  // polled; may be null
};

struct LoadResult {
  double seconds = 0;  // duration of the windows that count
  uint64_t ok = 0, good = 0;
  std::map<std::string, uint64_t> errors;   // by class
  std::map<std::string, std::string> said;  // by class: the server's words on one of them, if it said any
  // The class of answers that differ from the wanted ones.
  static constexpr const char* kWrong = "wrong answer";
  uint64_t wrong() const;
  // A class with those words.
  std::string error_text(const std::string& name) const;
  // Successful requests. `latency`: from a request's due time, as a client sees it; at constant concurrency, corrected
  // for requests that a stall delayed. `service`: from sending.
  stats::Histogram latency, service;
  stats::Histogram failed_times;  // error answers, from sending: how soon a server refuses
  bool stable = false;
  bool interrupted = false;   // `stop` ended it: what was answered until then
  std::optional<Error> lost;  // the server was taken to be gone: what was answered until then
  int windows = 0;
  uint64_t backlog = 0;   // of a rate: due requests not sent at the end
  int64_t late_ns = 0;    // p99 delay of sending after the due time with a free connection: caused by the client
  double client_cpu = 0;  // processors used by this process
  double per_second() const { return seconds > 0 ? static_cast<double>(ok) / seconds : 0; }
  double good_per_second() const { return seconds > 0 ? static_cast<double>(good) / seconds : 0; }
  uint64_t failed() const;
};

// Runs on the calling thread until stable or `trials` windows, or until `count` requests are answered. Interrupted by
// `stop`, or where the server is gone, it returns what was answered so far. Errors: kIo: no connection, or the server
// is gone, before any request succeeded; kCancelled: interrupted before any request succeeded.
Result<LoadResult> run_load(const Endpoint& where, const WireMaker& maker, const LoadTerms& terms);

}  // namespace peri::serve
