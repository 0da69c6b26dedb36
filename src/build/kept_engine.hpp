// Engines that were built are kept for who asks for the same again: by the files of the model, and by all else that an
// engine hangs on. What differs in anything of it is another engine.
#pragma once

#include "build/request.hpp"

namespace peri::build {

// All that an engine hangs on but the bytes of its model: what is asked for, kernels from outside, what the environment
// chooses, this program and this machine. Errors: those of options_of().
Result<std::string> engine_terms(const Request& request);

// The file of the engine of a model whose files have this stamp; "": none is kept, since there is no folder for it, or
// the request wants the build itself (--no-cache, --dump-passes). With --retune it is written and not read.
Result<std::string> kept_engine(const Request& request, uint64_t stamp);

struct KeptFacts {
  int64_t engines = 0, bytes = 0;  // with their proofs
};
KeptFacts kept_facts(const std::string& cache_folder);
// Deletes kept engines with their proofs and nothing else; returns how many bytes went. Errors: kIo for one that stays.
Result<int64_t> clear_kept(const std::string& cache_folder);

}  // namespace peri::build
