// Verdicts about whole engines as text, for caching. Only a verdict that the engine is correct, as far as its judge can
// determine in any run, is stored, and only such a verdict is read back.
#pragma once

#include "base/json.hpp"
#include "judge/engine.hpp"

namespace peri::judge {

// The engine is correct, including at its tuned size, and what was skipped is skipped in each run of this judge.
bool is_lasting(const EngineVerdict& verdict);
// REQUIRES is_lasting(verdict).
std::string verdict_text(const EngineVerdict& verdict);
// Strict. Errors: kInvalid for what verdict_text() does not write: no size, an error beyond its bound, bits that
// differ, a time in the future. The verdict is marked as one of an earlier build.
Result<EngineVerdict> read_verdict(const Json& json);

}  // namespace peri::judge
