// Members and their order are those of Triton's responses, which its clients expect.
#include "serve/kserve/describe.hpp"

#include "base/json.hpp"
#include "base/version.hpp"
#include "serve/kserve/datatype.hpp"

namespace peri::serve {

std::string describe_server(const std::string& name) {
  JsonWriter w;
  w.begin_object().field("name", name).field("version", version()).key("extensions").begin_array();
  for (const char* e :
       {"classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
        "model_configuration", "binary_tensor_data", "parameters", "statistics", "trace", "logging"})
    w.value(e);
  w.end_array().end_object();
  return w.take();
}

void write_dims(const Shape& shape, size_t from, JsonWriter& w) {
  w.begin_array();
  for (size_t k = from; k < shape.size(); ++k) w.value(shape[k].is_const() ? shape[k].value() : int64_t{-1});
  w.end_array();
}

std::string describe_model(const Served& served, const std::vector<int64_t>& versions) {
  const Model& model = *served.model;
  JsonWriter w;
  w.begin_object().field("name", served.model->name()).key("versions").begin_array();
  for (const int64_t v : versions) w.value(std::to_string(v));
  w.end_array().field("platform", platform_of(served));
  const auto ports = [&](const char* key, std::span<const plan::Port> list) {
    w.key(key).begin_array();
    for (const plan::Port& p : list) {
      w.begin_object().field("name", p.name).field("datatype", datatype_name(p.dtype)).key("shape");
      write_dims(p.shape, 0, w);
      w.end_object();
    }
    w.end_array();
  };
  ports("inputs", model.inputs());
  ports("outputs", model.outputs());
  w.end_object();
  return w.take();
}

static void write_time(JsonWriter& w, const char* key, const CountedTime& t) {
  w.key(key).begin_object().field("count", t.count).field("ns", t.ns).end_object();
}

static void write_statistics(const Model& model, JsonWriter& w) {
  const ModelStatistics s = model.statistics();
  w.begin_object().field("name", model.name()).field("version", model.version_text());
  w.field("last_inference", s.last_inference_ms)
      .field("inference_count", s.rows)
      .field("execution_count", s.executions);
  w.key("inference_stats").begin_object();
  write_time(w, "success", s.success);
  write_time(w, "fail", s.fail);
  write_time(w, "queue", s.queue);
  write_time(w, "compute_input", s.compute_input);
  write_time(w, "compute_infer", s.compute_infer);
  write_time(w, "compute_output", s.compute_output);
  write_time(w, "cache_hit", s.cache_hits);
  write_time(w, "cache_miss", s.cache_misses);
  w.end_object().key("batch_stats").begin_array();
  for (const auto& [rows, b] : s.batches) {
    w.begin_object().field("batch_size", rows);
    write_time(w, "compute_input", b.compute_input);
    write_time(w, "compute_infer", b.compute_infer);
    write_time(w, "compute_output", b.compute_output);
    w.end_object();
  }
  w.end_array().key("memory_usage").begin_array().end_array();
  w.key("peri_batch_cuts").begin_object();
  for (int k = 0; k < kCutReasons; ++k)
    w.field(cut_reason_name(static_cast<CutReason>(k)), s.cuts[static_cast<size_t>(k)]);
  w.end_object();
  if (const auto q = model.sequences()) {
    w.key("peri_sequences").begin_object().field("active", q->active).field("backlog", q->backlog);
    w.field("slots", q->slots).field("started", q->started).field("ended", q->ended).field("idle", q->idle);
    w.field("broken", q->broken).end_object();
  }
  w.end_object();
}

std::string describe_statistics(const std::vector<ServedPtr>& models) {
  JsonWriter w;
  w.begin_object().key("model_stats").begin_array();
  for (const ServedPtr& s : models) write_statistics(*s->model, w);
  w.end_array().end_object();
  return w.take();
}

std::string describe_index(const std::vector<IndexRow>& rows) {
  JsonWriter w;
  w.begin_array();
  for (const IndexRow& r : rows) {
    w.begin_object().field("name", r.name);
    if (!r.version.empty()) w.field("version", r.version);
    w.field("state", r.state);
    if (!r.reason.empty()) w.field("reason", r.reason);
    w.end_object();
  }
  w.end_array();
  return w.take();
}

}  // namespace peri::serve
