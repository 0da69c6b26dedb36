// Members are those of Triton's own answers, in its order, so that its clients read them.
#include "serve/kserve/describe.hpp"

#include "base/json.hpp"
#include "base/version.hpp"
#include "serve/kserve/datatype.hpp"

namespace peri::serve {

std::string describe_server() {
  JsonWriter w;
  w.begin_object().field("name", "peri").field("version", version()).key("extensions").begin_array();
  for (const char* e : {"binary_tensor_data", "model_repository", "model_configuration", "statistics", "parameters"})
    w.value(e);
  w.end_array().end_object();
  return w.take();
}

static void write_dims(const Shape& shape, size_t from, JsonWriter& w) {
  w.begin_array();
  for (size_t k = from; k < shape.size(); ++k) w.value(shape[k].is_const() ? shape[k].value() : int64_t{-1});
  w.end_array();
}

static std::string platform_of(const Served& s) {
  return s.config.platform.empty() ? "peri_" + s.backend : s.config.platform;
}

std::string describe_model(const Served& served, const std::vector<int64_t>& versions) {
  const runtime::Servable& model = served.model->servable();
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

static void write_batching(const Served& served, JsonWriter& w) {
  const BatchingConfig& b = *served.config.batching;
  w.key("dynamic_batching").begin_object().key("preferred_batch_size").begin_array();
  for (const int64_t p : b.preferred) w.value(p);
  w.end_array().field("max_queue_delay_microseconds", b.max_queue_delay_us);
  w.field("preserve_ordering", b.preserve_ordering).field("priority_levels", b.priority_levels);
  w.field("default_priority_level", b.default_priority_level).end_object();
}

std::string describe_config(const Served& served) {
  const ModelConfig& c = served.config;
  const runtime::Servable& model = served.model->servable();
  JsonWriter w;
  w.begin_object()
      .field("name", c.name)
      .field("platform", platform_of(served))
      .field("backend", c.backend.empty() ? "peri" : c.backend);
  w.key("version_policy").begin_object();
  if (c.versions.kind == VersionPolicy::Kind::kLatest)
    w.key("latest").begin_object().field("num_versions", c.versions.latest).end_object();
  if (c.versions.kind == VersionPolicy::Kind::kAll) w.key("all").begin_object().end_object();
  if (c.versions.kind == VersionPolicy::Kind::kSpecific) {
    w.key("specific").begin_object().key("versions").begin_array();
    for (const int64_t v : c.versions.specific) w.value(v);
    w.end_array().end_object();
  }
  w.end_object().field("max_batch_size", c.max_batch_size);
  const auto ports = [&](const char* key, std::span<const plan::Port> list) {
    w.key(key).begin_array();
    for (const plan::Port& p : list) {
      w.begin_object().field("name", p.name).field("data_type", config_datatype(p.dtype)).key("dims");
      write_dims(p.shape, c.max_batch_size > 0 ? 1 : 0, w);
      w.end_object();
    }
    w.end_array();
  };
  ports("input", model.inputs());
  ports("output", model.outputs());
  w.key("instance_group").begin_array().begin_object().field("name", c.name).field("kind", "KIND_CPU");
  w.field("count", static_cast<int64_t>(model.slots())).end_object().end_array();
  if (c.batching) write_batching(served, w);
  w.key("parameters").begin_object();
  for (const auto& [key, value] : c.parameters) w.key(key).begin_object().field("string_value", value).end_object();
  std::string sizes;
  for (const int64_t s : served.model->options().queue.sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(s);
  if (c.batching) w.key("peri_batch_sizes").begin_object().field("string_value", sizes).end_object();
  if (!served.note.empty()) w.key("peri_note").begin_object().field("string_value", served.note).end_object();
  w.end_object().end_object();
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
  write_time(w, "cache_hit", {});
  write_time(w, "cache_miss", {});
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
  w.end_object().end_object();
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
