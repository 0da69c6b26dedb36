// engine_runs ENGINE [--runs N] [--sessions N] [--seed N] [--resident] [SIZES ...]: runs an engine at each of SIZES
// ("batch=8"; the tuned ones first) N times in several sessions, from memory of the host, over copies of the inputs in
// turns, so that none is in a core's cache; with --resident from the second run on without copies, of which a further
// run is looked at. Prints one JSON object: see write_times(). Status 1 where a bit was another than in the first run.
// Part of test_whole, to which bin/engine_runs is a link: it travels to machines with a GPU, and that one does anyway.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "build/open.hpp"
#include "device/cuda/code_shelf.hpp"
#include "judge/seeded.hpp"
#include "runtime/engine.hpp"
#include "stats/stats.hpp"
#include "tests/programs/add_program.hpp"

namespace peri {
namespace {

struct Call {
  std::string engine;
  int64_t runs = 20, sessions = 9;  // a size has one second run in each session
  uint64_t seed = 7;
  bool resident = false;
  std::vector<std::string> sizes;
};
Result<Call> call_of(int count, char** words) {
  if (count < 2) return usage("engine_runs ENGINE [--runs N] [--sessions N] [--seed N] [--resident] [SIZES ...]");
  Call out;
  out.engine = words[1];
  for (int k = 2; k < count; ++k) {
    const std::string word = words[k];
    if (word == "--resident")
      out.resident = true;
    else if (word.starts_with("--") && k + 1 == count)
      return usage("%s needs a number", word.c_str());
    else if (word == "--runs")
      out.runs = std::max<int64_t>(3, std::atoll(words[++k]));
    else if (word == "--sessions")
      out.sessions = std::clamp<int64_t>(std::atoll(words[++k]), 1, 100);
    else if (word == "--seed")
      out.seed = static_cast<uint64_t>(std::atoll(words[++k]));
    else
      out.sizes.push_back(word);
  }
  return out;
}

Result<DimBinding> sizes_of(const plan::Program& p, const std::string& text) {
  DimBinding out(p.tuned_for.begin(), p.tuned_for.end());
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size()), equal = text.find('=', at);
    if (equal == std::string::npos || equal > end) return usage("'%s' is not a NAME=SIZE,...", text.c_str());
    const std::string name = text.substr(at, equal - at);
    if (std::find(p.dims.begin(), p.dims.end(), name) == p.dims.end())
      return usage("the engine has no dimension '%s'", name.c_str());
    out[name] = std::atoll(text.c_str() + equal + 1);
    at = end + 1;
  }
  return out;
}

// Of the process: nothing where no kernel of a GPU runs in it.
device::cuda::Compiler::Counts code_counts(const plan::Program& p) {
  if (std::find(p.devices.begin(), p.devices.end(), "cuda") == p.devices.end()) return {};
  const auto shelf = device::cuda::CodeShelf::of_process();
  return shelf.ok() ? (*shelf)->compiler().counts() : device::cuda::Compiler::Counts{};
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].dims() != b[k].dims() || !std::ranges::equal(a[k].bytes(), b[k].bytes())) return false;
  return true;
}

// What runs of one size took in one session, in ms.
struct Times {
  // rested: the two after the host worked as long as the first run took, the former made as the first run is.
  std::vector<double> runs, rested;
  double steady() const { return stats::median(std::span(runs).subspan(2)); }
};

constexpr size_t kCopies = 8;  // of 0.6 MB or more for an image: above a core's second-level cache

// Reads and writes more than a core's caches hold for about so long, as planning and capturing a new size do:
// afterwards the device was idle, and neither the code nor the data of a run is in the core's caches.
void work_for(double ms) {
  static std::vector<uint64_t> words(size_t{4} << 20);
  const int64_t start = now_ns();
  while (seconds_since(start) * 1e3 < ms)
    for (size_t k = 0; k < words.size() && seconds_since(start) * 1e3 < ms; k += 4096)
      for (size_t i = k; i < k + 4096; ++i) words[i] = words[i] * 6364136223846793005u + i;
}

Status run_size(runtime::Session& session, std::span<const std::vector<Tensor>> copies, const Call& call,
                std::vector<Tensor>* expected, Times* times, int64_t* differ) {
  std::vector<Tensor> held;
  std::vector<runtime::View> views;
  const int64_t runs = call.runs;
  for (int64_t k = 0; k < runs + 2; ++k) {
    if (k == runs) work_for(times->runs[0]);
    const std::vector<Tensor>& inputs = copies[static_cast<size_t>(k) % copies.size()];
    const int64_t start = now_ns();
    if (k > 0 && k != runs && call.resident) {
      PERI_TRY(session.run_resident({}));
      (k < runs ? times->runs : times->rested).push_back(seconds_since(start) * 1e3);
      continue;
    }
    PERI_ASSIGN(std::vector<Tensor> out, k == 0 ? session.run(inputs) : session.run(inputs, views));
    (k < runs ? times->runs : times->rested).push_back(seconds_since(start) * 1e3);
    if (k == 0) {
      for (const Tensor& t : out) {
        PERI_ASSIGN(held.emplace_back(), Tensor::zeros(t.dtype(), t.dims()));
        std::fill_n(held.back().mutable_data(), held.back().bytes().size(), std::byte{1});  // its pages are there
      }
      for (Tensor& t : held) views.push_back({t.dtype(), t.dims(), t.mutable_data()});
      if (expected->empty()) *expected = std::move(out);
      continue;
    }
    *differ += !same_bits(*expected, held);
  }
  if (!call.resident) return Ok{};
  runtime::ResidentRun last;  // whose results are looked at
  for (Tensor& t : held) last.outputs.push_back({{}, {t.mutable_data(), t.bytes().size()}});
  PERI_TRY(session.run_resident(last));
  *differ += !same_bits(*expected, held);
  return Ok{};
}

// The slowest first run; else medians over sessions: of the second and of later runs, of one by the other within a
// session, since clocks change from one to the next, of the second to the tenth run, and of the two after the host
// worked on something else: where the second of these takes as long as the second of a new size, it is the machine that
// warms up and not the size that is new.
void write_times(const std::vector<Times>& sessions, JsonWriter* w) {
  const auto median = [&](FunctionRef<double(const Times&)> of) {
    std::vector<double> list;
    for (const Times& t : sessions) list.push_back(of(t));
    return stats::median(list);
  };
  double first = 0;
  for (const Times& t : sessions) first = std::max(first, t.runs[0]);
  w->field("first_ms", first).field("second_ms", median([](const Times& t) { return t.runs[1]; }));
  w->field("steady_ms", median([](const Times& t) { return t.steady(); }));
  w->field("second_over_steady", median([](const Times& t) { return t.runs[1] / t.steady(); }));
  w->key("from_the_second_ms").begin_array();
  for (size_t k = 1; k < std::min<size_t>(10, sessions[0].runs.size()); ++k)
    w->value(median([k](const Times& t) { return t.runs[k]; }));
  w->end_array().key("rested_ms").begin_array();
  for (size_t k = 0; k < 2; ++k) w->value(median([k](const Times& t) { return t.rested[k]; }));
  w->end_array();
}

Status run_size(const std::shared_ptr<const runtime::Engine>& engine, std::span<runtime::Session* const> sessions,
                const Call& call, const std::string& sizes, int64_t* other_bits, JsonWriter* w) {
  const plan::Program& p = engine->program();
  PERI_ASSIGN(const DimBinding dims, sizes_of(p, sizes));
  std::vector<std::vector<Tensor>> copies;
  for (size_t k = 0; k < kCopies; ++k) {
    PERI_ASSIGN(copies.emplace_back(), judge::random_inputs(p, dims, call.seed));
  }
  const auto before = code_counts(p);
  std::vector<Tensor> expected;
  std::vector<Times> times;
  int64_t differ = 0;
  for (runtime::Session* s : sessions) PERI_TRY(run_size(*s, copies, call, &expected, &times.emplace_back(), &differ));
  const auto after = code_counts(p);
  *other_bits += differ;
  w->begin_object().field("sizes", sizes.empty() ? "tuned" : sizes);
  w->field("runs", call.runs * static_cast<int64_t>(sessions.size()));
  write_times(times, w);
  w->field("compiled", after.compiled - before.compiled).field("from_cache", after.cached - before.cached);
  w->field("other_bits", differ).end_object();
  return Ok{};
}

Status run(int count, char** words) {
  PERI_ASSIGN(Call call, call_of(count, words));
  const int64_t start = now_ns();
  PERI_ASSIGN(const auto engine, build::load(call.engine, build::run_options(0)));
  std::vector<decltype(runtime::Session::create(engine))> made;
  std::vector<runtime::Session*> sessions;
  for (int64_t k = 0; k < call.sessions; ++k) made.push_back(runtime::Session::create(engine));
  for (auto& s : made) {
    if (!s.ok()) return std::move(s).error();
    sessions.push_back(&**s);
  }
  JsonWriter w;
  w.begin_object().field("engine", call.engine).field("load_ms", seconds_since(start) * 1e3);
  w.key("sizes").begin_array();
  int64_t other_bits = 0;
  call.sizes.insert(call.sizes.begin(), "");
  for (const std::string& sizes : call.sizes) PERI_TRY(run_size(engine, sessions, call, sizes, &other_bits, &w));
  w.end_array().end_object();
  std::printf("%s\n", w.take().c_str());
  return other_bits == 0 ? Status(Ok{})
                         : Status(Error(ErrorKind::kAccuracy, format("%lld runs gave other bits than the first",
                                                                     static_cast<long long>(other_bits))));
}

int main_of(int count, char** words) {
  const Status done = run(count, words);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
const bool kAdded = add_program("engine_runs", main_of);

}  // namespace
}  // namespace peri
