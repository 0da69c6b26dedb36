// The proof of an engine: where and how it was built, what was verified, and every choice with its alternatives.
#pragma once

#include "base/file_uses.hpp"
#include "build/build.hpp"

namespace peri::build {

// Raised when a member of a proof changes its name or meaning.
constexpr int kProofForm = 5;

// Member "on_host": what the host runs beside the backend's device, why, and what copies for it take.
void write_on_host(JsonWriter& w, const compile::Compiled& compiled);

// Bytes of workspace of each step on a device, as they were measured; -1: not known, and counted nowhere.
std::vector<int64_t> workspaces(const compile::Compiled& compiled);

// One JSON object. Stands beside the engine as ENGINE.proof, whose hash it names; none: the engine stays in memory.
// Measures what this machine sustains, unless the timing cache knows it.
std::string proof_json(const build::Built& built, const compile::Options& options,
                       std::optional<uint64_t> engine_hash = {});
std::string proof_path(const std::string& engine);  // beside the file that links lead to
extern const FileKind kProofFile;
// The proof beside an engine. Errors: kIo if there is none, kUnsupported if it is of another form, kRefused if it is
// another engine's.
Result<Json> read_proof(const std::string& engine);
// "" or, where the proof is not that of the engine, both of their hashes in words. Errors: the engine's.
Result<std::string> another_engines(const Json& proof, const std::string& engine);
// A proof by its own name, whatever engine it is of.
Result<Json> read_proof_file(const std::string& path);
// A step as it stands in the proof. `begun`: what was known before that second is of an earlier build.
void write_step(JsonWriter& w, const lower::StepReport& step, int64_t begun);

// When the engine as a whole was judged, in words.
std::string judged_when(const judge::EngineVerdict& verdict);
// Steps by what was done to them: in words for one, counted for all. Copies between devices are no choices.
std::string verified_when(const lower::StepReport& step, int64_t begun);
std::string measured_when(const lower::StepReport& step, int64_t begun);
struct StepsDone {
  int64_t steps = 0, verified = 0, measured = 0;
  int64_t by_definition = 0;        // of the verified ones: the reference itself
  int64_t earlier = 0, oldest = 0;  // known from an earlier build; the first second of that, 0: not told
};
StepsDone steps_done(const compile::Compiled& compiled);

}  // namespace peri::build
