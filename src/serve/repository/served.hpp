// A served version of a model.
#pragma once

#include "serve/config/model_config.hpp"
#include "serve/queue/model.hpp"
#include "text/pipeline.hpp"

namespace peri::serve {

// A request with the answer recorded when the model was loaded; none: no valid inputs could be generated.
struct Canary {
  std::vector<Tensor> inputs, outputs;
};

// A version that accepts requests.
struct Served {
  std::unique_ptr<Model> model;
  ModelConfig config;
  std::string note, backend;
  std::map<std::string, std::string> told;                 // further parameters of the configuration that clients read
  std::shared_ptr<const text::TextPipeline> text;          // null: no tokenizer
  std::map<std::string, std::vector<std::string>> labels;  // of classes, by output
  int64_t memory_bytes = 0;
  Canary canary;
  uint64_t stamp = 0;
};
using ServedPtr = std::shared_ptr<const Served>;
// A served version, "": the latest; null: there is none, and `why`, unless it is null, says why.
using FindModel = std::function<ServedPtr(const std::string& name, const std::string& version, std::string* why)>;

}  // namespace peri::serve
