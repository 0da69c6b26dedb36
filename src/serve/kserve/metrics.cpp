// Metrics under Triton's names, which dashboards query, and this server's own, in OpenMetrics text format. All samples
// of a name are adjacent, so that each name iterates over the models.
#include "serve/kserve/api.hpp"
#include "serve/observe/process.hpp"

namespace peri::serve {
namespace {

struct Row {
  const Model* model;
  ModelStatistics s;
  std::string labels;  // model="x",version="1"
  int64_t memory_bytes = 0;
};

class Text {
 public:
  explicit Text(std::vector<Row> rows) : rows_(std::move(rows)) {}

  void family(const char* name, const char* type, const char* help) {
    out_ += format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
  }
  void line(const std::string& name, const std::string& labels, uint64_t v) {
    out_ += name + "{" + labels + "} " + std::to_string(v) + "\n";
  }
  const std::vector<Row>& rows() const { return rows_; }
  std::string& out() { return out_; }

 private:
  std::vector<Row> rows_;
  std::string out_;
};

// Triton's counters have Prometheus' older text format, without "_total"; the same lines are written here.
void plain_counter(Text& t, const char* name, const char* help, const std::function<uint64_t(const Row&)>& value) {
  t.family(name, "unknown", help);
  for (const Row& r : t.rows()) t.line(name, r.labels, value(r));
}

void triton_families(Text& t) {
  const auto us = [](const CountedTime& c) { return c.ns / 1000; };
  plain_counter(t, "nv_inference_request_success", "Number of successful inference requests",
                [](const Row& r) { return r.s.success.count; });
  t.family("nv_inference_request_failure", "unknown", "Number of failed inference requests");
  for (const Row& r : t.rows()) {
    const auto line = [&](const char* reason, std::initializer_list<FailureReason> counted) {
      uint64_t count = 0;
      for (const FailureReason each : counted) count += r.s.failures[static_cast<size_t>(each)];
      t.line("nv_inference_request_failure", r.labels + ",reason=\"" + reason + "\"", count);
    };
    line("REJECTED", {FailureReason::kRejected, FailureReason::kTimeout});  // by the scheduler
    line("CANCELED", {FailureReason::kCanceled});
    line("OTHER", {FailureReason::kCutRun});
    line("BACKEND", {FailureReason::kBackend});
  }
  plain_counter(t, "nv_inference_count", "Number of inferences performed", [](const Row& r) { return r.s.rows; });
  plain_counter(t, "nv_inference_exec_count", "Number of model executions performed",
                [](const Row& r) { return r.s.executions; });
  plain_counter(t, "nv_inference_request_duration_us", "Cumulative inference request duration",
                [&](const Row& r) { return us(r.s.success); });
  plain_counter(t, "nv_inference_queue_duration_us", "Cumulative inference queuing duration",
                [&](const Row& r) { return us(r.s.queue); });
  plain_counter(t, "nv_inference_compute_input_duration_us", "Cumulative compute input duration",
                [&](const Row& r) { return us(r.s.compute_input); });
  plain_counter(t, "nv_inference_compute_infer_duration_us", "Cumulative compute inference duration",
                [&](const Row& r) { return us(r.s.compute_infer); });
  plain_counter(t, "nv_inference_compute_output_duration_us", "Cumulative compute output duration",
                [&](const Row& r) { return us(r.s.compute_output); });
  plain_counter(t, "nv_cache_num_hits_per_model", "Number of cache hits per model",
                [](const Row& r) { return r.s.cache_hits.count; });
  plain_counter(t, "nv_cache_num_misses_per_model", "Number of cache misses per model",
                [](const Row& r) { return r.s.cache_misses.count; });
  t.family("nv_inference_pending_request_count", "gauge", "Requests that wait for execution");
  for (const Row& r : t.rows())
    t.line("nv_inference_pending_request_count", r.labels, static_cast<uint64_t>(r.model->pending()));
}

// Quantiles since the model was loaded, for Triton's summaries.
void summaries(Text& t, const char* name, const char* help,
               const std::function<const stats::Histogram&(const Row&)>& of) {
  t.family(name, "summary", help);
  for (const Row& r : t.rows()) {
    const stats::Histogram& h = of(r);
    for (const auto& [text, q] :
         {std::pair{"0.5", 0.5}, {"0.9", 0.9}, {"0.95", 0.95}, {"0.99", 0.99}, {"0.999", 0.999}})
      t.line(name, r.labels + ",quantile=\"" + text + "\"", static_cast<uint64_t>(h.quantile(q) / 1000));
    t.line(std::string(name) + "_sum", r.labels,
           static_cast<uint64_t>(h.mean() * static_cast<double>(h.count()) / 1000));
    t.line(std::string(name) + "_count", r.labels, h.count());
  }
}

void triton_summaries(Text& t) {
  summaries(t, "nv_inference_request_summary_us", "Summary of inference request duration in microseconds",
            [](const Row& r) -> const stats::Histogram& { return r.s.request_times; });
  summaries(t, "nv_inference_queue_summary_us", "Summary of inference queuing duration in microseconds",
            [](const Row& r) -> const stats::Histogram& { return r.s.queue_times; });
  summaries(t, "nv_inference_compute_infer_summary_us", "Summary of compute inference duration in microseconds",
            [](const Row& r) -> const stats::Histogram& { return r.s.infer_times; });
  t.family("nv_inference_first_response_histogram_ms", "histogram", "Duration from request to first response");
  for (const Row& r : t.rows()) {
    for (const int64_t ms : {100, 500, 2000, 5000})
      t.line("nv_inference_first_response_histogram_ms_bucket", r.labels + ",le=\"" + std::to_string(ms) + "\"",
             r.s.request_times.up_to(ms * 1000000));
    t.line("nv_inference_first_response_histogram_ms_bucket", r.labels + ",le=\"+Inf\"", r.s.success.count);
    t.line("nv_inference_first_response_histogram_ms_sum", r.labels, r.s.success.ns / 1000000);
    t.line("nv_inference_first_response_histogram_ms_count", r.labels, r.s.success.count);
  }
}

void machine_families(Text& t) {
  const ProcessUse use = process_use();
  const auto gauge = [&](const char* name, const char* help, const std::string& value) {
    t.family(name, "gauge", help);
    t.out() += std::string(name) + " " + value + "\n";
  };
  gauge("nv_cpu_utilization", "CPU utilization rate since the machine was started [0.0 - 1.0]",
        format("%.4f", use.machine_all_s > 0 ? use.machine_busy_s / use.machine_all_s : 0.0));
  gauge("nv_cpu_memory_total_bytes",
        "CPU total memory (RAM) that the server may use, of the machine or its control group, in bytes",
        std::to_string(use.total_bytes));
  gauge("nv_cpu_memory_used_bytes", "CPU used memory (RAM) of that, in bytes", std::to_string(use.used_bytes));
  gauge("peri_memory_resident_bytes", "Memory that this process has now", std::to_string(use.resident_bytes));
  gauge("peri_memory_peak_bytes", "The most that it had", std::to_string(use.peak_bytes));
  gauge("peri_threads", "Threads of this process", std::to_string(use.threads));
  gauge("peri_descriptors", "Open files and sockets of this process", std::to_string(use.descriptors));
  t.family("peri_cpu_seconds", "counter", "Processor time of this process");
  t.out() += format("peri_cpu_seconds_total %.3f\n", use.cpu_seconds);
}

void sequence_families(Text& t) {
  const auto each = [&](const char* name, const char* type, const char* help,
                        const std::function<void(const Row&, const SequenceCounts&)>& write) {
    t.family(name, type, help);
    for (const Row& r : t.rows())
      if (const auto counts = r.model->sequences()) write(r, *counts);
  };
  each("peri_sequences", "gauge", "Sequences that have a slot, and that wait for one",
       [&](const Row& r, const SequenceCounts& c) {
         t.line("peri_sequences", r.labels + ",state=\"active\"", static_cast<uint64_t>(c.active));
         t.line("peri_sequences", r.labels + ",state=\"backlog\"", static_cast<uint64_t>(c.backlog));
       });
  each("peri_sequence_slots", "gauge", "Sequences that may be under way", [&](const Row& r, const SequenceCounts& c) {
    t.line("peri_sequence_slots", r.labels, static_cast<uint64_t>(c.slots));
  });
  each("peri_sequence_state_bytes", "gauge", "What sequences keep between their requests",
       [&](const Row& r, const SequenceCounts& c) {
         t.line("peri_sequence_state_bytes", r.labels, static_cast<uint64_t>(c.state_bytes));
       });
  each("peri_sequences_begun", "counter", "Sequences by their start",
       [&](const Row& r, const SequenceCounts& c) { t.line("peri_sequences_begun_total", r.labels, c.started); });
  each("peri_sequences_over", "counter", "Sequences by what ended them", [&](const Row& r, const SequenceCounts& c) {
    for (const auto& [why, n] : {std::pair{"end", c.ended}, {"idle", c.idle}, {"failure", c.broken}})
      t.line("peri_sequences_over_total", r.labels + ",reason=\"" + why + "\"", n);
  });
}

void own_families(Text& t) {
  t.family("peri_batch_cuts", "counter", "Batches by the reason they were cut for");
  for (const Row& r : t.rows())
    for (int k = 0; k < kCutReasons; ++k)
      t.line("peri_batch_cuts_total",
             r.labels + ",reason=\"" + std::string(cut_reason_name(static_cast<CutReason>(k))) + "\"",
             r.s.cuts[static_cast<size_t>(k)]);
  t.family("peri_batch_rows", "counter", "Executions by the rows of their batch");
  for (const Row& r : t.rows())
    for (const auto& [rows, b] : r.s.batches)
      t.line("peri_batch_rows_total", r.labels + ",rows=\"" + std::to_string(rows) + "\"", b.compute_infer.count);
  sequence_families(t);
  t.family("peri_rerun_alone", "counter", "Requests of batches that failed as a whole, run again alone");
  for (const Row& r : t.rows()) t.line("peri_rerun_alone_total", r.labels, r.s.rerun_alone);
  t.family("peri_model_ready", "gauge", "1 while nothing is wrong with the model");
  for (const Row& r : t.rows())
    t.line("peri_model_ready", r.labels, static_cast<uint64_t>(r.model->trouble().empty() ? 1 : 0));
  t.family("peri_model_memory_bytes", "gauge", "Weights, and what runs take at most; 0: not known");
  for (const Row& r : t.rows()) t.line("peri_model_memory_bytes", r.labels, static_cast<uint64_t>(r.memory_bytes));
  t.family("peri_progress", "counter", "Units of work that the model has done");
  for (const Row& r : t.rows()) t.line("peri_progress_total", r.labels, r.model->servable().progress());
  t.family("peri_request_latency_us", "histogram", "Successful requests by time from arrival to answer");
  for (const Row& r : t.rows()) {
    uint64_t sum = 0;
    for (size_t k = 0; k < r.s.latency.size(); ++k) {
      sum += r.s.latency[k];
      const std::string bound = k < r.s.kLatencyBoundsUs.size() ? std::to_string(r.s.kLatencyBoundsUs[k]) : "+Inf";
      t.line("peri_request_latency_us_bucket", r.labels + ",le=\"" + bound + "\"", sum);
    }
    t.line("peri_request_latency_us_sum", r.labels, r.s.success.ns / 1000);
    t.line("peri_request_latency_us_count", r.labels, sum);
  }
}
}  // namespace

std::string Api::metrics() const {
  std::vector<Row> rows;
  const std::vector<ServedPtr> all = repository_.all();
  for (const ServedPtr& s : all)
    rows.push_back({s->model.get(), s->model->statistics(),
                    "model=\"" + s->model->name() + "\",version=\"" + s->model->version_text() + "\"",
                    s->memory_bytes});
  Text t(std::move(rows));
  triton_families(t);
  triton_summaries(t);
  machine_families(t);
  own_families(t);
  t.family("peri_open_requests", "gauge", "Requests that are not answered yet");
  t.out() += "peri_open_requests " + std::to_string(open_.load()) + "\n";
  if (options_.observer) t.out() += options_.observer->metrics();
  t.family("peri_draining", "gauge", "1 once the server takes no more connections");
  t.out() += format("peri_draining %d\n", draining_ ? 1 : 0);
  if (options_.add_metrics) options_.add_metrics(&t.out());
  t.out() += "# EOF\n";
  return std::move(t.out());
}

}  // namespace peri::serve
