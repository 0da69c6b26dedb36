// Which ragged batches of an engine answer each request bit for bit as a run of that request alone.
#pragma once

#include "build/batch_check.hpp"
#include "serve/queue/form.hpp"

namespace peri::build {

// On seeded requests of unlike lengths. REQUIRES: form.ragged().
BatchCheck check_ragged(runtime::EngineServable& model, const serve::Form& form, int64_t most, double seconds);

}  // namespace peri::build
