// ModelConfig: the content of a config.pbtxt, in the subset of Triton's keys that is supported. A key that is unknown
// or unsupported is an error that names it and its line.
#pragma once

#include <map>
#include <optional>

#include "serve/config/text_proto.hpp"

namespace peri::serve {

struct PortConfig {
  std::string name;
  std::string data_type;      // "TYPE_FP32"
  std::vector<int64_t> dims;  // -1: any; without the batch axis if there is one
  // The model's dims where they differ from those of clients; both have the same number of elements.
  std::optional<std::vector<int64_t>> reshape = {};
  bool ragged = false;      // allow_ragged_batch: requests of different dims are concatenated
  std::string labels = {};  // for an output: a file in the model's folder with one line per class
};

// A tensor that the server makes for the model, with properties of a batch.
struct BatchInputConfig {
  enum class Kind : uint8_t { kCount, kSum, kSumWithZero, kMaxAsShape, kItemShape, kItemShapeFlat };
  Kind kind = Kind::kCount;
  std::string target, data_type, source;
};
std::string_view batch_input_name(BatchInputConfig::Kind kind);  // "BATCH_ELEMENT_COUNT"

// An output with the elements of an input: each request gets as many as it sent, in the input's dims.
struct BatchOutputConfig {
  std::string target, source;
};

struct VersionPolicy {
  enum class Kind : uint8_t { kLatest, kAll, kSpecific } kind = Kind::kLatest;
  int64_t latest = 1;
  std::vector<int64_t> specific;
  // The versions to serve among those present.
  std::vector<int64_t> choose(std::vector<int64_t> present) const;
  // Where it chooses none: which are there, which are not, and what to do.
  std::string why_none(std::vector<int64_t> present) const;
};

struct QueueConfig {
  bool delay = false;  // timeout_action DELAY
  int64_t default_timeout_us = 0;
  bool allow_timeout_override = false;
  int64_t max_queue_size = 0;
};

struct BatchingConfig {
  std::vector<int64_t> preferred;
  int64_t max_queue_delay_us = 0;
  bool preserve_ordering = false;
  int64_t priority_levels = 0, default_priority_level = 0;
  QueueConfig queue;
  std::map<int, QueueConfig> priority_queues;
};

// What a model gets of a request's position in its sequence.
struct ControlConfig {
  enum class Kind : uint8_t { kStart, kReady, kEnd, kCorrelation };
  Kind kind = Kind::kStart;
  std::string input, data_type;
  double no = 0, yes = 1;  // of all except kCorrelation
};
std::string_view control_name(ControlConfig::Kind kind);  // "CONTROL_SEQUENCE_START"

// A tensor that a model passes to itself, from each request of a sequence to the next.
struct StateConfig {
  std::string input, output, data_type;
  std::vector<int64_t> dims;
  std::vector<int64_t> initial_dims;  // empty: `dims`, with 1 for a free one
  std::string initial_file;           // in the model's folder initial_state/; "": zeros
};

struct SequenceConfig {
  int64_t idle_us = 0;  // 0: a second
  bool oldest = false;  // else direct
  int64_t candidates = 1, max_queue_delay_us = 0;
  double minimum_utilization = 0;
  std::vector<int64_t> preferred;
  std::vector<ControlConfig> controls;
  std::vector<StateConfig> states;
};

struct WarmupConfig {
  std::string name;
  int64_t batch_size = 0, count = 1;
  struct Input {
    PortConfig port;
    bool random = false;
    std::string file;  // in the model's folder warmup/, with the bytes of one sample; "": zeros, or random
  };
  std::vector<Input> inputs;
};

// Hints of `optimization` as they were stated; of them `urgency` of ModelConfig has an effect.
struct OptimizationConfig {
  std::optional<bool> graphs, pinned_input, pinned_output;
};

// Instances with the same placement.
struct InstanceGroup {
  int64_t count = 1;          // per device
  std::vector<int64_t> gpus;  // empty: all available ones
};

// Units of a resource that a run holds from begin to end; models that name it share them.
struct ResourceClaim {
  std::string name;
  bool global = false;  // else each device has its own
  int64_t count = 1;
  bool operator==(const ResourceClaim&) const = default;
};
struct RateLimit {
  std::vector<ResourceClaim> claims;
  int64_t priority = 1;  // 2: half as many turns as 1
  bool operator==(const RateLimit&) const = default;
};

struct EnsembleStep {
  std::string model, version;                  // "": the latest
  std::map<std::string, std::string> inputs;   // of the model, and the tensor for each
  std::map<std::string, std::string> outputs;  // likewise
};

struct ModelConfig {
  std::string name, platform, backend, default_model_filename;
  int64_t max_batch_size = 0;  // 0: the model's first axis is not a batch
  std::vector<PortConfig> inputs, outputs;
  VersionPolicy versions;
  std::vector<BatchInputConfig> batch_inputs;
  std::vector<BatchOutputConfig> batch_outputs;
  std::vector<InstanceGroup> groups;  // empty: not stated
  RateLimit rate_limit;
  enum class Urgency : uint8_t { kUsual, kMost, kLeast } urgency = Urgency::kUsual;
  enum class Device : uint8_t { kAny, kCpu, kGpu } device = Device::kAny;
  std::optional<OptimizationConfig> optimization;
  std::optional<BatchingConfig> batching;
  std::optional<SequenceConfig> sequences;
  std::vector<EnsembleStep> steps;  // of an ensemble; empty: not an ensemble
  int64_t most_in_flight = 0;       // requests of an ensemble at each of its steps; 0: unlimited
  bool response_cache = false;
  std::vector<WarmupConfig> warmups;
  // Supported: "threads" (per instance), "batch_answers" ("identical", the default, or "bounded"). Others are returned
  // unchanged.
  std::map<std::string, std::string> parameters;
  std::vector<std::string> notes;  // parts that were read and have no effect, for users
  std::string text;                // the source text
  bool yaml = false;
  // Whether its requests may share a run.
  bool wants_batches() const { return max_batch_size > 0 && (batching || sequences); }
  int64_t instances() const;                // 0: not stated
  int64_t instances_on(int64_t gpu) const;  // of them
  std::vector<int64_t> gpus() const;        // named by groups
  double weight() const;                    // factor on its run time where models take turns: lower gets more
};

// The source of a configuration's text: one from a client cannot name files of the model's folder.
enum class ConfigFrom : uint8_t { kFolder, kClient };
// A file name with the suffix .yaml is YAML. Errors name `file`, line, key, and the known keys.
Result<ModelConfig> parse_model_config(std::string_view text, const std::string& file,
                                       ConfigFrom from = ConfigFrom::kFolder);

}  // namespace peri::serve
