// Metrics under the names that dashboards for Triton ask for, and our own beside them, in OpenMetrics' text form. All
// of a name stand together, so that each name walks the models.
#include "serve/kserve/api.hpp"

namespace peri::serve {
namespace {

struct Row {
  const Model* model;
  ModelStatistics s;
  std::string labels;  // model="x",version="1"
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

// Triton writes its counters in Prometheus' older text form, without "_total": the same lines here.
void plain_counter(Text& t, const char* name, const char* help, const std::function<uint64_t(const Row&)>& value) {
  t.family(name, "unknown", help);
  for (const Row& r : t.rows()) t.line(name, r.labels, value(r));
}

void triton_families(Text& t) {
  const auto us = [](const CountedTime& c) { return c.ns / 1000; };
  plain_counter(t, "nv_inference_request_success", "Number of successful inference requests",
                [](const Row& r) { return r.s.success.count; });
  t.family("nv_inference_request_failure", "unknown", "Number of failed inference requests");
  constexpr const char* kReasons[kFailureReasons] = {"REJECTED", "CANCELED", "OTHER", "BACKEND"};
  for (const Row& r : t.rows())
    for (int k = 0; k < kFailureReasons; ++k)
      t.line("nv_inference_request_failure", r.labels + ",reason=\"" + kReasons[k] + "\"",
             r.s.failures[static_cast<size_t>(k)]);
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
                [](const Row& r) { return r.s.cache_hits; });
  plain_counter(t, "nv_cache_num_misses_per_model", "Number of cache misses per model",
                [](const Row& r) { return r.s.cache_misses; });
  t.family("nv_inference_pending_request_count", "gauge", "Requests that wait for execution");
  for (const Row& r : t.rows())
    t.line("nv_inference_pending_request_count", r.labels, static_cast<uint64_t>(r.model->pending()));
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
  t.family("peri_rerun_alone", "counter", "Requests of batches that failed as a whole, run again alone");
  for (const Row& r : t.rows()) t.line("peri_rerun_alone_total", r.labels, r.s.rerun_alone);
  t.family("peri_model_ready", "gauge", "1 while nothing is wrong with the model");
  for (const Row& r : t.rows())
    t.line("peri_model_ready", r.labels, static_cast<uint64_t>(r.model->trouble().empty() ? 1 : 0));
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
                    "model=\"" + s->model->name() + "\",version=\"" + s->model->version_text() + "\""});
  Text t(std::move(rows));
  triton_families(t);
  own_families(t);
  t.family("peri_open_requests", "gauge", "Requests that are not answered yet");
  t.out() += "peri_open_requests " + std::to_string(open_.load()) + "\n";
  t.family("peri_draining", "gauge", "1 once the server takes no more connections");
  t.out() += format("peri_draining %d\n", draining_ ? 1 : 0);
  if (options_.add_metrics) options_.add_metrics(&t.out());
  t.out() += "# EOF\n";
  return std::move(t.out());
}

}  // namespace peri::serve
