// The keys of a model, except those for scheduling (scheduling.cpp).
#include "serve/config/model_config.hpp"

#include <algorithm>
#include <set>

#include "base/spelling.hpp"
#include "serve/config/fields.hpp"
#include "serve/config/placement.hpp"
#include "serve/config/scheduling.hpp"
#include "serve/config/yaml.hpp"

namespace peri::serve {

using keys::choice;
using keys::file;
using keys::flag;
using keys::inner;
using keys::Key;
using keys::kMaxNumber;
using keys::number;
using keys::numbers;
using keys::off;
using keys::one;
using keys::read_fields;
using keys::refuses;
using keys::text;
using keys::word;

namespace {

Status read_reshape(const TextMessage& m, PortConfig* out) {
  return read_fields(m, "reshape", {numbers("shape", &out->reshape.emplace(), -1, kMaxNumber)});
}

// `notes`: on what is taken and changes nothing.
Status read_port(const TextMessage& m, bool input, PortConfig* out, std::vector<std::string>* notes) {
  size_t order = 0;  // of axes of a picture
  std::vector<Key> keys = {text("name", &out->name),
                           word("data_type", &out->data_type),
                           numbers("dims", &out->dims, -1, kMaxNumber),
                           one("reshape", [=](const TextMessage& v) { return read_reshape(v, out); }),
                           off("is_shape_tensor", "take it out: shapes follow from tensors"),
                           off("is_non_linear_format_io", "take it out: tensors are row-major")};
  if (input) {
    keys.push_back(choice("format", {"FORMAT_NONE", "FORMAT_NCHW", "FORMAT_NHWC"}, [&](size_t k) { order = k; }));
    keys.push_back(flag("allow_ragged_batch", &out->ragged));
    keys.push_back(off("optional", "take it out: every input is given, or is a constant of the model"));
  } else {
    keys.push_back(file("label_filename", &out->labels));
  }
  PERI_TRY(read_fields(m, input ? "input" : "output", keys));
  if (order > 0)
    notes->push_back("the format of input '" + out->name + "' changes nothing: the model's axes are as they are");
  return Ok{};
}

Status read_versions(const TextMessage& m, VersionPolicy* out) {
  using Kind = VersionPolicy::Kind;
  if (m.fields.size() > 1) return invalid("version_policy has several policies").expecting("latest, all or specific");
  return read_fields(m, "version_policy",
                     {one("latest",
                          [=](const TextMessage& v) {
                            out->kind = Kind::kLatest;
                            return read_fields(v, "latest", {number("num_versions", &out->latest, 1, 1000)});
                          }),
                      one("all",
                          [=](const TextMessage& v) {
                            out->kind = Kind::kAll;
                            return read_fields(v, "all", {});
                          }),
                      one("specific", [=](const TextMessage& v) {
                        out->kind = Kind::kSpecific;
                        return read_fields(v, "specific", {numbers("versions", &out->specific, 1, kMaxNumber)});
                      })});
}

Status read_warmup_input(const TextMessage& entry, WarmupConfig::Input* out) {
  bool zero = false;
  PERI_TRY(read_fields(entry, "inputs of model_warmup",
                       {text("key", &out->port.name), one("value", [&](const TextMessage& v) {
                          return read_fields(v, "an input of model_warmup",
                                             {word("data_type", &out->port.data_type),
                                              numbers("dims", &out->port.dims, 1, kMaxNumber), flag("zero_data", &zero),
                                              flag("random_data", &out->random), file("input_data_file", &out->file)});
                        })}));
  if (zero + out->random + !out->file.empty() != 1)
    return invalid("the data of '%s' in model_warmup are not told by one of the ways", out->port.name.c_str())
        .expecting("one of zero_data: true, random_data: true and input_data_file");
  return Ok{};
}

Status read_warmup(const TextMessage& m, WarmupConfig* out) {
  return read_fields(m, "model_warmup",
                     {text("name", &out->name), number("batch_size", &out->batch_size, 0, 65536),
                      number("count", &out->count, 0, 1000), inner("inputs", [=](const TextMessage& entry) -> Status {
                        PERI_TRY(read_warmup_input(entry, &out->inputs.emplace_back()));
                        return Ok{};
                      })});
}

// An unknown name that resembles a supported one is treated as a misspelling.
Status read_parameter(const TextMessage& m, ModelConfig* out) {
  std::string key, value;
  PERI_TRY(read_fields(m, "parameters", {text("key", &key), one("value", [&](const TextMessage& v) {
                                           return read_fields(v, "a parameter", {text("string_value", &value)});
                                         })}));
  const bool obeyed = key == "threads" || key == "batch_answers";
  if (const std::string near = obeyed ? "" : nearest(key, {"threads", "batch_answers"}); !near.empty())
    return invalid("the parameter '%s' is not known", key.c_str())
        .expecting("threads or batch_answers")
        .advise("did you mean '" + near + "'?");
  if (key == "batch_answers" && value != "identical" && value != "bounded")
    return invalid("the parameter 'batch_answers' must be identical or bounded").but_found(value);
  if (!obeyed) out->notes.push_back(format("the parameter '%s' changes nothing", key.c_str()));
  if (!out->parameters.emplace(key, value).second) return invalid("the parameter '%s' stands twice", key.c_str());
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

Status read_ensemble(const TextMessage& m, ModelConfig* out) {
  PERI_TRY(
      read_fields(m, "ensemble_scheduling",
                  {number("max_inflight_requests", &out->most_in_flight, 0, 1000000),
                   inner("step", [=](const TextMessage& v) { return read_step(v, &out->steps.emplace_back()); })}));
  if (out->steps.empty()) return invalid("an ensemble has no step");
  return Ok{};
}

Status read_cache(const TextMessage& m, bool* out) { return read_fields(m, "response_cache", {flag("enable", out)}); }

// Recursion is bounded: the parser limits nesting.
void mark_sent(TextMessage* m) {
  for (TextField& f : m->fields) {
    f.sent = true;
    mark_sent(&f.message);
  }
}

Status check_once(const std::vector<PortConfig>& ports, const char* what) {
  std::set<std::string_view> names;
  for (const PortConfig& p : ports)
    if (!p.name.empty() && !names.insert(p.name).second)
      return invalid("the %s '%s' stands twice", what, p.name.c_str());
  return Ok{};
}

Status check(const ModelConfig& c) {
  PERI_TRY(check_once(c.inputs, "input"));
  PERI_TRY(check_once(c.outputs, "output"));
  if (c.platform == "ensemble" && c.steps.empty()) return invalid("an ensemble needs ensemble_scheduling");
  const bool shaped = !c.batch_inputs.empty() || !c.batch_outputs.empty();
  if (!c.steps.empty() && (c.batching || c.sequences || shaped || !c.warmups.empty() || !c.groups.empty()))
    return invalid(
        "an ensemble has no dynamic_batching, sequence_batching, batch_input, model_warmup or "
        "instance_group: its models have");
  for (const WarmupConfig& w : c.warmups)
    if (c.max_batch_size > 0 && w.batch_size > c.max_batch_size)
      return invalid("batch_size of model_warmup '%s'", w.name.c_str())
          .expecting(format("at most max_batch_size, %lld", static_cast<long long>(c.max_batch_size)))
          .but_found(std::to_string(w.batch_size));
  return check_scheduling(c);
}

Status read_model(const TextMessage& m, ModelConfig* out) {
  const auto port = [out](std::vector<PortConfig>* to, bool input) {
    return [=](const TextMessage& v) -> Status { return read_port(v, input, &to->emplace_back(), &out->notes); };
  };
  PERI_TRY(read_fields(
      m, "a model's configuration",
      {text("name", &out->name),
       text("platform", &out->platform),
       text("backend", &out->backend),
       file("default_model_filename", &out->default_model_filename),
       number("max_batch_size", &out->max_batch_size, 0, 65536),
       inner("input", port(&out->inputs, true)),
       inner("output", port(&out->outputs, false)),
       one("version_policy", [=](const TextMessage& v) { return read_versions(v, &out->versions); }),
       inner("batch_input",
             [=](const TextMessage& v) { return read_batch_input(v, &out->batch_inputs.emplace_back()); }),
       inner("batch_output", [=](const TextMessage& v) { return read_batch_output(v, &out->batch_outputs); }),
       inner("instance_group", [=](const TextMessage& v) { return read_instances(v, out); }),
       one("optimization", [=](const TextMessage& v) { return read_optimization(v, out); }),
       one("dynamic_batching", [=](const TextMessage& v) { return read_batching(v, &out->batching.emplace()); }),
       one("sequence_batching", [=](const TextMessage& v) { return read_sequences(v, &out->sequences.emplace()); }),
       refuses("cc_model_filenames", "take it out: put the model into model.engine or model.onnx"),
       refuses("metric_tags", "take it out: metrics carry the model's name and version"),
       refuses("model_operations", "take it out: custom operators are built in (docs/adding.md)"),
       refuses("model_repository_agents", "take it out: check files before they are put into the repository"),
       refuses("model_metrics", "take it out: histograms have fixed bounds"),
       refuses("runtime", "take it out: there is one"),
       one("model_transaction_policy",
           [](const TextMessage& v) {
             return read_fields(v, "model_transaction_policy",
                                {off("decoupled", "take it out: each request has one answer")});
           }),
       one("ensemble_scheduling", [=](const TextMessage& v) { return read_ensemble(v, out); }),
       one("response_cache", [=](const TextMessage& v) { return read_cache(v, &out->response_cache); }),
       inner("model_warmup", [=](const TextMessage& v) { return read_warmup(v, &out->warmups.emplace_back()); }),
       inner("parameters", [=](const TextMessage& v) { return read_parameter(v, out); })}));
  if (out->batching && out->batching->default_priority_level > 0 && out->batching->priority_levels == 0)
    out->notes.push_back("default_priority_level changes nothing without priority_levels");
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

std::string VersionPolicy::why_none(std::vector<int64_t> present) const {
  static constexpr size_t kMaxNamed = 10;
  const auto list = [](const std::vector<int64_t>& versions) {
    std::string out;
    for (size_t k = 0; k < std::min(versions.size(), kMaxNamed); ++k)
      out += (k ? ", " : "") + std::to_string(versions[k]);
    return versions.size() > kMaxNamed ? out + ", ..." : out;
  };
  std::sort(present.begin(), present.end());
  std::string why = "no version of the model is there to be served";
  if (present.empty()) return why + ": put it into a numbered folder, as NAME/1/model.onnx";
  if (kind != Kind::kSpecific) return why;
  return why + ": version_policy wants " + (specific.empty() ? "none" : list(specific)) + ", and there are " +
         list(present) + "; correct version_policy, or add the folder of the version";
}

Result<ModelConfig> parse_model_config(std::string_view text_form, const std::string& file, ConfigFrom from) {
  const auto read = [&]() -> Result<ModelConfig> {
    PERI_ASSIGN(TextMessage tree, file.ends_with(".yaml") ? parse_yaml(text_form) : parse_text_proto(text_form));
    if (from == ConfigFrom::kClient) mark_sent(&tree);
    ModelConfig out;
    PERI_TRY(read_model(tree, &out));
    out.text = text_form;
    out.yaml = file.ends_with(".yaml");
    return out;
  };
  auto config = read();
  if (!config.ok()) return std::move(config).error().in_file(file);
  return config;
}

}  // namespace peri::serve
