// Stores engines for repeated builds of the same request, keyed by the files of the model and by everything else that
// an engine depends on. Any difference gives another key.
#pragma once

#include "build/request.hpp"

namespace peri::build {

// Everything that an engine depends on except the bytes of its model: the request, outside kernels, choices by the
// environment, this program and this machine. Errors: those of options_of().
Result<std::string> engine_terms(const Request& request);

// The file for the engine of a model whose files have this stamp; "": none is stored, since there is no folder for it,
// or its limit is 0, or the request needs the build itself (--no-cache, --dump-passes). With --retune it is written and
// not read.
Result<std::string> kept_engine(const Request& request, uint64_t stamp);

}  // namespace peri::build
