// Each message is read by a table of its keys; what the table lacks is refused by one sentence for all.
#include "serve/config/model_config.hpp"

#include <algorithm>
#include <functional>

#include "base/spelling.hpp"
#include "serve/config/yaml.hpp"

namespace peri::serve {
namespace {

using Key = std::pair<std::string_view, std::function<Status(const TextField&)>>;

// Reads each field by its row. `what`: the message's name, for errors.
Status read_fields(const TextMessage& message, std::string_view what, const std::vector<Key>& keys) {
  for (const TextField& f : message.fields) {
    const auto it = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.first == f.name; });
    if (it == keys.end()) {
      std::vector<std::string_view> names;
      std::string list;
      for (const Key& k : keys) {
        names.push_back(k.first);
        list += (list.empty() ? "" : ", ") + std::string(k.first);
      }
      const std::string near = nearest(f.name, names);
      return text_error(f, "is no key of " + std::string(what) + " that this server knows")
          .expecting("one of: " + list)
          .advise(near.empty() ? "take it out" : "did you mean '" + near + "'?");
    }
    PERI_TRY(it->second(f));
  }
  return Ok{};
}

Key text(std::string_view key, std::string* to) {
  return {key, [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_string(f));
            return Ok{};
          }};
}
Key number(std::string_view key, int64_t* to, int64_t low, int64_t high) {
  return {key, [=](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_int(f, low, high));
            return Ok{};
          }};
}
Key numbers(std::string_view key, std::vector<int64_t>* to, int64_t low, int64_t high) {
  return {key, [=](const TextField& f) -> Status {
            PERI_ASSIGN(const int64_t v, text_int(f, low, high));
            to->push_back(v);
            return Ok{};
          }};
}
Key flag(std::string_view key, bool* to) {
  return {key, [to](const TextField& f) -> Status {
            PERI_ASSIGN(*to, text_bool(f));
            return Ok{};
          }};
}
// A flag that may be written out as long as it asks for nothing.
Key off(std::string_view key) {
  return {key, [](const TextField& f) -> Status {
            PERI_ASSIGN(const bool on, text_bool(f));
            if (on) return text_error(f, "asks for what this server does not do").expecting("false");
            return Ok{};
          }};
}
Key inner(std::string_view key, std::function<Status(const TextMessage&)> read) {
  return {key, [read = std::move(read)](const TextField& f) -> Status {
            PERI_ASSIGN(const TextMessage* m, text_message(f));
            return read(*m);
          }};
}
// One word of a list.
Key choice(std::string_view key, std::vector<std::string_view> words, std::function<void(size_t)> take) {
  return {key, [words = std::move(words), take = std::move(take)](const TextField& f) -> Status {
            PERI_ASSIGN(const std::string word, text_word(f));
            const auto it = std::find(words.begin(), words.end(), word);
            std::string list;
            for (const auto& w : words) list += (list.empty() ? "" : ", ") + std::string(w);
            if (it == words.end()) return text_error(f, "is '" + word + "', which means nothing here").expecting(list);
            take(static_cast<size_t>(it - words.begin()));
            return Ok{};
          }};
}

constexpr int64_t kMost = int64_t{1} << 40;

Status read_port(const TextMessage& m, bool input, PortConfig* out) {
  std::vector<Key> keys = {text("name", &out->name),
                           {"data_type",
                            [&](const TextField& f) -> Status {
                              PERI_ASSIGN(out->data_type, text_word(f));
                              return Ok{};
                            }},
                           numbers("dims", &out->dims, -1, kMost)};
  keys.push_back(off("is_shape_tensor"));
  keys.push_back(off("is_non_linear_format_io"));
  if (input) {
    keys.push_back(choice("format", {"FORMAT_NONE"}, [](size_t) {}));
    keys.push_back(off("allow_ragged_batch"));
    keys.push_back(off("optional"));
  }
  return read_fields(m, input ? "input" : "output", keys);
}

Status read_queue(const TextMessage& m, QueueConfig* out) {
  return read_fields(m, "default_queue_policy",
                     {choice("timeout_action", {"REJECT", "DELAY"}, [=](size_t k) { out->delay = k == 1; }),
                      number("default_timeout_microseconds", &out->default_timeout_us, 0, kMost),
                      flag("allow_timeout_override", &out->allow_timeout_override),
                      number("max_queue_size", &out->max_queue_size, 0, 10000000)});
}

Status read_batching(const TextMessage& m, BatchingConfig* out) {
  const auto queue_of_level = [=](const TextMessage& entry) -> Status {
    int64_t level = 0;
    QueueConfig queue;
    PERI_TRY(read_fields(
        entry, "priority_queue_policy",
        {number("key", &level, 1, 1000), inner("value", [&](const TextMessage& v) { return read_queue(v, &queue); })}));
    out->priority_queues[static_cast<int>(level)] = queue;
    return Ok{};
  };
  return read_fields(
      m, "dynamic_batching",
      {numbers("preferred_batch_size", &out->preferred, 1, 65536),
       number("max_queue_delay_microseconds", &out->max_queue_delay_us, 0, 60000000),
       flag("preserve_ordering", &out->preserve_ordering), number("priority_levels", &out->priority_levels, 0, 1000),
       number("default_priority_level", &out->default_priority_level, 0, 1000),
       inner("default_queue_policy", [=](const TextMessage& q) { return read_queue(q, &out->queue); }),
       inner("priority_queue_policy", queue_of_level)});
}

Status read_versions(const TextMessage& m, VersionPolicy* out) {
  using Kind = VersionPolicy::Kind;
  return read_fields(m, "version_policy",
                     {inner("latest",
                            [=](const TextMessage& v) {
                              out->kind = Kind::kLatest;
                              return read_fields(v, "latest", {number("num_versions", &out->latest, 1, 1000)});
                            }),
                      inner("all",
                            [=](const TextMessage& v) {
                              out->kind = Kind::kAll;
                              return read_fields(v, "all", {});
                            }),
                      inner("specific", [=](const TextMessage& v) {
                        out->kind = Kind::kSpecific;
                        return read_fields(v, "specific", {numbers("versions", &out->specific, 1, kMost)});
                      })});
}

Status read_warmup_input(const TextMessage& entry, WarmupConfig::Input* out) {
  bool zero = false;
  return read_fields(entry, "inputs of model_warmup",
                     {text("key", &out->port.name), inner("value", [&](const TextMessage& v) {
                        return read_fields(v, "an input of model_warmup",
                                           {{"data_type",
                                             [&](const TextField& f) -> Status {
                                               PERI_ASSIGN(out->port.data_type, text_word(f));
                                               return Ok{};
                                             }},
                                            numbers("dims", &out->port.dims, 1, kMost),
                                            flag("zero_data", &zero),
                                            flag("random_data", &out->random),
                                            text("input_data_file", &out->file)});
                      })});
}

Status read_warmup(const TextMessage& m, WarmupConfig* out) {
  return read_fields(m, "model_warmup",
                     {text("name", &out->name), number("batch_size", &out->batch_size, 0, 65536),
                      number("count", &out->count, 0, 1000), inner("inputs", [=](const TextMessage& entry) -> Status {
                        PERI_TRY(read_warmup_input(entry, &out->inputs.emplace_back()));
                        return Ok{};
                      })});
}

Status read_parameter(const TextMessage& m, std::map<std::string, std::string>* out) {
  std::string key, value;
  PERI_TRY(read_fields(m, "parameters", {text("key", &key), inner("value", [&](const TextMessage& v) {
                                           return read_fields(v, "a parameter", {text("string_value", &value)});
                                         })}));
  if (key != "threads" && key != "batch_answers")
    return invalid("the parameter '%s' is not known", key.c_str()).expecting("threads or batch_answers");
  (*out)[key] = value;
  return Ok{};
}

Status read_map(const TextMessage& m, const char* of, std::map<std::string, std::string>* out) {
  std::string key, value;
  PERI_TRY(read_fields(m, of, {text("key", &key), text("value", &value)}));
  if (!out->emplace(key, value).second) return invalid("%s names '%s' twice", of, key.c_str());
  return Ok{};
}

Status read_step(const TextMessage& m, EnsembleStep* out) {
  int64_t version = -1;
  PERI_TRY(read_fields(
      m, "a step",
      {text("model_name", &out->model), number("model_version", &version, -1, INT64_MAX),
       inner("input_map", [=](const TextMessage& v) { return read_map(v, "input_map", &out->inputs); }),
       inner("output_map", [=](const TextMessage& v) { return read_map(v, "output_map", &out->outputs); })}));
  if (version >= 0) out->version = std::to_string(version);
  return Ok{};
}

Status read_ensemble(const TextMessage& m, std::vector<EnsembleStep>* out) {
  PERI_TRY(read_fields(m, "ensemble_scheduling", {inner("step", [=](const TextMessage& v) -> Status {
                         return read_step(v, &out->emplace_back());
                       })}));
  if (out->empty()) return invalid("an ensemble has no step");
  return Ok{};
}

Status read_cache(const TextMessage& m, bool* out) { return read_fields(m, "response_cache", {flag("enable", out)}); }

Status read_instances(const TextMessage& m, int64_t* sum) {
  std::string name;
  int64_t count = 1;
  PERI_TRY(read_fields(m, "instance_group",
                       {text("name", &name), number("count", &count, 1, 1024),
                        choice("kind", {"KIND_AUTO", "KIND_CPU"}, [](size_t) {})}));
  *sum += count;
  return Ok{};
}

Status check(const ModelConfig& c) {
  if (c.platform == "ensemble" && c.steps.empty()) return invalid("an ensemble needs ensemble_scheduling");
  if (!c.steps.empty() && (c.batching || !c.warmups.empty() || c.instances > 0))
    return invalid("an ensemble has no dynamic_batching, model_warmup or instance_group: its models have");
  if (c.batching && c.max_batch_size == 0) return invalid("dynamic_batching needs a max_batch_size above 0");
  if (!c.batching) return Ok{};
  const BatchingConfig& b = *c.batching;
  for (const int64_t p : b.preferred)
    if (p > c.max_batch_size)
      return invalid("preferred_batch_size %lld is above max_batch_size %lld", static_cast<long long>(p),
                     static_cast<long long>(c.max_batch_size));
  if (b.priority_levels > 0 && (b.default_priority_level < 1 || b.default_priority_level > b.priority_levels))
    return invalid("default_priority_level %lld is none of the %lld priority_levels",
                   static_cast<long long>(b.default_priority_level), static_cast<long long>(b.priority_levels));
  for (const auto& [level, queue] : b.priority_queues)
    if (level > b.priority_levels)
      return invalid("priority_queue_policy of level %d, of %lld", level, static_cast<long long>(b.priority_levels));
  return Ok{};
}

Status read_model(const TextMessage& m, ModelConfig* out) {
  const auto port = [](std::vector<PortConfig>* to, bool input) {
    return [=](const TextMessage& v) -> Status { return read_port(v, input, &to->emplace_back()); };
  };
  PERI_TRY(read_fields(
      m, "a model's configuration",
      {text("name", &out->name), text("platform", &out->platform), text("backend", &out->backend),
       text("default_model_filename", &out->default_model_filename),
       number("max_batch_size", &out->max_batch_size, 0, 65536), inner("input", port(&out->inputs, true)),
       inner("output", port(&out->outputs, false)),
       inner("version_policy", [=](const TextMessage& v) { return read_versions(v, &out->versions); }),
       inner("instance_group", [=](const TextMessage& v) { return read_instances(v, &out->instances); }),
       inner("dynamic_batching", [=](const TextMessage& v) { return read_batching(v, &out->batching.emplace()); }),
       inner("model_transaction_policy",
             [](const TextMessage& v) { return read_fields(v, "model_transaction_policy", {off("decoupled")}); }),
       inner("ensemble_scheduling", [=](const TextMessage& v) { return read_ensemble(v, &out->steps); }),
       inner("response_cache", [=](const TextMessage& v) { return read_cache(v, &out->response_cache); }),
       inner("model_warmup", [=](const TextMessage& v) { return read_warmup(v, &out->warmups.emplace_back()); }),
       inner("parameters", [=](const TextMessage& v) { return read_parameter(v, &out->parameters); })}));
  return check(*out);
}
}  // namespace

std::vector<int64_t> VersionPolicy::choose(std::vector<int64_t> present) const {
  std::sort(present.begin(), present.end());
  if (kind == Kind::kLatest && present.size() > static_cast<size_t>(latest))
    present.erase(present.begin(), present.end() - latest);
  if (kind == Kind::kSpecific)
    std::erase_if(present, [&](int64_t v) { return std::find(specific.begin(), specific.end(), v) == specific.end(); });
  return present;
}

Result<ModelConfig> parse_model_config(std::string_view text_form, const std::string& file) {
  const auto read = [&]() -> Result<ModelConfig> {
    PERI_ASSIGN(const TextMessage tree, file.ends_with(".yaml") ? parse_yaml(text_form) : parse_text_proto(text_form));
    ModelConfig out;
    PERI_TRY(read_model(tree, &out));
    return out;
  };
  auto config = read();
  if (!config.ok()) return std::move(config).error().in_file(file);
  return config;
}

}  // namespace peri::serve
