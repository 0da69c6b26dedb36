// The parts of a configuration about scheduling: queues, sequences, ragged batches.
#pragma once

#include "serve/config/model_config.hpp"

namespace peri::serve {

Status read_batching(const TextMessage& message, BatchingConfig* out);
Status read_sequences(const TextMessage& message, SequenceConfig* out);
Status read_batch_input(const TextMessage& message, BatchInputConfig* out);
Status read_batch_output(const TextMessage& message, std::vector<BatchOutputConfig>* out);
// Checks these parts against each other and the rest. Checks against the model: Form::make().
Status check_scheduling(const ModelConfig& config);

}  // namespace peri::serve
