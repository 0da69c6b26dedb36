// judge_models [--cache DIR] [--budget-ms X] [--threads N] [--dump] LIST: builds generated models in one process, runs
// each at several sizes, and holds every answer against the float64 reference of the graph as imported.
// A line of LIST is `MODES FOLDER`; FOLDER holds model.onnx, case.json and the inputs, SIZE/K.npy; tools/generate
// writes it. A line of JSON comes when a mode begins and for each size; --dump writes the reference's answers at the
// first.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "build/build.hpp"
#include "compile/compile.hpp"
#include "exec/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"
#include "tests/programs/generated_case.hpp"

namespace peri {
namespace {
using generated::Case;
using generated::Finding;
using generated::Size;

// `plant`: wrong, crash or hang, and the case it is for, NAME or "" for all: what the test of this program asks for.
struct Settings {
  std::string cache, plant, planted, list;
  double budget_ms = 1;
  int threads = 1;
  bool dump = false;
};

// ---- building and running -------------------------------------------------------------------------------------------
Result<compile::Options> options_of(const Case& c, const std::string& mode, const Settings& settings) {
  compile::Options o;
  o.model = c.folder + "/model.onnx";
  o.dims = c.dims;
  o.tune.threads = settings.threads;
  o.tune.budget_ms = settings.budget_ms;
  o.tune.cache_path = settings.cache;
  o.tune.measure = mode != "no-tune";
  if (mode == "peri" || mode == "onednn" || mode == "reference")
    o.tune.provider = mode;
  else if (mode != "default" && mode != "no-tune" && mode != "unjudged")
    return usage("no mode '%s'", mode.c_str()).expecting("default, no-tune, peri, onednn, reference or unjudged");
  return o;
}

runtime::ExecutorTable executors() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  return kTable;
}

// Memory that holds no number: what is read before it is written shows.
void* poisoned(void*, size_t bytes, size_t alignment) {
  const size_t whole = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory) std::memset(memory, 0xff, whole);
  return memory;
}
void give_back(void*, void* memory, size_t) { std::free(memory); }

Result<std::shared_ptr<const runtime::Engine>> engine_of(compile::Compiled compiled, int threads) {
  PERI_ASSIGN(auto assembled, plan::assemble_engine(compiled.program, compiled.weights));
  runtime::EngineOptions o = build::engine_options(executors(), threads);
  o.allocator = {poisoned, give_back, nullptr};
  return runtime::Engine::create(std::move(assembled.program), {assembled.weight_bytes, assembled.keep, {}}, o);
}

Result<std::vector<Tensor>> run_once(runtime::Session& session, const Size& size) {
  std::vector<uint64_t> before;
  for (const Tensor& t : size.inputs) before.push_back(hash_bytes(t.data(), t.bytes().size()));
  PERI_ASSIGN(std::vector<Tensor> out, session.run(size.inputs));
  for (size_t k = 0; k < size.inputs.size(); ++k)
    if (hash_bytes(size.inputs[k].data(), size.inputs[k].bytes().size()) != before[k])
      return Error(ErrorKind::kAccuracy, format("the run changed its input %zu", k));
  return out;
}

std::string first_other_bits(std::span<const Tensor> a, std::span<const Tensor> b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (!a[k].same_content(b[k])) return "output " + std::to_string(k);
  return "";
}

// A test's fault: one element of the first output with floats, moved by a hundredth of the output's range.
void plant_error(std::vector<Tensor>& got) {
  for (Tensor& t : got) {
    if (!is_float(t.dtype()) || t.numel() == 0) continue;
    double low = INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < t.numel(); ++k) {
      low = std::min(low, t.f64(k));
      high = std::max(high, t.f64(k));
    }
    const double range = high > low ? high - low : 1;
    t.set_f64(t.numel() / 2, t.f64(t.numel() / 2) + 1e-2 * range);
    return;
  }
}

// ---- one case -------------------------------------------------------------------------------------------------------
void report(const Case& c, const std::string& mode, const std::string& size, const Finding& f, int64_t start,
            int64_t steps = -1, const std::string& replaced = "") {
  JsonWriter w;
  w.begin_object().field("name", c.name).field("mode", mode).field("size", size).field("verdict", f.verdict);
  w.field("worst", f.worst).field("blind", f.blind).field("why", f.why).field("seconds", seconds_since(start));
  if (steps >= 0) w.field("steps", steps);
  if (!replaced.empty()) w.field("replaced", replaced);  // choices that the judge of the engine refused
  w.end_object();
  std::printf("%s\n", w.take().c_str());
  std::fflush(stdout);
}

Finding failing(const char* verdict, const Error& e) {
  Finding f;
  f.verdict = verdict;
  f.why = std::string(error_kind_name(e.kind)) + ": " + e.text();
  return f;
}

// Runs one size on two sessions and judges what comes.
Finding run_size(const Case& c, Size& size, const std::string& mode, runtime::Session& two, runtime::Session& one,
                 const Settings& settings, std::vector<Tensor>* first) {
  if (!size.trouble.empty()) return failing("reference_failed", Error(ErrorKind::kInternal, size.trouble));
  auto got = run_once(two, size);
  if (!got.ok()) return failing("run_failed", got.error());
  auto again = run_once(one, size);
  if (!again.ok()) return failing("run_failed", again.error());
  Finding f;
  if (settings.plant == "wrong" && (settings.planted.empty() || settings.planted == c.name)) plant_error(*got);
  const std::string other = first_other_bits(*got, *again);
  for (size_t k = 0; k < got->size(); ++k) generated::judge_output(c, size, k, (*got)[k], settings.threads, &f);
  if (!other.empty() && settings.plant != "wrong") {
    f.verdict = "wrong";
    f.why += "the bits of " + other + " differ between 1 thread and 2; ";
  }
  *first = *got;
  if (f.verdict == "wrong" || f.verdict == "doubtful")
    if (const Status s = generated::dump(c, size, mode, *got); !s.ok()) f.why += s.error().text();
  return f;
}

void judge_mode(Case& c, const std::string& mode, const Settings& settings) {
  std::printf("{\"begin\":\"%s\",\"mode\":\"%s\"}\n", c.name.c_str(), mode.c_str());
  std::fflush(stdout);
  if (settings.planted.empty() || settings.planted == c.name) {
    if (settings.plant == "crash") raise(SIGSEGV);
    while (settings.plant == "hang") pause();
  }
  if (mode == "open") {  // for the witness: what nobody can decide
    if (c.sizes.empty() || !c.sizes[0].trouble.empty()) return;
    const Status s = generated::dump_open(c, c.sizes[0], settings.threads);
    if (!s.ok()) std::fprintf(stderr, "%s\n", s.error().text().c_str());
    return;
  }
  int64_t start = now_ns();
  auto options = options_of(c, mode, settings);
  if (!options.ok()) return report(c, mode, "", failing("refused", options.error()), start);
  auto built = build::build_engine({std::move(options).value(), mode != "unjudged", executors()});
  if (!built.ok()) {
    const bool known = built.error().kind == ErrorKind::kUnsupported;
    return report(c, mode, "", failing(known ? "unsupported" : "refused", built.error()), start);
  }
  std::string replaced;
  for (const build::Refused& r : built->refused) replaced += r.candidate + " at " + r.name + ": " + r.why + "; ";
  const int64_t steps = static_cast<int64_t>(built->compiled.steps.size());
  auto engine = engine_of(std::move(built->compiled), 2);
  if (!engine.ok()) return report(c, mode, "", failing("refused", engine.error()), start);
  auto two = runtime::Session::create(*engine, 2), one = runtime::Session::create(*engine, 1);
  if (!two.ok() || !one.ok())
    return report(c, mode, "", failing("run_failed", two.ok() ? one.error() : two.error()), start);
  std::vector<Tensor> first;
  for (size_t k = 0; k < c.sizes.size(); ++k) {
    std::vector<Tensor> got;
    Finding f = run_size(c, c.sizes[k], mode, **two, **one, settings, &got);
    if (k == 0) first = got;
    // The first size once more, after the others: what they left behind must not show.
    if (k + 1 == c.sizes.size() && k > 0 && f.verdict == "right" && !first.empty() && settings.plant.empty())
      if (auto again = run_once(**two, c.sizes[0]); !again.ok() || !first_other_bits(first, *again).empty()) {
        f.verdict = "wrong";
        f.why = "the first size gives other bits after the others";
      }
    report(c, mode, c.sizes[k].name, f, start, steps, k == 0 ? replaced : "");
    start = now_ns();
  }
}

int run(const Settings& settings) {
  auto text = read_file(settings.list, size_t{64} << 20);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", text.error().text().c_str());
    return 2;
  }
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    at = end + 1;
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string modes = line.substr(0, space), folder = line.substr(space + 1);
    Case named;
    named.name = std::filesystem::path(folder).filename().string();
    std::printf("{\"begin\":\"%s\",\"mode\":\"import\"}\n", named.name.c_str());
    std::fflush(stdout);
    const int64_t start = now_ns();
    auto c = generated::read_case(folder, settings.threads);
    if (!c.ok()) {
      const bool known = c.error().kind == ErrorKind::kUnsupported;
      report(named, "import", "", failing(known ? "unsupported" : "refused", c.error()), start);
      continue;
    }
    if (settings.dump && !c->sizes.empty() && c->sizes[0].trouble.empty())
      if (const Status s = generated::dump(*c, c->sizes[0]); !s.ok()) {
        std::fprintf(stderr, "%s\n", s.error().text().c_str());
        return 2;
      }
    for (size_t from = 0; from <= modes.size();) {
      const size_t comma = std::min(modes.find(',', from), modes.size());
      judge_mode(*c, modes.substr(from, comma - from), settings);
      from = comma + 1;
    }
  }
  std::printf("{\"end\":true}\n");
  return 0;
}

int usage_line() {
  std::fprintf(
      stderr,
      "usage: judge_models [--cache DIR] [--budget-ms X] [--threads N] [--dump] [--plant wrong|crash|hang[@CASE]]"
      " LIST\n");
  return 2;
}

}  // namespace
}  // namespace peri

int main(int argc, char** argv) {
  peri::Settings s;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const bool more = k + 1 < argc;
    if (word == "--dump") {
      s.dump = true;
    } else if (word == "--cache" && more) {
      s.cache = argv[++k];
    } else if (word == "--budget-ms" && more) {
      s.budget_ms = std::atof(argv[++k]);
    } else if (word == "--threads" && more) {
      s.threads = std::max(1, std::atoi(argv[++k]));
    } else if (word == "--plant" && more) {
      const std::string what = argv[++k];
      s.plant = what.substr(0, what.find('@'));
      if (what.find('@') != std::string::npos) s.planted = what.substr(what.find('@') + 1);
    } else if (word.starts_with("--") || !s.list.empty()) {
      return peri::usage_line();
    } else {
      s.list = word;
    }
  }
  return s.list.empty() ? peri::usage_line() : peri::run(s);
}
