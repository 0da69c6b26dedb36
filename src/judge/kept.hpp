// Verdicts about whole engines as text, for caching. Only a verdict that the engine is right, as far as its judge can
// tell on any run, is stored, and only such a one is read back.
#pragma once

#include "base/json.hpp"
#include "judge/engine.hpp"

namespace peri::judge {

// The engine is right, at its tuned size too, and what was left out is left out in each run of this judge.
bool is_lasting(const EngineVerdict& verdict);
// REQUIRES is_lasting(verdict).
std::string verdict_text(const EngineVerdict& verdict);
// Strict. Errors: kInvalid for what verdict_text() does not write: no size, an error beyond its bound, bits that
// differ, a time to come. The verdict is one of an earlier build.
Result<EngineVerdict> read_verdict(const Json& json);

}  // namespace peri::judge
