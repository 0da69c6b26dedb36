// Measurements and comparisons through the C interface.
#include "build/bench.hpp"

#include <cmath>

#include "api/callbacks.hpp"
#include "api/handles.hpp"
#include "bench/compare.hpp"
#include "build/request.hpp"
#include "judge/seeded.hpp"
#include "tune/worker.hpp"

namespace peri::api {
namespace {

Status set_inputs(const plan::Program& program, const peri_bench_options& given, build::BenchTerms* t) {
  if (!given.in && given.in_count) return usage("peri_bench_options.in is NULL and in_count is not 0");
  if (given.in) {
    if (given.dim_count || given.processes)
      return usage("peri_bench_options has inputs of its own: give neither dims nor processes");
    PERI_ASSIGN(const TensorArray array, TensorArray::of_inputs(given.in, given.in_count, program.inputs.size()));
    PERI_ASSIGN(t->inputs, inputs_of(program, array));
    std::vector<std::vector<int64_t>> sizes;
    for (const Tensor& one : t->inputs) sizes.push_back(one.dims());
    PERI_ASSIGN(t->dims, plan::bind_dims(program, sizes));
    return Ok{};
  }
  PERI_ASSIGN(const auto dims, named_dims(given.dims, given.dim_count, "dims"));
  PERI_ASSIGN(t->dims, build::program_dims(program, dims));
  PERI_ASSIGN(t->inputs, judge::random_inputs(program, t->dims, 1));
  return Ok{};
}

Result<build::BenchTerms> terms_of(const peri_engine& engine, const peri_bench_options& given,
                                   const Callbacks& callbacks) {
  build::BenchTerms t;
  t.threads = engine.engine->options().threads;
  if (given.threads) {
    PERI_ASSIGN(t.threads, build::threads_of(given.threads));
  }
  if (!(given.seconds >= 0)) return usage("peri_bench_options.seconds is not 0 or more");
  if (given.seconds > 0) t.seconds = given.seconds;
  if (given.max_runs < 0) return usage("peri_bench_options.max_runs is not 0 or more");
  if (given.max_runs > 0) t.max_samples = given.max_runs;
  if (given.processes < 0) return usage("peri_bench_options.processes is not 0 or more");
  t.processes = given.processes;
  t.layers = given.layers != 0;
  if (!(given.warm_up >= 0 && given.tolerance >= 0))
    return usage("peri_bench_options.warm_up or tolerance is not 0 or more");
  if (given.warm_up > 0) t.warm_up_seconds = given.warm_up;
  if (given.tolerance > 0) t.tolerance = given.tolerance;
  PERI_TRY(set_inputs(engine.engine->program(), given, &t));
  t.program = tune::worker_program();
  if (auto tell = callbacks.progress()) t.progress = [tell](const std::string& what) { tell(0, 0, what); };
  t.stop = callbacks.stop();
  return t;
}

Status bench(const peri_engine& engine, const peri_bench_options& given, peri_report** out) {
  const Callbacks callbacks(given.progress, given.stop, given.user);
  PERI_ASSIGN(const build::BenchTerms terms, terms_of(engine, given, callbacks));
  build::BenchSubject subject{.engine = engine.engine};
  if (engine.file) {
    subject.path = engine.place;
    subject.loaded = engine.state;
    subject.check_files = [file = engine.file] { return file->check(); };
  }
  PERI_ASSIGN(const bench::Record record, callbacks.result(build::bench_engine(subject, terms)));
  *out = std::make_unique<peri_report>(peri_report{bench::record_json(record)}).release();
  return Ok{};
}

Status compare(const char* before_text, const char* after_text, double limit, peri_report** out) {
  if (!(limit >= 1)) return usage("a limit below 1").but_found(format("%g", limit));
  if (!std::isfinite(limit)) return usage("a limit that nothing reaches").but_found(format("%g", limit));
  PERI_ASSIGN(const bench::Record before, bench::read_record(before_text));
  PERI_ASSIGN(const bench::Record after, bench::read_record(after_text));
  PERI_ASSIGN(const bench::Comparison c, bench::compare(before, after, limit));
  if (out)
    *out =
        std::make_unique<peri_report>(peri_report{bench::comparison_json(c, before, "", after, "", limit)}).release();
  if (!c.enough)
    return Error(ErrorKind::kUnstable, "too few processes for a verdict")
        .advise(format("measure both with peri_bench_options.processes of %zu or more", bench::kMinProcesses));
  if (!c.regression) return Ok{};
  return Error(ErrorKind::kRegression, format("%.3f [%.3f, %.3f] of before", c.ratio, c.interval.low, c.interval.high))
      .expecting(format("no more than %.3g", limit));
}
}  // namespace
}  // namespace peri::api

extern "C" {

peri_error* peri_engine_bench(const peri_engine* engine, const peri_bench_options* options, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine || !report) return peri::usage("peri_engine_bench needs an engine and a place for its report");
    PERI_ASSIGN(const peri_bench_options o, peri::api::known_part(options, "peri_bench_options"));
    return peri::api::bench(*engine, o, report);
  });
}

peri_error* peri_bench_compare(const char* before, const char* after, double limit, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!before || !after) return peri::usage("peri_bench_compare needs two measurements");
    return peri::api::compare(before, after, limit, report);
  });
}

}  // extern "C"
