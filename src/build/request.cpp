// Converts requests to options and writes the files of a build.
#include "build/request.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/dtype_names.hpp"
#include "base/file.hpp"
#include "base/knobs.hpp"
#include "base/path.hpp"
#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "base/thread_pool.hpp"
#include "base/version.hpp"
#include "build/model_files.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "build/reference_why.hpp"
#include "compile/backends.hpp"
#include "compile/interface_types.hpp"
#include "passes/pipeline.hpp"
#include "plan/engine_file.hpp"
#include "plan/iterations.hpp"
#include "plan/lock_file.hpp"
#include "tune/worker.hpp"

namespace peri::build {

namespace {
// Limits of sensible arguments; larger values are typing errors.
constexpr int kMaxThreads = 1024, kMaxSettings = 64;
constexpr double kMinBudget = 1e-3, kMaxBudget = 1e6;

Result<DType> given_dtype(const char* flag, const std::string& name) {
  if (name.empty()) return DType::kInvalid;
  const auto type = dtype_of_any_name(name);
  if (type.ok() && (*type == DType::kF32 || *type == DType::kF16 || *type == DType::kBF16)) return *type;
  return usage("%s is not an element type that can be chosen", flag).expecting("f32, f16 or bf16").but_found(name);
}

// The files of a request: none is lost.
Status check_files(const Request& r) {
  FileUses files;
  files.reads("the model", r.model);
  files.reads_parts("a file of the model", [&r] { return files_behind(r.model); });
  files.reads("the lock file that is taken", r.locked_path);
  files.writes("the engine", r.engine_path, plan::kEngineFile);
  if (!r.engine_path.empty()) files.writes("the engine's proof", proof_path(r.engine_path), kProofFile);
  files.writes("the lock file that is written", r.lock_path, plan::kLockFile);
  return files.check(r.force);
}

bool is_stopped(const Request& request) { return request.stop && request.stop(); }

Error cancelled(const Request& request) {
  return Error(ErrorKind::kCancelled, "interrupted while the engine was built").in_file(request.model);
}

// What an engine that is not whole lacks.
std::string unproven_text(const Built& built, bool verifies) {
  const StepsDone done = steps_done(built);
  const std::string all = all_steps_text(done.steps, done.in_bodies);
  if (!verifies)
    return format("interrupted: the best so far; %lld of %s measured, and nothing is verified",
                  static_cast<long long>(done.measured), all.c_str());
  const auto sizes = std::count_if(built.verdict.sizes.begin(), built.verdict.sizes.end(),
                                   [](const judge::SizeEvidence& e) { return e.limit.empty(); });
  const bool whole = sizes > 0 && built.verdict.incomplete.empty();
  const std::string engine = whole       ? "the engine as a whole is"
                             : sizes > 0 ? "the engine as a whole is at " + counted(sizes, "size") + " only"
                                         : "the engine as a whole is not";
  const int64_t open = done.steps - done.verified;
  if (open > 0)
    return format("interrupted: the best so far; %lld of %s %s not verified individually, %s",
                  static_cast<long long>(open), all.c_str(), open == 1 ? "is" : "are", engine.c_str());
  return "interrupted: the best so far; all of " + all + " verified individually, " + engine;
}

// The limit of the engine's loops: what was given, else the lock's. 0: none.
Result<int64_t> iterations_of(const Request& request, const compile::Options& options) {
  if (!options.lock || request.max_iterations == options.lock->max_iterations) return request.max_iterations;
  const int64_t locked = options.lock->max_iterations;
  if (request.max_iterations == 0) return locked;
  return refused("the lock was made with another limit of iterations")
      .expecting(locked > 0 ? std::to_string(locked) : "none")
      .but_found(std::to_string(request.max_iterations))
      .advise("leave --max-iterations out: runs take it too");
}

Result<Made> make(const Request& request) {
  Made out;
  PERI_ASSIGN(out.options, options_of(request));
  PERI_ASSIGN(const int64_t limit, iterations_of(request, out.options));
  auto built = build_engine({out.options, out.options.tune.verify, executors(), limit});
  if (!built.ok()) return std::move(built).error().in_file(request.model);
  out.built = std::move(built).value();
  if (request.cache && !request.cache_folder && !knob(Knob::kCache) && cache_folder().empty())
    out.built.compiled.notes.push_back(
        "there is no timing cache, since neither XDG_CACHE_HOME nor HOME names a folder; the build goes on without it: "
        "set PERI_CACHE to a folder, or to nothing if none is wanted");
  if (const int cpus = usable_cpus(); out.options.tune.threads > cpus)
    out.built.compiled.notes.push_back(
        format("%d threads are more than the %s that this process may use: they wait for each other, candidates "
               "take long to try, and their times are of use for such runs alone",
               out.options.tune.threads, counted(cpus, "CPU").c_str()));
  if (std::string none = unused_limit(request.max_iterations, out.built.compiled.program); !none.empty())
    out.built.compiled.notes.push_back(std::move(none));
  plan::set_iterations(&out.built.compiled.program, limit);
  out.built.compiled.lock.max_iterations = limit;
  out.stopped = is_stopped(request);
  const std::string lacked = out.options.lock ? out.options.lock->interrupted : "";  // by its choices
  if (out.stopped || !lacked.empty()) {
    compile::Compiled& compiled = out.built.compiled;
    std::string text = out.stopped ? unproven_text(out.built, out.options.tune.verify)
                                   : "locked to the choices of one that was " + lacked;
    compiled.notes.push_back(out.stopped ? text : "the build is " + text);
    compiled.program.sections.push_back({std::string(kInterruptedSection), text});
    compiled.lock.interrupted = out.stopped ? std::move(text) : lacked;
  }
  return out;
}
}  // namespace

std::string unused_limit(int64_t max_iterations, const plan::Program& program) {
  if (max_iterations == 0 || plan::has_loop(program)) return "";
  return format("the limit of %lld iterations has no effect: no step is a loop",
                static_cast<long long>(max_iterations));
}

Status check_folder_of(const std::string& file) {
  std::error_code unknown;
  if (file.empty() || std::filesystem::is_character_file(file, unknown)) return Ok{};
  const std::string place = behind_links(file), folder = folder_of(place);
  if (std::filesystem::is_symlink(place, unknown))
    return io_error("its links lead round in a circle, or are too many").in_file(file).advise("give another path");
  const long longest = pathconf(folder.c_str(), _PC_NAME_MAX);
  if (const size_t length = std::filesystem::path(place).filename().string().size();
      longest > 0 && length > static_cast<size_t>(longest))
    return io_error("the file's name is too long")
        .in_file(file)
        .expecting(format("at most %ld bytes", longest))
        .but_found(std::to_string(length));
  struct stat info;
  if (stat(folder.c_str(), &info) == 0 && info.st_nlink == 0)
    return io_error("the current folder is not there").in_file(file).advise("go to one that is: it was deleted");
  if (access((folder + "/.").c_str(), W_OK) == 0) return Ok{};
  const bool missing = errno == ENOENT;
  Error none = os_error("write into the folder", folder);
  return std::move(none).advise(missing ? "make it first: mkdir -p " + shell_word(folder)
                                        : "name a file in another folder");
}

Result<int> threads_of(int asked) {
  if (asked >= 0 && asked <= kMaxThreads) return asked > 0 ? asked : usable_cpus();
  return usage("the number of threads is not in range")
      .expecting(format("a whole number from 0 (the CPUs this process may use) to %d", kMaxThreads))
      .but_found(std::to_string(asked));
}

namespace {
Status check_dump(const Request& request) {
  return request.dump_dir.empty() ? Status(Ok{}) : check_folder_of(request.dump_dir + "/.");
}
}  // namespace

Status check_request(const Request& request) {
  PERI_ASSIGN(const compile::Options o, options_of(request));
  PERI_ASSIGN(const lower::Backend* const backend, compile::backend_for(o.backend, o.device));
  PERI_TRY(compile::check_provider(request.provider, *backend, std::nullopt));
  PERI_TRY(passes::check_names(request.disabled_passes));
  return check_dump(request);
}

Result<compile::Options> options_of(const Request& request) {
  compile::Options o;
  o.model = request.model;
  o.backend = request.backend;
  o.device = request.device;
  if (!o.device.empty()) {
    PERI_ASSIGN(const lower::Backend* const backend, compile::backend_for(o.backend, o.device));
    o.backend = backend->name;
    if (backend->placement.device.empty()) o.device.clear();  // "cpu": the host, which needs no choice
  }
  PERI_ASSIGN(o.dtype, given_dtype("--dtype", request.dtype));
  PERI_ASSIGN(o.io_dtype, given_dtype("--io-dtype", request.io_dtype));
  o.strict_placement = request.strict_placement;
  o.dims = request.dims;
  o.at_hand = request.at_hand;
  o.fixed = request.fixed;
  o.min_dims = request.min_dims;
  o.max_dims = request.max_dims;
  o.disabled_passes = request.disabled_passes;
  o.dump_dir = request.dump_dir;
  PERI_ASSIGN(o.tune.threads, threads_of(request.threads));
  o.tune.provider = request.provider;
  if (request.settings < 0 || request.settings > kMaxSettings)
    return usage("the number of settings is not in range")
        .expecting(format("0 to %d", kMaxSettings))
        .but_found(std::to_string(request.settings));
  o.tune.settings = request.settings;
  if (request.budget != 0 && !(request.budget >= kMinBudget && request.budget <= kMaxBudget))
    return usage("the tuning time in seconds is not in range")
        .expecting(format("0, or %g to %g", kMinBudget, kMaxBudget))
        .but_found(format("%g", request.budget));
  o.tune.budget_seconds = request.budget;
  o.tune.measure = request.tune;
  o.tune.verify = request.verify;
  if (request.cache) o.tune.cache_path = request.cache_folder ? *request.cache_folder : cache_folder();
  o.tune.retune = request.retune;
  o.tune.stop = request.stop;
  if (request.worker) {
    o.tune.worker = tune::worker_program();
    o.tune.why_no_worker = tune::why_no_worker();
  }
  o.builder = "peri " + std::string(version());
  o.progress = request.progress;
  o.log = request.log;
  o.admits = [check = request.one_model && !request.io_dtype.empty(),
              then = request.admits](const ir::Graph& g) -> Status {
    if (check) PERI_TRY(compile::check_interface_types(g));
    return then ? then(g) : Ok{};
  };
  if (!request.locked_path.empty()) {
    if (!request.lock_path.empty())
      return usage("a lock file to write and one to take every choice from: give one of the two");
    PERI_ASSIGN(o.lock, plan::read_lock(request.locked_path));
    if (o.fixed.empty()) o.fixed = o.lock->fixed;  // others are refused with the rest of what contradicts the lock
  }
  return o;
}

int64_t Made::reference_steps() const {
  const auto steps = lower::all_reports(built.compiled.steps);
  return std::count_if(steps.begin(), steps.end(), [](const auto* s) { return s->chosen == "reference"; });
}

bool Made::short_of_memory() const {
  const auto steps = lower::all_reports(built.compiled.steps);
  return std::any_of(steps.begin(), steps.end(), [](const auto* s) {
    std::vector<std::string> reasons;
    for (const auto& [kernel, reason] : s->refusals) reasons.push_back(reason);
    return s->chosen == "reference" && reference_why(reasons) == ReferenceWhy::kNoMemory;
  });
}

// The proof is written before the engine takes its name: where the disk has no room for both, what stood there stays.
static Status write_with_proof(const std::string& path, const plan::EngineDraft& draft,
                               const std::vector<Tensor>& weights, const std::string& proof) {
  const std::string at = behind_links(proof_path(path));
  std::error_code unknown;
  std::optional<AtomicFile> file;
  if (!std::filesystem::is_character_file(at, unknown)) {
    PERI_ASSIGN(AtomicFile made, AtomicFile::create(at));
    PERI_TRY(made.write(proof));
    file.emplace(std::move(made));
  }
  PERI_TRY(plan::write_engine(behind_links(path), draft, weights));
  return file ? file->commit() : write_named_file(at, proof);
}

Result<Made> make_engine(const Request& request) {
  const int64_t start = now_ns();
  for (const std::string& file : {request.engine_path, request.lock_path}) PERI_TRY(check_folder_of(file));
  if (!request.engine_path.empty()) PERI_TRY(check_folder_of(proof_path(request.engine_path)));
  PERI_TRY(check_dump(request));
  PERI_TRY(check_files(request));
  PERI_ASSIGN(Made out, make(request));
  if (request.may_write) PERI_TRY(request.may_write());
  PERI_TRY(check_files(request));  // a build takes a while, in which others may have made files there
  const compile::Compiled& compiled = out.built.compiled;
  // Before the engine is written: it stands without its proof for no longer than it takes to write that.
  const bool file = !request.engine_path.empty();
  std::optional<plan::EngineDraft> draft;
  if (file) {
    PERI_ASSIGN(draft, plan::draft_engine(compiled.program, compiled.weights));
  }
  if (file || request.proof)
    out.proof = proof_json(out.built, out.options, draft ? std::optional(draft->hash) : std::nullopt) + "\n";
  if (!request.lock_path.empty()) PERI_TRY(write_named_file(request.lock_path, plan::lock_text(compiled.lock)));
  if (file) PERI_TRY(write_with_proof(request.engine_path, *draft, compiled.weights, out.proof));
  out.built.seconds = seconds_since(start);
  return out;
}

Result<Made> make_whole_engine(const Request& request) {
  PERI_ASSIGN(Made out, make_engine(request));
  if (out.stopped) return cancelled(request);
  return out;
}

}  // namespace peri::build
