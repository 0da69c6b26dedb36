// Counts since each model was loaded: clients compute differences, so that any number of them may poll.
#include <unistd.h>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/version.hpp"
#include "serve/kserve/api.hpp"

namespace peri::serve {
namespace {

// Pairs of a bucket's upper bound in microseconds and its count.
void write_histogram(JsonWriter& w, std::string_view name, const stats::Histogram& h) {
  w.key(name).begin_array();
  for (int k = 0; k < stats::Histogram::kRanges; ++k)
    if (h.in(k)) w.begin_array().value(static_cast<double>(h.end_of(k)) * 1e-3).value(h.in(k)).end_array();
  w.end_array();
}

void write_model(JsonWriter& w, const Served& served) {
  const Model& m = *served.model;
  const ModelStatistics s = m.statistics();
  const QueuePolicy& queue = m.options().queue;
  w.begin_object().field("name", m.name()).field("version", m.version_text()).field("backend", served.backend);
  w.field("note", served.note).field("pending", m.pending()).field("open", m.open());
  w.field("memory_bytes", served.memory_bytes);
  w.field("slots", static_cast<int64_t>(m.servable().slots())).field("progress", m.servable().progress());
  w.field("largest_batch", queue.sizes.empty() ? int64_t{1} : queue.sizes.back());
  w.field("max_delay_us", queue.max_delay_ns / 1000);
  w.field("success", s.success.count).field("rows", s.rows).field("executions", s.executions);
  w.key("failures").begin_object();
  constexpr const char* kReasons[kFailureReasons] = {"rejected", "cancelled", "timeout", "backend", "run timeout"};
  for (size_t k = 0; k < kFailureReasons; ++k) w.field(kReasons[k], s.failures[k]);
  w.end_object().key("cuts").begin_object();
  for (size_t k = 0; k < kCutReasons; ++k) w.field(cut_reason_name(static_cast<CutReason>(k)), s.cuts[k]);
  w.end_object().key("batches").begin_object();
  for (const auto& [rows, b] : s.batches) w.field(std::to_string(rows), b.compute_infer.count);
  w.end_object();
  if (const auto q = m.sequences()) {
    w.key("sequences").begin_object().field("active", q->active).field("backlog", q->backlog).field("slots", q->slots);
    w.field("state_bytes", q->state_bytes).field("begun", q->started).field("ended", q->ended);
    w.field("idle", q->idle).field("failed", q->broken).end_object();
  }
  write_histogram(w, "request_us", s.request_times);
  write_histogram(w, "queue_us", s.queue_times);
  write_histogram(w, "infer_us", s.infer_times);
  w.end_object();
}

// Adds the process to the list and to the sums of `all`.
void write_process(JsonWriter& w, const NamedProcess& process, const ProcessUse& use, ProcessUse* all) {
  w.begin_object().field("name", process.name).field("pid", process.pid).field("cpu_seconds", use.cpu_seconds);
  w.field("resident_bytes", use.resident_bytes).field("peak_bytes", use.peak_bytes);
  w.field("threads", use.threads).field("descriptors", use.descriptors).end_object();
  all->resident_bytes += use.resident_bytes;
  all->peak_bytes += use.peak_bytes;
  all->cpu_seconds += use.cpu_seconds;
  all->threads += use.threads;
  all->descriptors += use.descriptors;
}
}  // namespace

std::string Api::status() const {
  const ProcessUse own = process_use();
  ProcessUse use = {.total_bytes = own.total_bytes, .used_bytes = own.used_bytes, .cpu_seconds = ended_cpu_seconds()};
  JsonWriter w;
  w.begin_object().field("server", "peri").field("server_version", version());
  w.field("seconds", seconds_since(began_ns_)).field("ready", !draining_ && repository_.ready());
  w.field("draining", draining_.load()).field("open_requests", open_.load());
  w.key("processes").begin_array();
  write_process(w, {"server", getpid()}, own, &use);
  if (options_.workers)
    for (const NamedProcess& p : options_.workers()) write_process(w, p, use_of(p.pid), &use);
  w.end_array();
  w.key("memory").begin_object().field("resident_bytes", use.resident_bytes).field("peak_bytes", use.peak_bytes);
  w.field("machine_bytes", use.total_bytes).field("machine_used_bytes", use.used_bytes).end_object();
  w.field("cpu_seconds", use.cpu_seconds).field("threads", use.threads).field("descriptors", use.descriptors);
  w.key("models").begin_array();
  for (const ServedPtr& s : repository_.all()) write_model(w, *s);
  w.end_array().key("not_served").begin_array();
  for (const IndexRow& r : repository_.index())
    if (r.state != "READY")
      w.begin_object()
          .field("name", r.name)
          .field("version", r.version)
          .field("state", r.state)
          .field("reason", r.reason)
          .end_object();
  return w.end_array().end_object().take();
}

}  // namespace peri::serve
