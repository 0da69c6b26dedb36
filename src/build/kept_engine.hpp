// Stores engines for repeated builds of the same request, keyed by the files of the model and by everything else that
// an engine depends on. Any difference means another engine.
#pragma once

#include "build/request.hpp"

namespace peri::build {

// All that an engine hangs on but the bytes of its model: what is asked for, kernels from outside, what the environment
// chooses, this program and this machine. Errors: those of options_of().
Result<std::string> engine_terms(const Request& request);

// The file of the engine of a model whose files have this stamp; "": none is kept, since there is no folder for it, or
// its limit is 0, or the request wants the build itself (--no-cache, --dump-passes). With --retune it is written and
// not read.
Result<std::string> kept_engine(const Request& request, uint64_t stamp);

}  // namespace peri::build
