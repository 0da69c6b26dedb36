// A model's configuration as Triton's clients read it: the stated values, completed by those derived from the model.
#include <algorithm>
#include <charconv>

#include "serve/kserve/datatype.hpp"
#include "serve/kserve/describe.hpp"

namespace peri::serve {

std::string platform_of(const Served& s) { return s.config.platform.empty() ? "peri_" + s.backend : s.config.platform; }

static void write_numbers(const char* key, const std::vector<int64_t>& list, JsonWriter& w) {
  w.key(key).begin_array();
  for (const int64_t v : list) w.value(v);
  w.end_array();
}

static void write_queue(const QueueConfig& q, JsonWriter& w) {
  w.begin_object().field("timeout_action", std::string(q.delay ? "DELAY" : "REJECT"));
  w.field("default_timeout_microseconds", q.default_timeout_us);
  w.field("allow_timeout_override", q.allow_timeout_override).field("max_queue_size", q.max_queue_size).end_object();
}

// The delay and the preferred sizes are those in force: a search for them may have found others than are stated.
static void write_batching(const Served& served, JsonWriter& w) {
  const BatchingConfig& b = *served.config.batching;
  const QueuePolicy& queue = served.model->options().queue;
  const bool batches = !queue.sizes.empty();
  w.key("dynamic_batching").begin_object().key("preferred_batch_size").begin_array();
  for (const int64_t p : batches ? queue.preferred : b.preferred) w.value(p);
  w.end_array();
  w.field("max_queue_delay_microseconds", batches ? queue.max_delay_ns / 1000 : b.max_queue_delay_us);
  w.field("preserve_ordering", b.preserve_ordering).field("priority_levels", b.priority_levels);
  w.field("default_priority_level", b.default_priority_level).key("default_queue_policy");
  write_queue(b.queue, w);
  if (!b.priority_queues.empty()) {
    w.key("priority_queue_policy").begin_object();
    for (const auto& [level, queue] : b.priority_queues) {
      w.key(std::to_string(level));
      write_queue(queue, w);
    }
    w.end_object();
  }
  w.end_object();
}

static void write_ports(const char* key, std::span<const plan::Port> ports, const std::vector<PortConfig>& said,
                        bool batch, JsonWriter& w) {
  w.key(key).begin_array();
  for (const plan::Port& p : ports) {
    w.begin_object().field("name", p.name).field("data_type", config_datatype(p.dtype)).key("dims");
    write_dims(p.shape, batch ? 1 : 0, w);
    const auto c = std::find_if(said.begin(), said.end(), [&](const PortConfig& s) { return s.name == p.name; });
    if (c != said.end() && c->reshape) {
      w.key("reshape").begin_object();
      write_numbers("shape", *c->reshape, w);
      w.end_object();
    }
    if (c != said.end() && c->ragged) w.field("allow_ragged_batch", true);
    if (c != said.end() && !c->labels.empty()) w.field("label_filename", c->labels);
    w.end_object();
  }
  w.end_array();
}

static void write_batch_ports(const ModelConfig& c, JsonWriter& w) {
  const auto names = [&](const char* key, const std::string& name) {
    w.key(key).begin_array().value(name).end_array();
  };
  if (!c.batch_inputs.empty()) {
    w.key("batch_input").begin_array();
    for (const BatchInputConfig& b : c.batch_inputs) {
      w.begin_object().field("kind", batch_input_name(b.kind)).field("data_type", b.data_type);
      names("target_name", b.target);
      names("source_input", b.source);
      w.end_object();
    }
    w.end_array();
  }
  if (c.batch_outputs.empty()) return;
  w.key("batch_output").begin_array();
  for (const BatchOutputConfig& b : c.batch_outputs) {
    w.begin_object().field("kind", "BATCH_SCATTER_WITH_INPUT_SHAPE");
    names("target_name", b.target);
    names("source_input", b.source);
    w.end_object();
  }
  w.end_array();
}

static void write_control(const ControlConfig& c, JsonWriter& w) {
  w.begin_object().field("name", c.input).key("control").begin_array().begin_object();
  w.field("kind", control_name(c.kind));
  const bool flag = c.data_type == "TYPE_BOOL", real = c.data_type == "TYPE_FP32";
  if (c.kind == ControlConfig::Kind::kCorrelation) {
    w.field("data_type", c.data_type);
  } else {
    w.key(flag ? "bool_false_true" : real ? "fp32_false_true" : "int32_false_true").begin_array();
    for (const double v : {c.no, c.yes}) {
      if (flag)
        w.value(v != 0);
      else if (real)
        w.value(v);
      else
        w.value(static_cast<int64_t>(v));
    }
    w.end_array();
  }
  w.end_object().end_array().end_object();
}

static void write_sequences(const SequenceConfig& s, JsonWriter& w) {
  w.key("sequence_batching").begin_object();
  w.field("max_sequence_idle_microseconds", s.idle_us > 0 ? s.idle_us : int64_t{1000000});
  w.key("control_input").begin_array();
  for (const ControlConfig& c : s.controls) write_control(c, w);
  w.end_array().key("state").begin_array();
  for (const StateConfig& state : s.states) {
    w.begin_object().field("input_name", state.input).field("output_name", state.output);
    w.field("data_type", state.data_type.empty() ? "TYPE_INVALID" : state.data_type);
    write_numbers("dims", state.dims, w);
    if (!state.initial_file.empty() || !state.initial_dims.empty()) {
      w.key("initial_state").begin_array().begin_object();
      write_numbers("dims", state.initial_dims, w);
      if (state.initial_file.empty())
        w.field("zero_data", true);
      else
        w.field("data_file", state.initial_file);
      w.end_object().end_array();
    }
    w.end_object();
  }
  w.end_array().key(s.oldest ? "oldest" : "direct").begin_object();
  w.field("max_queue_delay_microseconds", s.max_queue_delay_us);
  if (s.oldest) {
    w.field("max_candidate_sequences", s.candidates);
    write_numbers("preferred_batch_size", s.preferred, w);
  } else {
    w.field("minimum_slot_utilization", s.minimum_utilization);
  }
  w.end_object().end_object();
}

static void write_optimization(const ModelConfig& c, JsonWriter& w) {
  constexpr std::string_view kPriorities[] = {"PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"};
  const auto hint = [&](const char* key, const char* inside, const std::optional<bool>& on) {
    if (on) w.key(key).begin_object().field(inside, *on).end_object();
  };
  w.key("optimization").begin_object().field("priority", kPriorities[static_cast<size_t>(c.urgency)]);
  hint("cuda", "graphs", c.optimization->graphs);
  hint("input_pinned_memory", "enable", c.optimization->pinned_input);
  hint("output_pinned_memory", "enable", c.optimization->pinned_output);
  w.end_object();
}

static void write_warmups(const std::vector<WarmupConfig>& warmups, JsonWriter& w) {
  w.key("model_warmup").begin_array();
  for (const WarmupConfig& each : warmups) {
    w.begin_object().field("name", each.name).field("batch_size", each.batch_size).key("inputs").begin_object();
    for (const WarmupConfig::Input& in : each.inputs) {
      w.key(in.port.name).begin_object();
      if (!in.port.data_type.empty()) w.field("data_type", in.port.data_type);
      write_numbers("dims", in.port.dims, w);
      if (in.file.empty())
        w.field(in.random ? "random_data" : "zero_data", true);
      else
        w.field("input_data_file", in.file);
      w.end_object();
    }
    w.end_object().field("count", each.count).end_object();
  }
  w.end_array();
}

static void write_instances(const Served& served, JsonWriter& w) {
  const ModelConfig& c = served.config;
  w.key("instance_group").begin_array();
  const std::vector<InstanceGroup> one(1);
  for (const InstanceGroup& g : c.groups.empty() ? one : c.groups) {
    w.begin_object().field("name", c.name).field("kind", served.backend == "cpu" ? "KIND_CPU" : "KIND_GPU");
    w.field("count", g.count);
    write_numbers("gpus", g.gpus, w);
    if (c.rate_limit == RateLimit()) {
      w.end_object();
      continue;
    }
    w.key("rate_limiter").begin_object().key("resources").begin_array();
    for (const ResourceClaim& r : c.rate_limit.claims)
      w.begin_object().field("name", r.name).field("global", r.global).field("count", r.count).end_object();
    w.end_array().field("priority", c.rate_limit.priority).end_object().end_object();
  }
  w.end_array();
}

static void write_ensemble(const ModelConfig& c, JsonWriter& w) {
  const auto write_map = [&](const char* key, const std::map<std::string, std::string>& map) {
    w.key(key).begin_object();
    for (const auto& [port, tensor] : map) w.field(port, tensor);
    w.end_object();
  };
  w.key("ensemble_scheduling")
      .begin_object()
      .field("max_inflight_requests", c.most_in_flight)
      .key("step")
      .begin_array();
  for (const EnsembleStep& s : c.steps) {
    w.begin_object().field("model_name", s.model).key("model_version");
    int64_t version = -1;  // where none is stated
    std::from_chars(s.version.data(), s.version.data() + s.version.size(), version);
    w.value(version);
    write_map("input_map", s.inputs);
    write_map("output_map", s.outputs);
    w.end_object();
  }
  w.end_array().end_object();
}

std::string describe_config(const Served& served) {
  const ModelConfig& c = served.config;
  const Model& model = *served.model;
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
  write_ports("input", model.inputs(), c.inputs, c.max_batch_size > 0, w);
  write_ports("output", model.outputs(), c.outputs, c.max_batch_size > 0, w);
  write_batch_ports(c, w);
  if (c.steps.empty())
    write_instances(served, w);
  else
    write_ensemble(c, w);
  if (c.optimization) write_optimization(c, w);
  if (c.batching) write_batching(served, w);
  if (c.sequences) write_sequences(*c.sequences, w);
  if (c.response_cache) w.key("response_cache").begin_object().field("enable", true).end_object();
  if (!c.warmups.empty()) write_warmups(c.warmups, w);
  w.key("parameters").begin_object();
  for (const auto& [key, value] : c.parameters) w.key(key).begin_object().field("string_value", value).end_object();
  std::string sizes;
  for (const int64_t s : served.model->options().queue.sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(s);
  if (c.wants_batches()) w.key("peri_batch_sizes").begin_object().field("string_value", sizes).end_object();
  if (!served.note.empty()) w.key("peri_note").begin_object().field("string_value", served.note).end_object();
  for (const auto& [key, value] : served.told) w.key(key).begin_object().field("string_value", value).end_object();
  w.end_object().end_object();
  return w.take();
}

}  // namespace peri::serve
