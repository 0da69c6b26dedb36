// Prepares engines from a file or a build for running on this machine, and reports before a run if its sizes are not
// those the engine was tuned for.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/file.hpp"
#include "compile/compile.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace peri::build {

// The executors of this program's engines.
runtime::ExecutorTable executors();
// Capabilities and executors of this machine and program. `threads` 0: the CPUs this process may use. `device`:
// "cuda:1", one of several; "": the first.
runtime::EngineOptions run_options(int threads, const runtime::Allocator& allocator = {},
                                   const std::string& device = {});

// The same for a program: the device is set only where the program has one of that kind, since a program of the host
// needs none, and a process has only one null device, whatever its number.
runtime::EngineOptions run_options_of(const plan::Program& program, int threads, const std::string& device);

bool is_engine(const std::string& path);  // a regular file with an engine's magic

// The engine of a loaded file, whose program was checked when it was read and is not checked again; errors name the
// file.
Result<std::shared_ptr<const runtime::Engine>> engine_of(plan::LoadedEngine loaded, runtime::EngineOptions options);
// Loads and prepares. `check`: the hash of every weight is recomputed first. `file`, if not null, receives the mapped
// file, whose check() reports after a run whether it was truncated meanwhile.
Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, runtime::EngineOptions options,
                                                    bool check = false,
                                                    std::shared_ptr<const MappedFile>* file = nullptr);
// The same, with options that depend on the program.
using OptionsOf = std::function<runtime::EngineOptions(const plan::Program& program)>;
Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, const OptionsOf& options, bool check,
                                                    std::shared_ptr<const MappedFile>* file);
// The result of a build, ready to run. Moves the weights of `compiled`.
Result<std::shared_ptr<const runtime::Engine>> assemble(compile::Compiled* compiled, runtime::EngineOptions options);

// The section of an engine whose build was interrupted: what is not verified.
constexpr std::string_view kInterruptedSection = "interrupted";
// Its text; "" for an engine whose build was completed.
std::string interrupted_build(const plan::Program& program);

// The chip that runs such a program here, as in plan::chip_of(); `device` as in run_options(). "": not available.
std::string chip_here(const plan::Program& program, const std::string& device);
// A warning where the program was tuned for another chip than `here`; "": it was not, or one of them is unknown.
std::string tuned_elsewhere(const plan::Program& program, const std::string& here);

// Dims of a run that an engine was not tuned for, and its tuned ones: "batch=8,sequence=128".
struct Untuned {
  std::string tuned, here;
};
// None where the dims are the tuned ones, as far as `dims` binds them.
std::optional<Untuned> untuned(const plan::Program& program, const DimBinding& dims);

// Sizes of every dimension of the program's inputs: given ones, else known ones, else those that follow from these,
// else those it was tuned for. Errors: kUsage, for unknown names in `given` with its dimensions, and for sizes that the
// model cannot have together.
Result<DimBinding> program_dims(const plan::Program& program, const std::map<std::string, int64_t>& given,
                                const DimBinding& known = {});

}  // namespace peri::build
