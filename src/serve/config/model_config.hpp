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
  std::vector<int64_t> dims;  // -1: any; without the batch's axis where there is one
  // Dims that the model has where they are not those of clients; both name the same number of elements.
  std::optional<std::vector<int64_t>> reshape = {};
  bool ragged = false;      // allow_ragged_batch: requests of other dims are put end to end
  std::string labels = {};  // of an output: a file of the model's folder, a line for each class
};

// A tensor that the server makes for the model, of what a batch is made of.
struct BatchInputConfig {
  enum class Kind : uint8_t { kCount, kSum, kSumWithZero, kMaxAsShape, kItemShape, kItemShapeFlat };
  Kind kind = Kind::kCount;
  std::string target, data_type, source;
};
std::string_view batch_input_name(BatchInputConfig::Kind kind);  // "BATCH_ELEMENT_COUNT"

// An output of the elements of an input: each request gets as many as it gave, in the input's dims.
struct BatchOutputConfig {
  std::string target, source;
};

struct VersionPolicy {
  enum class Kind : uint8_t { kLatest, kAll, kSpecific } kind = Kind::kLatest;
  int64_t latest = 1;
  std::vector<int64_t> specific;
  // Which of the versions present are served.
  std::vector<int64_t> choose(std::vector<int64_t> present) const;
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

// What a model is told of a request's place in its sequence.
struct ControlConfig {
  enum class Kind : uint8_t { kStart, kReady, kEnd, kCorrelation };
  Kind kind = Kind::kStart;
  std::string input, data_type;
  double no = 0, yes = 1;  // of all but kCorrelation
};
std::string_view control_name(ControlConfig::Kind kind);  // "CONTROL_SEQUENCE_START"

// A tensor that a model hands to itself, from each request of a sequence to the next.
struct StateConfig {
  std::string input, output, data_type;
  std::vector<int64_t> dims;
  std::vector<int64_t> initial_dims;  // empty: `dims`, a free one as 1
  std::string initial_file;           // of the model's folder initial_state/; "": zeros
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
    std::string file;  // of the model's folder warmup/, its bytes one sample; "": zeros, or random
  };
  std::vector<Input> inputs;
};

// Instances that run in the same places.
struct InstanceGroup {
  int64_t count = 1;          // on each device
  std::vector<int64_t> gpus;  // empty: all that there are
};

// Copies of a resource that a run holds from its beginning to its end; models that name it share them.
struct ResourceClaim {
  std::string name;
  bool global = false;  // else each device has copies of its own
  int64_t count = 1;
  bool operator==(const ResourceClaim&) const = default;
};
struct RateLimit {
  std::vector<ResourceClaim> claims;
  int64_t priority = 1;  // 2: half of the turns of 1
  bool operator==(const RateLimit&) const = default;
};

struct EnsembleStep {
  std::string model, version;                  // "": the latest
  std::map<std::string, std::string> inputs;   // of the model, and the tensor that each is
  std::map<std::string, std::string> outputs;  // likewise
};

struct ModelConfig {
  std::string name, platform, backend, default_model_filename;
  int64_t max_batch_size = 0;  // 0: the model's first axis is an axis like any other
  std::vector<PortConfig> inputs, outputs;
  VersionPolicy versions;
  std::vector<BatchInputConfig> batch_inputs;
  std::vector<BatchOutputConfig> batch_outputs;
  std::vector<InstanceGroup> groups;  // empty: not said
  RateLimit rate_limit;
  enum class Urgency : uint8_t { kUsual, kMost, kLeast } urgency = Urgency::kUsual;
  enum class Device : uint8_t { kAny, kCpu, kGpu } device = Device::kAny;
  std::optional<BatchingConfig> batching;
  std::optional<SequenceConfig> sequences;
  std::vector<EnsembleStep> steps;  // of an ensemble; none: it is a model
  int64_t most_in_flight = 0;       // requests of an ensemble at each of its steps; 0: no bound
  bool response_cache = false;
  std::vector<WarmupConfig> warmups;
  // Obeyed: "threads" (of an instance), "batch_answers" ("identical", the default, or "bounded"). Others are given
  // back.
  std::map<std::string, std::string> parameters;
  std::vector<std::string> notes;  // what of it was read and changes nothing, for people
  std::string text;                // what all this was read from, and how
  bool yaml = false;
  // Whether its requests may share a run.
  bool wants_batches() const { return max_batch_size > 0 && (batching || sequences); }
  int64_t instances() const;                // 0: not said
  int64_t instances_on(int64_t gpu) const;  // of them
  std::vector<int64_t> gpus() const;        // that groups name
  double weight() const;                    // of its runs' time among models that take turns; 1 is usual, less is more
};

// Where a configuration's text is from: a client chooses no files of the model's folder.
enum class ConfigFrom : uint8_t { kFolder, kClient };
// A file that ends with .yaml is YAML. Errors name `file`, line, key, and what is known there.
Result<ModelConfig> parse_model_config(std::string_view text, const std::string& file,
                                       ConfigFrom from = ConfigFrom::kFolder);

}  // namespace peri::serve
