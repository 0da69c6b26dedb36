// Whether the steps of an ensemble fit its models: every tensor produced once and used, every input of every step
// present with its type, no cycle, the types and constant dimensions of both ends of each tensor equal, and no batch
// larger than a step's model takes.
#pragma once

#include <vector>

#include "plan/program.hpp"
#include "serve/config/model_config.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

struct EnsemblePorts {
  std::vector<plan::Port> inputs, outputs;
};

// The ports of an ensemble whose steps fit the models that are served now. Errors, with step, tensor and expectation:
// kInvalid; kRefused: a step's model is not served.
Result<EnsemblePorts> fit(const ModelConfig& config, const FindModel& find);

// Whether a tensor of shape `a` may have shape `b`: constant dims must be equal.
bool may_be(const Shape& a, const Shape& b);

}  // namespace peri::serve
