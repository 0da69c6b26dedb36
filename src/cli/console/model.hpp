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

// Flags of each command that may build: --dims, --shapes, --dtype, --threads, --no-tune, ... In help `first` precede
// them and `last` follow.
std::vector<Flag> build_flags(std::vector<Flag> first = {}, const std::vector<Flag>& last = {});
// The build options for `model` from the flags.
Result<build::Request> build_request(const Arguments& arguments, const std::string& model, Progress* progress);
Result<int> thread_count(const Arguments& arguments);
// --max-iterations: limit of one loop in one run; 0: not given, an engine has its own.
Result<int64_t> iteration_limit(const Arguments& arguments);
// Says where the flag is given and an engine has no loop; of a model that is built its notes say it.
void note_no_loop(const Arguments& arguments, const plan::Program& program);

// Flags of a build that also apply when an engine is run: sizes of random inputs, threads.
inline constexpr std::string_view kRunFlags[] = {"--device",     "--dims",   "--kernel", "--max-iterations",
                                                 "--opt-shapes", "--shapes", "--threads"};
// Errors: kUsage: a flag of a build that is given with an engine and is not in `obeyed`.
Status check_engine_flags(const Arguments& arguments, std::span<const std::string_view> obeyed);
// Errors: kUsage: sizes are given and no input uses them. `used`: an input used them.
Status check_sizes_used(const Arguments& arguments, bool used);

// An engine ready to run, from an engine file, or built in memory from a model.
struct Opened {
  std::shared_ptr<const runtime::Engine> engine;
  std::optional<compile::Compiled> compiled;  // set if it was built now
  std::shared_ptr<const MappedFile> file;     // set if it was loaded
  double load_ms = 0;
};
// With --check an engine's weights are verified by hash first. `all_inputs`: refuses to build a model unless --input
// gives every input.
// What a model, or a file that is missing, makes of --check.
Status check_is_for_engines(const Arguments& arguments, const std::string& path);
Result<Opened> open_model(const Arguments& arguments, const std::string& path, Progress* progress,
                          bool all_inputs = false);
// Notes in one line that a run has other dims than the engine was tuned for, with the command that tunes for them.
// Returns whether this is the case.
bool note_untuned(const Arguments& arguments, const Opened& opened, const DimBinding& dims);
// Inputs of a program: --input NAME=FILE (tensors, pictures, raw bytes) or NAME=random:SEED; the rest is an error, or
// random if `fill_seed` is set, with dims from `dims`.
Result<std::vector<Tensor>> read_inputs(const Arguments& arguments, const plan::Program& program,
                                        std::optional<uint64_t> fill_seed);
// Errors of --input that are independent of the model: an invalid source, seed, or unreadable file. Called before the
// work.
Status check_input_words(const Arguments& arguments);
// Checks that --input names inputs of the model, with files of their types and sizes. `all`: none may be missing.
Status check_inputs(const Arguments& arguments, const ir::Graph& graph, bool all);
// Shapes of the files named by --input; unreadable files are reported when they are read.
std::vector<compile::InputShape> input_shapes(const Arguments& arguments);
// Concrete values for every dimension of the program's inputs from --dims/--shapes, else what is known, else what it
// was tuned for.
Result<DimBinding> program_dims(const Arguments& arguments, const plan::Program& program, const DimBinding& known = {});

// Checks before a run that its files in --output-dir replace no file of another kind and no input.
Status check_outputs(const Command& command, const Arguments& arguments, const plan::Program& program);
// Writes DIR/NAME.npy for every output, and DIR/outputs.json. DIR is made if it does not exist.
Status write_outputs(const std::string& dir, const plan::Program& program, std::span<const Tensor> outputs);

}  // namespace peri::cli
