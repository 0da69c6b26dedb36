// In this process, or by `peri` commands that do the same in fresh processes.
#include "build/bench.hpp"

#include <sys/stat.h>

#include <optional>

#include "base/temporary_folder.hpp"
#include "bench/fresh.hpp"

namespace peri::build {

namespace {
Status write_to(const std::string& path, const runtime::Engine& engine) {
  std::vector<Tensor> weights;
  for (size_t k = 0; k < engine.program().weights.size(); ++k) {
    PERI_ASSIGN(Tensor weight, engine.weight(k));
    weights.push_back(std::move(weight));
  }
  return plan::write_engine(path, engine.program(), weights);
}

// The same measurement by a command: the device too that the engine was opened on.
std::vector<std::string> words_of(const std::string& path, const runtime::Engine& engine, const BenchTerms& t) {
  const plan::Program& program = engine.program();
  std::vector<std::string> words = {t.program,      "bench",
                                    path,           "--quiet",
                                    "--json",       "-",
                                    "--threads",    std::to_string(t.threads),
                                    "--seconds",    format("%.17g", t.seconds),
                                    "--warm-up",    format("%.17g", 1e3 * t.warm_up_seconds),
                                    "--iterations", std::to_string(t.max_samples),
                                    "--tolerance",  format("%.17g", 100 * t.tolerance)};
  for (const auto& [name, size] : t.dims)
    if (const auto tuned = program.tuned_for.find(name); tuned == program.tuned_for.end() || tuned->second != size)
      words.insert(words.end(), {"--dims", name + "=" + std::to_string(size)});
  if (const std::string& device = engine.options().device; !device.empty())
    words.insert(words.end(), {"--device", device});
  words.insert(words.end(), t.input_words.begin(), t.input_words.end());
  return words;
}

Result<bench::Record> in_fresh_processes(const BenchSubject& subject, const BenchTerms& terms) {
  if (terms.program.empty())
    return usage("there is no program to measure in fresh processes")
        .advise("name it in PERI_WORKER, or measure in this process");
  std::optional<TemporaryFolder> scratch;  // for one engine file
  std::string path = subject.path;
  // Each process opens the path anew, which may name another engine by now.
  if (path.empty() || file_state(path) != subject.loaded) {
    PERI_ASSIGN(TemporaryFolder made, TemporaryFolder::create("bench"));
    scratch.emplace(std::move(made));
    path = scratch->path() + "/measured.engine";
    PERI_TRY(write_to(path, *subject.engine));
  }
  const FileState before = file_state(path);
  auto out = bench::time_fresh(words_of(path, *subject.engine, terms), terms.processes, terms.progress, terms.stop);
  if (out.ok() && file_state(path) != before)
    return io_error("the engine was replaced while it was measured, so that its processes may have run different ones")
        .in_file(path)
        .advise("measure again when nothing writes it, or measure a copy");
  return out;
}

Result<bench::Record> in_this_process(const BenchSubject& subject, const BenchTerms& terms, double seconds) {
  return bench::time_session(subject.engine, terms.inputs,
                             {.threads = terms.threads,
                              .seconds = seconds,
                              .warm_up_seconds = terms.warm_up_seconds,
                              .max_samples = terms.max_samples,
                              .tolerance = terms.tolerance,
                              .layers = terms.layers,
                              .load_ms = subject.load_ms,
                              .progress = terms.progress,
                              .stop = terms.stop});
}

Result<bench::Record> record_of(const BenchSubject& subject, const BenchTerms& terms) {
  if (terms.processes == 0) return in_this_process(subject, terms, terms.seconds);
  PERI_ASSIGN(bench::Record out, in_fresh_processes(subject, terms));
  if (!terms.layers || out.interrupted) return out;
  PERI_ASSIGN(bench::Record here, in_this_process(subject, terms, 0));  // steps are timed here
  out.layers = std::move(here.layers);
  out.layer_runs = here.layer_runs;
  return out;
}
}  // namespace

FileState file_state(const std::string& path) {
  struct stat s = {};
  if (stat(path.c_str(), &s) != 0) return {};
  return {static_cast<int64_t>(s.st_dev), static_cast<int64_t>(s.st_ino), s.st_size, s.st_mtim.tv_sec,
          s.st_mtim.tv_nsec};
}

Result<bench::Record> bench_engine(const BenchSubject& subject, const BenchTerms& terms) {
  PERI_ASSIGN(bench::Record out, record_of(subject, terms));
  if (subject.check_files) PERI_TRY(subject.check_files());
  out.model = subject.engine->program().name;
  out.tuned = !untuned(subject.engine->program(), out.dims).has_value();
  return out;
}

}  // namespace peri::build
