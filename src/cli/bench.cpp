// peri bench: how long a run takes, as medians, intervals and samples.
#include <algorithm>
#include <cstdio>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "bench/measure.hpp"
#include "bench/steps.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {
namespace {

std::string report(const bench::Measurement& m, const Opened& opened, const DimBinding& dims, bool tuned, int threads,
                   int64_t arena_bytes, double first_run_ms, const std::string& unstable) {
  JsonWriter w;
  w.begin_object().field("model", opened.engine->program().name).field("threads", threads).key("dims").begin_object();
  for (const auto& [name, value] : dims) w.field(name, value);
  w.end_object().field("tuned_for_dims", tuned).key("latency_ms").begin_object();
  w.field("median", m.median_ms)
      .field("mean", m.mean_ms)
      .field("min", m.min_ms)
      .field("p90", m.p90_ms)
      .field("p99", m.p99_ms);
  w.key("interval").begin_array().value(m.interval_ms.low).value(m.interval_ms.high).end_array().end_object();
  w.field("throughput_per_s", 1e3 / m.median_ms)
      .field("arena_bytes", arena_bytes)
      .field("load_ms", opened.load_ms)
      .field("first_run_ms", first_run_ms);
  w.field("unstable", unstable).key("samples").begin_array();
  for (double s : m.samples_ms) w.value(s);
  w.end_array().end_object();
  return w.take();
}

// Time of each step, summed over runs, slowest first.
void print_layers(const Page& page, const runtime::Engine& engine, const std::vector<double>& ms, int64_t runs) {
  std::vector<size_t> order(ms.size());
  double total = 0;
  for (size_t k = 0; k < order.size(); ++k) order[k] = k, total += ms[k];
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ms[a] > ms[b]; });
  page.line("%9s %6s  %s", "ms", "share", "step");
  for (size_t k : order) {
    const plan::Step& s = engine.program().steps[k];
    const std::string payload = s.variants[0].payload;
    page.line("%9.4f %5.1f%%  %s  [%s] %s", ms[k] / static_cast<double>(runs), 100 * ms[k] / total, s.name.c_str(),
              s.executor.c_str(), payload.substr(0, payload.find('\n')).c_str());
  }
}

Result<Outcome> run(const Arguments& arguments) {
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Opened opened, open_model(arguments, arguments.positional[0], &progress));
  progress.clear();
  PERI_ASSIGN(const int threads, thread_count(arguments));
  PERI_ASSIGN(const DimBinding dims, program_dims(arguments, opened.engine->program()));
  const bool tuned = !note_untuned(arguments, opened, dims);
  PERI_ASSIGN(const std::vector<Tensor> inputs, read_inputs(arguments, opened.engine->program(), 1));
  const int64_t start = now_ns();
  PERI_ASSIGN(auto session, runtime::Session::create(opened.engine, threads));
  PERI_TRY(session->run(inputs));
  const double first_run_ms = seconds_since(start) * 1e3;
  bench::Schedule schedule;
  PERI_ASSIGN(schedule.seconds, arguments.real("--seconds", 0, 86400, 3));
  PERI_ASSIGN(schedule.max_samples, arguments.number("--iterations", 1, 100000000, 100000));
  PERI_ASSIGN(const double tolerance, arguments.real("--tolerance", 0, 1e6, 25));
  auto once = [&]() -> Status {
    PERI_TRY(session->run(inputs));
    return Ok{};
  };
  PERI_ASSIGN(const bench::Measurement m, bench::measure(schedule, once, interrupted));
  if (opened.file) PERI_TRY(opened.file->check());
  if (arguments.has("--layers")) {
    std::vector<double> ms(opened.engine->program().steps.size(), 0);
    PERI_ASSIGN(const int64_t runs, bench::time_steps(*session, inputs, 1.0, &ms));
    print_layers(Page(arguments), *opened.engine, ms, runs);
  }
  Outcome out;
  out.summary =
      format("median %.3f ms [%.3f, %.3f], p99 %.3f ms, %zu samples, %d thread%s", m.median_ms, m.interval_ms.low,
             m.interval_ms.high, m.p99_ms, m.samples_ms.size(), threads, threads == 1 ? "" : "s");
  const std::string unstable = bench::why_unstable(m, tolerance / 100);
  out.json = report(m, opened, dims, tuned, threads, session->arena_bytes(), first_run_ms, unstable);
  if (!unstable.empty()) {
    out.code = exit_code(ErrorKind::kUnstable);
    out.summary += "; not stable: " + unstable + format(", more than %g %% apart", tolerance);
  }
  return out;
}
}  // namespace

extern const Entry bench_entry;
const Entry bench_entry{{
    .name = "bench",
    .summary = "time runs of a model or an engine",
    .positional = "MODEL|ENGINE",
    .min_positional = 1,
    .max_positional = 1,
    .flags =
        build_flags({{"--cast", "", "", "convert inputs of another element type, where no value is lost"},
                     {"--input", "-i", "NAME=FILE", "an input: a .npy or .pb file, or random:SEED (default)", true},
                     {"--seconds", "", "N", "time to sample for (default 3)"},
                     {"--iterations", "", "N", "at most this many samples"},
                     {"--tolerance", "", "PERCENT", "most that the samples may disagree by (default 25)"},
                     {"--layers", "", "", "also show the time of every step"}}),
    .details =
        "Exit code 5 where 10 or more samples do not agree: the medians of their first and second half, or the "
        "ends of the\n"
        "median's interval, are further apart than --tolerance of the median. What was measured is still told.\n\n"
        "example:\n  peri bench models/digits_cnn.onnx --dims batch=8 --seconds 1 --json -",
    .run = run,
    .stops = true,
}};

}  // namespace peri::cli
