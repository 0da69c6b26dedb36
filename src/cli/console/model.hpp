// What many subcommands share: flags of a build, opening a model or an engine, inputs from files or seeds, outputs to
// files.
#pragma once

#include <memory>
#include <optional>

#include "base/file.hpp"
#include "build/build.hpp"
#include "cli/console/terminal.hpp"
#include "cli/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace peri::cli {

// Flags every command that may build takes: --dims, --shapes, --threads, --backend, --provider, --disable-pass,
// --no-tune, ...
std::vector<Flag> build_flags(std::vector<Flag> more = {});
Result<compile::Options> build_options(const Arguments& arguments, const std::string& model, Progress* progress);
Result<int> thread_count(const Arguments& arguments);

// An engine ready to run, from an engine file, or built in memory from a model.
struct Opened {
  std::shared_ptr<const runtime::Engine> engine;
  std::optional<compile::Compiled> compiled;  // set if it was built now
  std::shared_ptr<const MappedFile> file;     // set if it was loaded
  double load_ms = 0;
};
// With --check an engine's weights are hashed first.
Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress);
// Says in one line that a run has other dims than the engine was tuned for, and the command that tunes for them.
// Returns whether it has.
bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims);
// What our engines are run by.
runtime::ExecutorTable executors();
// Builds and judges the engine as a whole, unless the options leave verification out. An interruption gives the best so
// far.
Result<build::Built> build_whole(const compile::Options& options, Progress* progress);
// Compiles, and judges no engine; an interruption is an error (kCancelled), not an engine tuned in part.
Result<compile::Compiled> compile_whole(const compile::Options& options, Progress* progress);
bool is_engine(const std::string& path);  // a regular file that begins like an engine
// What compile() made, ready to run. Takes the weights of `compiled`.
Result<std::shared_ptr<const runtime::Engine>> assemble(compile::Compiled* compiled, int threads);
Result<std::shared_ptr<const runtime::Engine>> engine_of(plan::LoadedEngine loaded, int threads);
Result<std::shared_ptr<const runtime::Engine>> load_engine_file(const std::string& path, int threads,
                                                                std::shared_ptr<const MappedFile>* file);

// Inputs of a program: --input NAME=FILE (.npy, .pb) or NAME=random:SEED; the rest is an error, or random if
// `fill_seed` is set, with dims from `dims`.
Result<std::vector<Tensor>> read_inputs(const Arguments& arguments, const plan::Program& program,
                                        std::optional<uint64_t> fill_seed);
// A seeded input for a port: floats normal; integers in [0, range) where the name says "mask": ones.
Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed);
// Concrete values for every dimension of the program's inputs from --dims/--shapes, else what it was tuned for.
Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program);

// Writes DIR/NAME.npy for every output, and DIR/outputs.json. DIR is made if it does not exist.
Status write_outputs(const std::string& dir, const plan::Program& program, std::span<const Tensor> outputs);

}  // namespace peri::cli
