// A load on a server and its results: a number of concurrent requests, or a rate of requests whether the server keeps
// up or not. One thread, one loop, non-blocking sockets: the measurement is of the server.
#pragma once

#include <map>
#include <vector>

#include "serve/load/wire.hpp"
#include "stats/histogram.hpp"

namespace peri::serve {

struct LoadTerms {
  int64_t concurrency = 1;           // requests under way at once, where `rate` is 0
  double rate = 0;                   // requests a second
  bool poisson = true;               // of a rate: gaps as of independent clients; else all alike
  int64_t connections = 1024;        // of a rate: at most
  int64_t interval_ns = 1000000000;  // of a window
  double stability = 0.1;            // three windows in a row within this part of their mean: stable
  int trials = 10;                   // windows at most
  int64_t warm_up_ns = 200000000;
  int64_t timeout_ns = 10000000000;  // of a request
  int64_t threshold_ns = 0;          // answers within it are the goodput; 0: all are
  double quantile = 0.99;            // whose stability counts
  uint64_t seed = 1;                 // of the gaps
  std::function<bool()> stop;        // asked now and then; may be null
};

struct LoadResult {
  double seconds = 0;  // of the windows that count
  uint64_t ok = 0, good = 0;
  std::map<std::string, uint64_t> errors;  // by class
  // Successful requests. `latency`: from when a request was due, as a client sees it; at a fixed concurrency with the
  // requests added that a stall kept back. `service`: from when it was sent.
  stats::Histogram latency, service;
  stats::Histogram failed_times;  // of answers that were errors, from when it was sent: how soon a server refuses
  bool stable = false;
  int windows = 0;
  uint64_t backlog = 0;   // of a rate: requests that were due and not sent at the end
  int64_t late_ns = 0;    // p99 of how long after it was due, and a connection free, a request was sent: our own fault
  double client_cpu = 0;  // processors used by this program
  double per_second() const { return seconds > 0 ? static_cast<double>(ok) / seconds : 0; }
  double good_per_second() const { return seconds > 0 ? static_cast<double>(good) / seconds : 0; }
  uint64_t failed() const;
};

// Errors: kIo: no connection can be made; kCancelled.
Result<LoadResult> run_load(const Endpoint& where, const WireMaker& maker, const LoadTerms& terms);

}  // namespace peri::serve
