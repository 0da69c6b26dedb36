// The proof of an engine: where and how it was built, what was verified, and every choice with what it was chosen from.
#pragma once

#include "build/build.hpp"

namespace peri::build {

// Raised when a member of a proof changes its name or meaning.
constexpr int kProofForm = 3;

// One JSON object. Stands beside the engine as ENGINE.proof. Measures what this machine sustains, unless the timing
// cache knows it.
std::string proof_json(const build::Built& built, const compile::Options& options);
std::string proof_path(const std::string& engine);
// The proof beside an engine. Errors: kIo if there is none, kUnsupported if it is of another form.
Result<Json> read_proof(const std::string& engine);
// A step as it stands in the proof.
void write_step(JsonWriter& w, const lower::StepReport& step);

}  // namespace peri::build
