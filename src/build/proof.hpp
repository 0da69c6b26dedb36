// The proof of an engine: where and how it was built, what was verified, and every choice with its alternatives.
#pragma once

#include "base/file_uses.hpp"
#include "build/build.hpp"

namespace peri::build {

// Increased when a member of a proof changes its name or meaning.
constexpr int kProofForm = 5;

// Member "on_host": the steps on the host beside the backend's device, the reasons, and the time of copies for them.
void write_on_host(JsonWriter& w, const compile::Compiled& compiled);

// Bytes of workspace of each step, as planned, or, of a library's call on a device, as measured; -1: unknown, and not
// counted.
std::vector<int64_t> workspaces(const compile::Compiled& compiled);

// One JSON object. Written beside the engine as ENGINE.proof, whose hash it contains; none: the engine stays in memory.
// Measures the peaks of this machine, unless the timing cache has them.
std::string proof_json(const build::Built& built, const compile::Options& options,
                       std::optional<uint64_t> engine_hash = {});
std::string proof_path(const std::string& engine);  // next to the file that links resolve to
extern const FileKind kProofFile;
// The proof beside an engine. Errors: kIo if there is none, kUnsupported if it has another form, kRefused if it belongs
// to another engine.
Result<Json> read_proof(const std::string& engine);
// "" or, where the proof is not that of the engine, a text with both hashes. Errors: the engine's.
Result<std::string> another_engines(const Json& proof, const std::string& engine);
// A proof by its own path, without a check of its engine.
Result<Json> read_proof_file(const std::string& path);
// What a claim about a step rests on besides the step itself.
struct Grounds {
  int64_t begun = 0;    // evidence older than that second is of an earlier build
  bool judged = false;  // the engine as a whole was run and judged, at one size at least
};
Grounds grounds_of(const Built& built);
// A step's object in the proof.
void write_step(JsonWriter& w, const lower::StepReport& step, const Grounds& grounds);

// When the whole engine was judged, in words; at a limit of the model, or of this machine, it was not.
constexpr const char* kNotJudged = "no";
std::string judged_when(const judge::EngineVerdict& verdict);
// The kind of verification: in words for one step, counted for all. Copies between devices are not choices.
std::string verified_when(const lower::StepReport& step, const Grounds& grounds);
std::string measured_when(const lower::StepReport& step, int64_t begun);
struct StepsDone {
  int64_t steps = 0, verified = 0, measured = 0;
  int64_t in_bodies = 0;            // of `steps`: in bodies of loops and branches, each once however often it runs
  int64_t by_definition = 0;        // of the verified ones: run by the reference itself
  int64_t in_runs = 0;              // of the verified ones: in runs of the engine, never alone
  int64_t earlier = 0, oldest = 0;  // known from an earlier build; its first second, 0: unknown
};
StepsDone steps_done(const Built& built);
// Steps in bodies of loops and branches, at any depth; program.steps has none of them.
int64_t body_steps(const compile::Compiled& compiled);
// "2 steps", or of a run with bodies "2 steps and 3 in bodies of loops and branches".
std::string steps_text(int64_t of_run, int64_t in_bodies);
// Both together: "5 steps (3 in bodies)".
std::string all_steps_text(int64_t steps, int64_t in_bodies);
// "16 steps verified in runs of the whole engine, none alone": where the judge of the engine alone verified them.
std::string judged_whole_text(int64_t steps, int64_t in_bodies);

}  // namespace peri::build
