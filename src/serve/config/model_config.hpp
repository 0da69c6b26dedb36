// ModelConfig: what config.pbtxt says of a model, in the subset of Triton's that means something here. A key that is
// not known, or means nothing here, is an error that names it and its line.
#pragma once

#include <map>
#include <optional>

#include "serve/config/text_proto.hpp"

namespace peri::serve {

struct PortConfig {
  std::string name;
  std::string data_type;      // "TYPE_FP32"
  std::vector<int64_t> dims;  // -1: any; without the batch's axis where there is one
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
  int64_t instances = 0;  // 0: not said
  std::optional<BatchingConfig> batching;
  std::vector<EnsembleStep> steps;  // of an ensemble; none: it is a model
  bool response_cache = false;
  std::vector<WarmupConfig> warmups;
  // Known: "threads" (of an instance), "batch_answers" ("identical", the default, or "bounded").
  std::map<std::string, std::string> parameters;
};

// A file that ends with .yaml is YAML. Errors name `file`, line, key, and what is known there.
Result<ModelConfig> parse_model_config(std::string_view text, const std::string& file);

}  // namespace peri::serve
