// Shared by many subcommands: the flags of a build, opening a model or an engine, inputs from files or seeds, outputs
// to files.
#pragma once

#include <memory>
#include <optional>

#include "build/open.hpp"
#include "build/request.hpp"
#include "cli/console/terminal.hpp"
#include "cli/entry.hpp"

namespace peri::cli {

// Flags every command that may build takes: --dims, --shapes, --dtype, --threads, --no-tune, ... `first` stand before
// them in help, `last` behind.
std::vector<Flag> build_flags(std::vector<Flag> first = {}, const std::vector<Flag>& last = {});
// What the flags ask of a build of `model`.
Result<build::Request> build_request(const Arguments& arguments, const std::string& model, Progress* progress);
Result<int> thread_count(const Arguments& arguments);
// --max-iterations: of a loop in a run.
Result<int64_t> iteration_limit(const Arguments& arguments);

// What of the flags of a build an engine obeys when it runs: the sizes of random inputs, and threads.
inline constexpr std::string_view kRunFlags[] = {"--device",     "--dims",   "--kernel", "--max-iterations",
                                                 "--opt-shapes", "--shapes", "--threads"};
// kUsage for a flag of a build that is given with an engine and is none of these.
Status check_engine_flags(const Arguments& arguments, std::span<const std::string_view> obeyed);
// kUsage for sizes given beside an engine's inputs that have sizes of their own. `used`: an input took them.
Status check_sizes_used(const Arguments& arguments, bool used);

// An engine ready to run, from an engine file, or built in memory from a model.
struct Opened {
  std::shared_ptr<const runtime::Engine> engine;
  std::optional<compile::Compiled> compiled;  // set if it was built now
  std::shared_ptr<const MappedFile> file;     // set if it was loaded
  double load_ms = 0;
};
// With --check an engine's weights are hashed first. `all_inputs`: a model is not built unless --input gives every
// input.
Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress,
                          bool all_inputs = false);
// Says in one line that a run has other dims than the engine was tuned for, and the command that tunes for them.
// Returns whether it has.
bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims);
// Inputs of a program: --input NAME=FILE (tensors, pictures, raw bytes) or NAME=random:SEED; the rest is an error, or
// random if `fill_seed` is set, with dims from `dims`.
Result<std::vector<Tensor>> read_inputs(const Arguments& arguments, const plan::Program& program,
                                        std::optional<uint64_t> fill_seed);
// What is wrong with --input whatever the model: a word that names no source, a seed that is none, a file that cannot
// be read. Asked before the work.
Status check_input_words(const Arguments& arguments);
// Whether what --input gives are the model's inputs, files in their types and sizes. `all`: none may be left out.
Status check_inputs(const Arguments& arguments, const ir::Graph& graph, bool all);
// Shapes of the files that --input names; one that cannot be read says so when it is.
std::vector<compile::InputShape> input_shapes(const Arguments& arguments);
// Concrete values for every dimension of the program's inputs from --dims/--shapes, else what it was tuned for.
Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program);

// Checks before a run that what --output-dir will hold replaces no file of another kind and none that is read.
Status check_outputs(const Command& command, const Arguments& arguments, const plan::Program& program);
// Writes DIR/NAME.npy for every output, and DIR/outputs.json. DIR is made if it does not exist.
Status write_outputs(const std::string& dir, const plan::Program& program, std::span<const Tensor> outputs);

}  // namespace peri::cli
