// Prepares engines from a file or a build for running on this machine, and tells a caller before a run if its sizes are
// not those the engine was tuned for.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/file.hpp"
#include "compile/compile.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace peri::build {

// What engines of this program are run by.
runtime::ExecutorTable executors();
// Capabilities and executors of this machine and program. `threads` 0: the CPUs this process may use.
// `device`: "cuda:1", which one of several; "": the first.
runtime::EngineOptions run_options(int threads, const runtime::Allocator& allocator = {},
                                   const std::string& device = {});

// The same for a program: the device is named where the program has one of that kind, since what runs on the host alone
// needs none, and a process has one null device, whatever its number.
runtime::EngineOptions run_options_of(const plan::Program& program, int threads, const std::string& device);

bool is_engine(const std::string& path);  // a regular file that begins like an engine

// The engine of a loaded file, whose program was checked as it was read and is not again; errors name the file.
Result<std::shared_ptr<const runtime::Engine>> engine_of(plan::LoadedEngine loaded, runtime::EngineOptions options);
// Loads and prepares. `check`: the hash of every weight is recomputed first. `file`, if not null, gets the mapped file,
// whose check() tells after a run whether it was cut meanwhile.
Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, runtime::EngineOptions options,
                                                    bool check = false,
                                                    std::shared_ptr<const MappedFile>* file = nullptr);
// The same, by options that hang on the program.
using OptionsOf = std::function<runtime::EngineOptions(const plan::Program& program)>;
Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, const OptionsOf& options, bool check,
                                                    std::shared_ptr<const MappedFile>* file);
// What a build made, ready to run. Takes the weights of `compiled`.
Result<std::shared_ptr<const runtime::Engine>> assemble(compile::Compiled* compiled, runtime::EngineOptions options);

// The section that an interrupted build leaves in its engine: what of it is not proven.
constexpr std::string_view kInterruptedSection = "interrupted";
// That text; "" for an engine whose build came to its end.
std::string interrupted_build(const plan::Program& program);

// Which chip runs such a program here, as plan::chip_of() names it; `device` as in run_options(). "": none is to be
// had.
std::string chip_here(const plan::Program& program, const std::string& device);
// What to say where the program was tuned for another chip than `here`; "": it was not, or one of the two is not known.
std::string tuned_elsewhere(const plan::Program& program, const std::string& here);

// Dims of a run that an engine was not tuned for, and those it was tuned for: "batch=8,sequence=128".
struct Untuned {
  std::string tuned, here;
};
// None where the dims are the tuned ones, as far as `dims` binds them.
std::optional<Untuned> untuned(const plan::Program& program, const DimBinding& dims);

// Sizes of every dimension of the program's inputs: given ones, else those it was tuned for. Unknown names are an error
// that lists the known ones.
Result<DimBinding> program_dims(const plan::Program& program, const std::map<std::string, int64_t>& given);

}  // namespace peri::build
