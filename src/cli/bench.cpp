// peri bench: run times of an engine or a served model, as medians, intervals and samples.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/plural.hpp"
#include "bench/device_runs.hpp"
#include "build/bench.hpp"
#include "cli/console/endpoint.hpp"
#include "cli/console/histogram.hpp"
#include "cli/console/made_up.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "cli/console/texts.hpp"
#include "compile/backends.hpp"
#include "tune/worker.hpp"

namespace peri::cli {
namespace {

// Time of each step, slowest first.
void print_layers(const Page& page, const bench::Record& record) {
  std::vector<const bench::LayerTime*> order;
  double total = 0;
  for (const bench::LayerTime& l : record.layers) {
    order.push_back(&l);
    total += l.ms;
  }
  if (order.empty()) return;
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->ms > b->ms; });
  page.line("ms: the median of a step's times in %s", counted(record.layer_runs, "run").c_str());
  page.line("%9s %6s  %s", "ms", "share", "step");
  for (const bench::LayerTime* l : order)
    page.line("%9.4f %5.1f%%  %s  [%s] %s", l->ms, total > 0 ? 100 * l->ms / total : 0, l->step.c_str(),
              l->executor.c_str(), l->kernel.c_str());
}

void print_processes(const Page& page, const bench::Record& record) {
  if (record.processes.size() < 2) return;
  for (const bench::ProcessRecord& p : record.processes)
    page.line("%10.4f ms  %15s, first run %.3f ms", stats::median(p.samples_ms),
              counted(std::ssize(p.samples_ms), "sample").c_str(), p.first_run_ms);
}

// Terms from the flags alone, checked before a model is built.
Result<build::BenchTerms> asked_of(const Arguments& arguments) {
  build::BenchTerms t;
  PERI_ASSIGN(t.threads, thread_count(arguments));
  PERI_ASSIGN(t.seconds, arguments.real("--seconds", 0, 86400, 3));
  PERI_ASSIGN(const double warm_up_ms, arguments.real("--warm-up", 0, 3600e3, 1e3 * t.warm_up_seconds));
  t.warm_up_seconds = warm_up_ms / 1e3;
  PERI_ASSIGN(t.max_samples, arguments.number("--iterations", 1, 100000000, 100000));
  PERI_ASSIGN(const double tolerance, arguments.real("--tolerance", 0, 1e6, 25));
  t.tolerance = tolerance / 100;
  PERI_ASSIGN(t.processes, arguments.number("--repeat", 1, 10000, 0));
  for (const char* flag : {"--seconds", "--repeat", "--layers", "--warm-up", "--tolerance"})
    if (arguments.has("--paced") && arguments.has(flag))
      return usage("%s is for a measurement, and the rounds of --paced come one by one",
                   arguments.spelled(flag).c_str())
          .advise("leave one of them out");
  return t;
}

Result<build::BenchTerms> terms_of(const Arguments& arguments, build::BenchTerms t, const Opened& opened,
                                   Progress* progress) {
  if (arguments.has("--text")) {
    PERI_ASSIGN(t.inputs, read_texts(arguments, opened.engine->program()));
    t.input_words = text_words(arguments);
  } else {
    PERI_ASSIGN(t.dims, program_dims(arguments, opened.engine->program()));
    PERI_ASSIGN(t.inputs, read_inputs(arguments, opened.engine->program(), 1));
  }
  t.layers = arguments.has("--layers");
  for (const std::string& input : arguments.all("--input"))
    t.input_words.insert(t.input_words.end(), {"--input", input});
  if (arguments.has("--cast")) t.input_words.emplace_back("--cast");
  t.program = tune::worker_program();
  t.progress = [progress](const std::string& what) { progress->show_now(what); };
  t.stop = interrupted;
  return t;
}

// Without an exponent: "17490", "12.34".
std::string rate_text(double per_s) { return format(per_s < 1000 ? "%.4g" : "%.0f", per_s); }

std::string summary_of(const bench::Record& r) {
  const stats::Interval interval = stats::block_interval(r.per_process());
  std::string out = format("median %.4g ms [%.4g, %.4g], %s runs/s", r.median_ms(), interval.low, interval.high,
                           rate_text(r.runs_per_s()).c_str());
  if (r.items_per_run > 1) out += ", " + rate_text(r.items_per_s()) + " items/s";
  out += ", " + counted(static_cast<int64_t>(r.samples()), "sample") + ", ";
  if (r.processes.size() > 1) out += format("%zu processes, ", r.processes.size());
  return out + counted(r.threads, "thread");
}

// Notes that the limit of samples, which the user did not set, ended the measurement before its time.
void note_cut(const Arguments& arguments, const bench::Record& record, const build::BenchTerms& terms) {
  if (arguments.has("--iterations")) return;
  for (const bench::ProcessRecord& p : record.processes)
    if (static_cast<int64_t>(p.samples_ms.size()) >= terms.max_samples && p.wall_s < terms.seconds)
      return say(format("note: %lld samples were taken in %.3g of the %g s: --iterations N takes more",
                        static_cast<long long>(terms.max_samples), p.wall_s, terms.seconds));
}

Error paced_on_host() {
  return usage("--paced is for engines on a device")
      .but_found("an engine of the host alone")
      .advise("build it with --backend cuda, or leave --paced out");
}

// Checked before a model is built.
Status check_paced(const Arguments& arguments) {
  if (!arguments.has("--paced") || build::is_engine(arguments.positional[0])) return Ok{};
  PERI_ASSIGN(const lower::Backend* const backend,
              compile::backend_for(arguments.get("--backend", "auto"), arguments.get("--device")));
  return backend->placement.device.empty() ? Status(paced_on_host()) : Status(Ok{});
}

// A round of runs on a device for each line of standard input.
Result<Outcome> paced(const Opened& opened, const build::BenchTerms& terms) {
  if (opened.engine->program().devices.size() < 2) return paced_on_host();
  PERI_ASSIGN(auto session, runtime::Session::create(opened.engine, terms.threads));
  PERI_TRY(session->run(terms.inputs));
  bench::Schedule round;
  round.warm_up_seconds = bench::kResidentWarmUpSeconds;
  round.seconds = 0;  // one batch per round
  round.max_samples = terms.max_samples;
  std::string line;
  const auto next = [&] { return static_cast<bool>(std::getline(std::cin, line)); };
  const Page page{Arguments{}};  // also with --quiet: the rounds are the output
  const auto told = [&page](const std::string& text) {
    page.line("%s", text.c_str());
    std::fflush(stdout);
  };
  PERI_TRY(bench::resident_rounds(session.get(), terms.inputs, round, next, told));
  return Outcome{};
}

// What a flag of a server's load would be for a local model: other programs have such short forms.
std::string here(std::string_view flag) {
  if (flag == "--batch-size" || flag == "--shape") return "; sizes of a model are given by --dims NAME=N";
  if (flag == "--model-name") return "; a model is named without a flag: peri bench MODEL";
  if (flag == "--model-version") return "; threads are given by --threads N";
  if (flag == "--request-count") return "; runs of a model are bounded by --iterations N";
  if (flag == "--input-data") return "; values are given by --input NAME=FILE";
  if (flag == "--max-trials") return "; runs of a model are bounded by --iterations N";
  return "";
}

// Refuses flags of a server's load for a local model.
Status check_local(const Arguments& arguments) {
  for (const Flag& f : endpoint_flags())
    if (arguments.has(f.name))
      return usage("%s is for servers", arguments.spelled(f.name).c_str())
          .advise("give --endpoint URL, or leave it out" + here(f.name));
  if (arguments.positional.empty())
    return usage("peri bench needs MODEL|ENGINE, or --endpoint URL").advise("see: peri bench --help");
  return Ok{};
}

// Refuses flags of a model or its build for a server.
Status check_server(const std::vector<Flag>& all, const Arguments& arguments) {
  const std::vector<Flag> obeyed = endpoint_flags();
  for (const Flag& f : all) {
    if (!arguments.has(f.name) || f.name == "--input" || f.name == "--warm-up") continue;
    if (std::any_of(obeyed.begin(), obeyed.end(), [&](const Flag& o) { return o.name == f.name; })) continue;
    return usage("%s is for a model of this machine, and --endpoint loads a server", arguments.spelled(f.name).c_str())
        .advise("leave it out");
  }
  return Ok{};
}
}  // namespace

extern const Entry bench_entry;

namespace {
Result<Outcome> run(const Arguments& arguments) {
  if (arguments.has("--endpoint")) {
    PERI_TRY(check_server(bench_entry.command.flags, arguments));
    return bench_endpoint(arguments);
  }
  PERI_TRY(check_local(arguments));
  PERI_TRY(check_texts(arguments));
  PERI_ASSIGN(build::BenchTerms asked, asked_of(arguments));
  PERI_TRY(check_paced(arguments));
  Progress progress(arguments.has("--quiet"));
  const build::FileState there = build::file_state(arguments.positional[0]);
  PERI_ASSIGN(const Opened opened, open_model(arguments, arguments.positional[0], &progress));
  PERI_ASSIGN(const build::BenchTerms terms, terms_of(arguments, std::move(asked), opened, &progress));
  progress.clear();
  if (arguments.has("--paced")) return paced(opened, terms);
  build::BenchSubject subject{.engine = opened.engine, .load_ms = opened.load_ms};
  if (opened.file) {
    subject.path = arguments.positional[0];
    subject.loaded = there;
    subject.check_files = [&opened] { return opened.file->check(); };
  }
  const auto measure = [&](std::optional<int64_t> integers) {
    build::BenchTerms with = terms;
    with.inputs = with_integers(integers, std::move(with.inputs));
    return build::bench_engine(subject, with);
  };
  PERI_ASSIGN(const bench::Record record,
              with_made_up<bench::Record>(arguments, has_integers(opened.engine->program()), measure));
  progress.clear();
  note_untuned(arguments, opened, record.dims);
  note_cut(arguments, record, terms);
  const Page page(arguments);
  print_processes(page, record);
  for (const std::string& line : histogram(record.all_samples())) page.line("%s", line.c_str());
  print_layers(page, record);
  for (const std::string& why : record.disturbed) page.line("in the way: %s", why.c_str());
  Outcome out;
  out.json = bench::record_json(record);
  out.summary = summary_of(record);
  if (const std::string there = bench::report_text(record.on_device); !there.empty()) out.summary += "; " + there;
  if (const std::string mark = build::interrupted_build(opened.engine->program()); !mark.empty())
    out.summary += "; " + mark;
  if (record.interrupted) {
    out.code = exit_code(ErrorKind::kCancelled);
    out.summary += "; interrupted: not all that was asked for";
  } else if (!record.unstable.empty()) {
    out.code = exit_code(ErrorKind::kUnstable);
    out.summary += "; not stable: " + record.unstable + format(", more than %g %% apart", 100 * terms.tolerance);
  }
  return out;
}
}  // namespace

const Entry bench_entry{{
    .name = "bench",
    .summary = "measure latency and throughput of a model or an engine",
    .positional = "[MODEL|ENGINE]",
    .min_positional = 0,
    .max_positional = 1,
    .flags = build_flags(
        with_texts(
            {{"--seconds", "", "N", "time to sample for, in each process (default 3)", false, nullptr, "--duration"},
             {"--repeat", "", "N", "measure in N fresh processes, one after another; compare asks for 5"},
             {"--layers", "", "", "also time every step"},
             {"--input", "-i", "NAME=FILE",
              "an input: .npy, .npz, .pb, .png, .jpg, raw:TYPE:AxBxC:FILE, or random:SEED (default)", true},
             {"--cast", "", "",
              "convert inputs of another element type; floats are rounded, a value that does not fit is an error"},
             {"--warm-up", "", "MS", "warm-up before sampling (default 300)"},
             {"--iterations", "", "N", "maximum number of samples in each process (default 100000)"},
             {"--tolerance", "", "PERCENT", "largest allowed disagreement of the samples (default 25)"},
             {"--paced", "", "", "engine on a device: one round of runs for each line of standard input"}}),
        endpoint_flags()),
    .details =
        "Throughput is runs done per second of wall clock; items are the batch. Exit code 5 where 10 or more samples "
        "of a\n"
        "process do not agree: the medians of their first and second half, or the ends of the median's interval, are "
        "further\n"
        "apart than --tolerance of the median. What was measured is still told.\n\n"
        "Of an engine that runs on a device, the runs above copy inputs and outputs (with_copies_ms). resident_ms is "
        "told beside them: at least 30 launches, each timed by events, with inputs and outputs in the device's memory. "
        "--paced writes a JSON line of such times for each line of standard input, until that ends; where an input or "
        "an output lies on the host, of runs with their copies, and says why.\n\n"
        "With --endpoint a server is loaded (KServe v2 over HTTP or gRPC), one load after another. Latency counts from "
        "when a "
        "request was due: at a rate by its schedule; at a fixed number at once, requests that a stall kept back are "
        "added. Exit code 5 where three windows in a row never agree.\n\n"
        "example:\n  peri bench models/digits_cnn.onnx --dims batch=8 --seconds 1 --json -\n"
        "  peri bench --endpoint http://127.0.0.1:8000 -m digits --concurrency-range 1:64:21",
    .run = run,
    .stops = true,
}};

}  // namespace peri::cli
