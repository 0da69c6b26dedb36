// The parts of a configuration about where a model runs and its share of a device: instances, GPUs, the rate limiter,
// priority.
#pragma once

#include "serve/config/model_config.hpp"

namespace peri::serve {

Status read_instances(const TextMessage& message, ModelConfig* out);
Status read_optimization(const TextMessage& message, ModelConfig* out);

}  // namespace peri::serve
