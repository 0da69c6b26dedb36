// The keys of sequences are Triton's; those that need a model with its own state are refused.
#include "serve/config/scheduling.hpp"

#include <algorithm>

#include "serve/config/fields.hpp"

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
using keys::real;
using keys::text;
using keys::texts;
using keys::word;

namespace {

Status read_queue(const TextMessage& m, QueueConfig* out) {
  return read_fields(m, "default_queue_policy",
                     {choice("timeout_action", {"REJECT", "DELAY"}, [=](size_t k) { out->delay = k == 1; }),
                      number("default_timeout_microseconds", &out->default_timeout_us, 0, kMaxNumber),
                      flag("allow_timeout_override", &out->allow_timeout_override),
                      number("max_queue_size", &out->max_queue_size, 0, 10000000)});
}

}  // namespace

Status read_batching(const TextMessage& m, BatchingConfig* out) {
  const auto queue_of_level = [=](const TextMessage& entry) -> Status {
    int64_t level = 0;
    QueueConfig queue;
    PERI_TRY(read_fields(
        entry, "priority_queue_policy",
        {number("key", &level, 1, 1000), one("value", [&](const TextMessage& v) { return read_queue(v, &queue); })}));
    out->priority_queues[static_cast<int>(level)] = queue;
    return Ok{};
  };
  return read_fields(
      m, "dynamic_batching",
      {numbers("preferred_batch_size", &out->preferred, 1, 65536),
       number("max_queue_delay_microseconds", &out->max_queue_delay_us, 0, 60000000),
       flag("preserve_ordering", &out->preserve_ordering), number("priority_levels", &out->priority_levels, 0, 1000),
       number("default_priority_level", &out->default_priority_level, 0, 1000),
       one("default_queue_policy", [=](const TextMessage& q) { return read_queue(q, &out->queue); }),
       inner("priority_queue_policy", queue_of_level)});
}

namespace {

constexpr std::string_view kControlNames[] = {"CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY",
                                              "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"};
constexpr std::string_view kBatchInputNames[] = {"BATCH_ELEMENT_COUNT",
                                                 "BATCH_ACCUMULATED_ELEMENT_COUNT",
                                                 "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
                                                 "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
                                                 "BATCH_ITEM_SHAPE",
                                                 "BATCH_ITEM_SHAPE_FLATTEN"};

// `control { kind fp32_false_true }`: the two values, of one type.
Status read_control(const TextMessage& m, ControlConfig* out) {
  std::vector<double> values;
  std::string type;
  const auto two = [&](std::string_view key, const char* of) -> Key {
    return {key, [&values, &type, of](const TextField& f) -> Status {
              const bool is_flag = std::string_view(of) == "TYPE_BOOL";
              double v = 0;
              if (is_flag) {
                PERI_ASSIGN(const bool on, text_bool(f));
                v = on ? 1 : 0;
              } else if (std::string_view(of) == "TYPE_INT32") {
                PERI_ASSIGN(const int64_t n, text_int(f, INT32_MIN, INT32_MAX));
                v = static_cast<double>(n);
              } else {
                PERI_ASSIGN(v, text_real(f, -3e38, 3e38));
              }
              if (!type.empty() && type != of) return text_error(f, "gives a second pair of values");
              type = of;
              values.push_back(v);
              return Ok{};
            }};
  };
  PERI_TRY(read_fields(m, "control",
                       {choice("kind", {std::begin(kControlNames), std::end(kControlNames)},
                               [=](size_t k) { out->kind = static_cast<ControlConfig::Kind>(k); }),
                        two("fp32_false_true", "TYPE_FP32"), two("int32_false_true", "TYPE_INT32"),
                        two("bool_false_true", "TYPE_BOOL"), word("data_type", &out->data_type)}));
  if (out->kind == ControlConfig::Kind::kCorrelation) {
    constexpr std::string_view kTypes[] = {"TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING"};
    const bool known = std::find(std::begin(kTypes), std::end(kTypes), out->data_type) != std::end(kTypes);
    if (!known || !values.empty())
      return invalid("CONTROL_SEQUENCE_CORRID takes a data_type, and no values")
          .expecting("TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING")
          .but_found(values.empty() ? out->data_type : "");
    return Ok{};
  }
  if (values.size() != 2 || !out->data_type.empty())
    return invalid("%s takes two values, what false is and what true", std::string(control_name(out->kind)).c_str())
        .expecting("fp32_false_true, int32_false_true or bool_false_true: [ 0, 1 ]");
  out->data_type = type;
  out->no = values[0];
  out->yes = values[1];
  return Ok{};
}

Status read_control_input(const TextMessage& m, std::vector<ControlConfig>* out) {
  std::string name;
  const size_t first = out->size();
  PERI_TRY(read_fields(m, "control_input", {text("name", &name), inner("control", [=](const TextMessage& v) {
                                              return read_control(v, &out->emplace_back());
                                            })}));
  if (name.empty() || out->size() != first + 1)
    return invalid("control_input '%s' needs a name and one control", name.c_str());
  out->back().input = name;
  return Ok{};
}

Status read_state(const TextMessage& m, StateConfig* out) {
  const auto initial = [=](const TextMessage& v) -> Status {
    std::string type, name;
    bool zero = false;
    PERI_TRY(
        read_fields(v, "initial_state",
                    {text("name", &name), word("data_type", &type), numbers("dims", &out->initial_dims, 0, kMaxNumber),
                     flag("zero_data", &zero), file("data_file", &out->initial_file)}));
    if (zero == !out->initial_file.empty())
      return invalid("the initial_state of '%s' takes zero_data: true or a data_file", out->input.c_str());
    if (!type.empty() && !out->data_type.empty() && type != out->data_type)
      return invalid("the initial_state of '%s' is of another type than the state", out->input.c_str())
          .expecting(out->data_type)
          .but_found(type);
    return Ok{};
  };
  PERI_TRY(read_fields(
      m, "state",
      {text("input_name", &out->input), text("output_name", &out->output), word("data_type", &out->data_type),
       numbers("dims", &out->dims, -1, kMaxNumber), one("initial_state", initial),
       off("use_same_buffer_for_input_output", "take it out: the server keeps a copy between requests"),
       off("use_growable_memory", "take it out: a state may have other dims each time")}));
  if (out->input.empty() || out->output.empty()) return invalid("a state needs an input_name and an output_name");
  return Ok{};
}

Status read_oldest(const TextMessage& m, SequenceConfig* out) {
  bool order = false;  // each sequence is in order in any case
  return read_fields(m, "oldest",
                     {number("max_candidate_sequences", &out->candidates, 1, 1000000),
                      numbers("preferred_batch_size", &out->preferred, 1, 65536),
                      number("max_queue_delay_microseconds", &out->max_queue_delay_us, 0, 60000000),
                      flag("preserve_ordering", &order)});
}

Status read_direct(const TextMessage& m, SequenceConfig* out) {
  return read_fields(m, "direct",
                     {number("max_queue_delay_microseconds", &out->max_queue_delay_us, 0, 60000000),
                      real("minimum_slot_utilization", &out->minimum_utilization, 0, 1)});
}

Status check_sequences(const ModelConfig& c) {
  const SequenceConfig& s = *c.sequences;
  if (c.batching) return invalid("dynamic_batching and sequence_batching: a model has one of them");
  if (c.response_cache)
    return invalid(
               "response_cache and sequence_batching exclude each other: a response depends on the requests before it")
        .advise("take response_cache out");
  std::vector<std::string> names;
  for (const ControlConfig& k : s.controls) names.push_back(k.input);
  for (const StateConfig& k : s.states) names.push_back(k.input);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return invalid("sequence_batching gives the input '%s' twice", twice->c_str());
  for (const int64_t p : s.preferred)
    if (p > std::max<int64_t>(c.max_batch_size, 1))
      return invalid("preferred_batch_size %lld is above max_batch_size %lld", static_cast<long long>(p),
                     static_cast<long long>(c.max_batch_size));
  for (const PortConfig& p : c.inputs)
    if (p.ragged)
      return invalid("input '%s': allow_ragged_batch and sequence_batching exclude each other", p.name.c_str());
  if (!c.batch_inputs.empty() || !c.batch_outputs.empty())
    return invalid("batch_input and batch_output cannot be used with sequence_batching");
  return Ok{};
}

Status check_dynamic(const ModelConfig& c) {
  const BatchingConfig& b = *c.batching;
  for (const int64_t p : b.preferred)
    if (p > std::max<int64_t>(c.max_batch_size, 1))
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
}  // namespace

std::string_view control_name(ControlConfig::Kind kind) { return kControlNames[static_cast<size_t>(kind)]; }
std::string_view batch_input_name(BatchInputConfig::Kind kind) { return kBatchInputNames[static_cast<size_t>(kind)]; }

Status read_sequences(const TextMessage& m, SequenceConfig* out) {
  bool direct = false;
  PERI_TRY(
      read_fields(m, "sequence_batching",
                  {number("max_sequence_idle_microseconds", &out->idle_us, 0, kMaxNumber),
                   inner("control_input", [=](const TextMessage& v) { return read_control_input(v, &out->controls); }),
                   inner("state", [=](const TextMessage& v) { return read_state(v, &out->states.emplace_back()); }),
                   one("direct",
                       [&](const TextMessage& v) {
                         direct = true;
                         return read_direct(v, out);
                       }),
                   one("oldest",
                       [=](const TextMessage& v) {
                         out->oldest = true;
                         return read_oldest(v, out);
                       }),
                   off("iterative_sequence", "take it out: clients send the requests of a sequence"),
                   off("generative_sequence", "take it out: clients send the requests of a sequence")}));
  if (direct && out->oldest) return invalid("sequence_batching is direct or oldest, not both");
  return Ok{};
}

Status read_batch_input(const TextMessage& m, BatchInputConfig* out) {
  std::vector<std::string> targets, sources;
  PERI_TRY(read_fields(
      m, "batch_input",
      {choice("kind", {std::begin(kBatchInputNames), std::end(kBatchInputNames)},
              [=](size_t k) { out->kind = static_cast<BatchInputConfig::Kind>(k); }),
       texts("target_name", &targets), word("data_type", &out->data_type), texts("source_input", &sources)}));
  if (targets.size() != 1 || sources.size() != 1)
    return invalid("a batch_input takes one target_name and one source_input");
  out->target = targets[0];
  out->source = sources[0];
  return Ok{};
}

Status read_batch_output(const TextMessage& m, std::vector<BatchOutputConfig>* out) {
  std::vector<std::string> targets, sources;
  PERI_TRY(read_fields(m, "batch_output",
                       {choice("kind", {"BATCH_SCATTER_WITH_INPUT_SHAPE"}, [](size_t) {}),
                        texts("target_name", &targets), texts("source_input", &sources)}));
  if (targets.empty() || sources.size() != 1) return invalid("a batch_output takes target_name and one source_input");
  for (std::string& t : targets) out->push_back({std::move(t), sources[0]});
  return Ok{};
}

Status check_scheduling(const ModelConfig& c) {
  for (const PortConfig& p : c.inputs)
    if (p.ragged && c.max_batch_size == 0)
      return invalid("input '%s': allow_ragged_batch needs a max_batch_size above 0", p.name.c_str());
  if (c.max_batch_size == 0 && (!c.batch_inputs.empty() || !c.batch_outputs.empty()))
    return invalid("batch_input and batch_output need a max_batch_size above 0");
  if (c.sequences) PERI_TRY(check_sequences(c));
  return c.batching ? check_dynamic(c) : Status(Ok{});
}

}  // namespace peri::serve
