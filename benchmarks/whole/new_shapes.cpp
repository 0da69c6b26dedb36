// What a new shape costs: an engine runs at many lengths in random order, beside a second copy of it that is prepared,
// untimed, before each run. Prints the ratio of the means, what the first run of a length takes more, and the time of
// prepare() for a new length and for one of the last ones. Usage: new_shapes ENGINE [--lengths N] [--longest N]
// [--dim NAME] [--threads N] [--seed N] [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"

namespace {
using namespace peri;

struct Options {
  std::string engine, dim = "sequence";
  int64_t lengths = 64, longest = 256, rounds = 1;
  int threads = 2;
  uint64_t seed = 1;
};

double ms_now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}
double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}
void line(const char* what, const std::vector<double>& v) {
  std::printf("%-34s mean %8.3f  median %8.3f  p90 %8.3f  max %8.3f ms\n", what, mean(v), quantile(v, 0.5),
              quantile(v, 0.9), quantile(v, 1));
}

// One copy of the engine with a session of its own.
struct Copy {
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<runtime::Session> session;
};

Result<Copy> load(const Options& o) {
  static const std::vector<const runtime::Executor*> table = exec::table();
  PERI_ASSIGN(plan::LoadedEngine file, plan::load_engine(o.engine));
  runtime::EngineOptions options;
  options.executors = table;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  options.threads = o.threads;
  Copy c;
  PERI_ASSIGN(c.engine, runtime::Engine::create(std::move(file.program),
                                                runtime::mapped_weights(file.weight_bytes, file.file), options));
  PERI_ASSIGN(c.session, runtime::Session::create(c.engine));
  return c;
}

// Every input at this length, other dimensions 1; integers small, floats near 1.
Result<std::vector<Tensor>> inputs_at(const plan::Program& p, const Options& o, int64_t length) {
  DimBinding binding;
  for (const std::string& name : p.dims) binding[name] = name == o.dim ? length : 1;
  Rng rng(o.seed);
  std::vector<Tensor> out;
  for (const plan::Port& port : p.inputs) {
    PERI_ASSIGN(auto dims, eval(port.shape, binding));
    PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, dims));
    for (int64_t k = 0; k < t.numel(); ++k) {
      if (is_float(port.dtype))
        t.set_f64(k, 0.5 + 0.25 * static_cast<double>(rng.below(5)));
      else
        t.set_i64(k, rng.below(2));
    }
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<std::vector<int64_t>> dims_of(const std::vector<Tensor>& inputs) {
  std::vector<std::vector<int64_t>> out;
  for (const Tensor& t : inputs) out.push_back(t.dims());
  return out;
}

Status run_timed(Copy* c, const std::vector<Tensor>& in, bool prepared, double* prepare_ms, double* run_ms,
                 std::vector<Tensor>* answers) {
  if (prepared) {
    const double before = ms_now();
    PERI_TRY(c->session->prepare(dims_of(in)));
    *prepare_ms = ms_now() - before;
  }
  const double before = ms_now();
  PERI_ASSIGN(*answers, c->session->run(in));
  *run_ms = ms_now() - before;
  return Ok{};
}

Status measure(const Options& o) {
  PERI_ASSIGN(Copy plain, load(o));
  PERI_ASSIGN(Copy ready, load(o));
  const plan::Program& p = plain.engine->program();
  if (std::find(p.dims.begin(), p.dims.end(), o.dim) == p.dims.end())
    return usage("the engine has no dimension '%s'", o.dim.c_str());
  Rng rng(o.seed);
  std::vector<int64_t> lengths(static_cast<size_t>(o.longest - 1));
  std::iota(lengths.begin(), lengths.end(), 2);
  for (size_t k = lengths.size(); k > 1; --k)
    std::swap(lengths[k - 1], lengths[static_cast<size_t>(rng.below(static_cast<int64_t>(k)))]);
  lengths.resize(std::min(lengths.size(), static_cast<size_t>(o.lengths)));
  std::vector<double> first, after, more, prepare, again;
  PERI_ASSIGN(const auto warm, inputs_at(p, o, 1));  // packs the weights
  double ignored = 0, prepare_ms = 0, a = 0, b = 0;
  std::vector<Tensor> ya, yb;
  PERI_TRY(run_timed(&plain, warm, false, &ignored, &a, &ya));
  PERI_TRY(run_timed(&ready, warm, true, &ignored, &b, &yb));
  for (int64_t round = 0; round < o.rounds; ++round) {
    for (size_t k = 0; k < lengths.size(); ++k) {
      PERI_ASSIGN(const auto in, inputs_at(p, o, lengths[k]));
      if (k % 2) PERI_TRY(run_timed(&plain, in, false, &ignored, &a, &ya));
      PERI_TRY(run_timed(&ready, in, true, &prepare_ms, &b, &yb));
      if (k % 2 == 0) PERI_TRY(run_timed(&plain, in, false, &ignored, &a, &ya));
      for (size_t j = 0; j < ya.size(); ++j)
        if (!ya[j].same_content(yb[j])) return internal_error("the answers of the two copies differ");
      first.push_back(a);
      after.push_back(b);
      more.push_back(a - b);
      prepare.push_back(prepare_ms);
      if (k == 0) continue;
      PERI_ASSIGN(const auto earlier, inputs_at(p, o, lengths[k - 1]));
      PERI_TRY(run_timed(&ready, earlier, true, &prepare_ms, &b, &yb));
      again.push_back(prepare_ms);
    }
  }
  std::printf("%zu lengths from 2 to %lld in random order (seed %llu), %d threads, %zu steps\n", lengths.size(),
              static_cast<long long>(o.longest), static_cast<unsigned long long>(o.seed), o.threads, p.steps.size());
  line("run at a new length", first);
  line("run after prepare()", after);
  line("the new length takes more", more);
  line("prepare() for a new length", prepare);
  line("prepare() for the length before", again);
  std::printf("ratio of the means %.4f\n", mean(first) / mean(after));
  return Ok{};
}

bool read_options(int argc, char** argv, Options* o) {
  if (argc < 2) return false;
  o->engine = argv[1];
  for (int k = 2; k + 1 < argc; k += 2) {
    const std::string flag = argv[k];
    if (flag == "--dim")
      o->dim = argv[k + 1];
    else if (flag == "--lengths")
      o->lengths = std::atoll(argv[k + 1]);
    else if (flag == "--longest")
      o->longest = std::atoll(argv[k + 1]);
    else if (flag == "--threads")
      o->threads = std::atoi(argv[k + 1]);
    else if (flag == "--seed")
      o->seed = static_cast<uint64_t>(std::atoll(argv[k + 1]));
    else if (flag == "--rounds")
      o->rounds = std::atoll(argv[k + 1]);
    else
      return false;
  }
  return argc % 2 == 0 && o->longest >= 2 && o->lengths >= 2 && o->threads >= 1 && o->rounds >= 1;
}
}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!read_options(argc, argv, &o)) {
    std::fprintf(
        stderr,
        "usage: new_shapes ENGINE [--lengths N] [--longest N] [--dim NAME] [--threads N] [--seed N] [--rounds N]\n");
    return 2;
  }
  const Status done = measure(o);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
