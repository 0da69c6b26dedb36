// Finds the ragged batches in which each request's output is bit-identical to a run of that request alone.
#pragma once

#include "build/batch_check.hpp"
#include "serve/queue/form.hpp"

namespace peri::build {

// On seeded requests of different lengths. REQUIRES: form.ragged().
BatchCheck check_ragged(runtime::EngineServable& model, const serve::Form& form, int64_t most, double seconds);

}  // namespace peri::build
