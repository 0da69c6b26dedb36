// One model stored in two ways, as in float32 and in float16: both engines run in turn, which one first changes from
// round to round. Prints the ratio of the medians with its interval, that of the files, and how far the answers differ.
// Usage: two_engines FIRST SECOND [--rounds N] [--size NAME=N] [--threads N] [--seed N] [--cpu-time 1]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"
#include "stats/stats.hpp"

namespace {
using namespace peri;

struct Options {
  std::string files[2];
  std::map<std::string, int64_t> sizes;  // of named dimensions; those the engine was tuned for otherwise
  int64_t rounds = 50;
  int threads = 2;
  uint64_t seed = 1;
  bool cpu_time = false;  // of the process, all threads: for a machine that others use
};

struct Subject {
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<runtime::Session> session;
  std::vector<Tensor> inputs, answers;
  std::vector<double> ms;
};

double ms_now(bool cpu_time) {
  timespec t = {};
  clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// Inputs whose floats both engines hold exactly.
Result<std::vector<Tensor>> inputs_of(const plan::Program& p, const Options& o) {
  DimBinding binding(p.tuned_for.begin(), p.tuned_for.end());
  for (const auto& [name, size] : o.sizes) binding[name] = size;
  Rng rng(o.seed);
  std::vector<Tensor> out;
  for (const plan::Port& port : p.inputs) {
    PERI_ASSIGN(auto dims, eval(port.shape, binding));
    PERI_ASSIGN(Tensor t, Tensor::zeros(port.dtype, dims));
    for (int64_t k = 0; k < t.numel(); ++k) {
      if (is_float(port.dtype))
        t.set_f64(k, static_cast<double>(rng.below(129) - 64) / 64);
      else
        t.set_i64(k, rng.below(2));
    }
    out.push_back(std::move(t));
  }
  return out;
}

Result<Subject> load(const std::string& path, const Options& o) {
  static const std::vector<const runtime::Executor*> table = exec::table();
  PERI_ASSIGN(plan::LoadedEngine file, plan::load_engine(path));
  runtime::EngineOptions options;
  options.executors = table;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  options.threads = o.threads;
  Subject s;
  PERI_ASSIGN(s.engine, runtime::Engine::create(std::move(file.program),
                                                runtime::mapped_weights(file.weight_bytes, file.file), options));
  PERI_ASSIGN(s.session, runtime::Session::create(s.engine));
  PERI_ASSIGN(s.inputs, inputs_of(s.engine->program(), o));
  return s;
}

Status run_once(Subject* s, const Options& o) {
  const double before = ms_now(o.cpu_time);
  PERI_ASSIGN(s->answers, s->session->run(s->inputs));
  s->ms.push_back(ms_now(o.cpu_time) - before);
  return Ok{};
}

// The largest difference of two answers over the largest value of the first.
double apart(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    if (!is_float(a[j].dtype())) continue;
    double most = 0, far = 0;
    for (int64_t k = 0; k < a[j].numel(); ++k) {
      most = std::max(most, std::fabs(a[j].f64(k)));
      far = std::max(far, std::fabs(a[j].f64(k) - b[j].f64(k)));
    }
    if (most > 0) worst = std::max(worst, far / most);
  }
  return worst;
}

Status measure(const Options& o) {
  Subject both[2];
  for (int k = 0; k < 2; ++k) {
    PERI_ASSIGN(both[k], load(o.files[k], o));
    for (int warm = 0; warm < 3; ++warm) PERI_TRY(run_once(&both[k], o));
    both[k].ms.clear();
  }
  for (int64_t round = 0; round < o.rounds; ++round)
    for (int64_t k = 0; k < 2; ++k) PERI_TRY(run_once(&both[(round + k) % 2], o));
  for (int k = 0; k < 2; ++k) {
    const stats::Interval i = stats::median_interval(both[k].ms);
    std::printf("%-40s %10.3f ms (%.3f to %.3f), %ju bytes\n", o.files[k].c_str(), stats::median(both[k].ms), i.low,
                i.high, static_cast<uintmax_t>(std::filesystem::file_size(o.files[k])));
  }
  const stats::Interval ratio = stats::ratio_interval(both[0].ms, both[1].ms);
  std::printf("%s of the second over the first %.3f (%.3f to %.3f), %lld rounds in turn, %d threads\n",
              o.cpu_time ? "CPU time" : "time", stats::median(both[1].ms) / stats::median(both[0].ms), ratio.low,
              ratio.high, static_cast<long long>(o.rounds), o.threads);
  std::printf("file of the second over the first %.3f\n",
              static_cast<double>(std::filesystem::file_size(o.files[1])) /
                  static_cast<double>(std::filesystem::file_size(o.files[0])));
  std::printf("answers differ by %.3g of the largest value\n", apart(both[0].answers, both[1].answers));
  return Ok{};
}

bool read_options(int argc, char** argv, Options* o) {
  if (argc < 3) return false;
  o->files[0] = argv[1];
  o->files[1] = argv[2];
  for (int k = 3; k + 1 < argc; k += 2) {
    const std::string flag = argv[k], value = argv[k + 1];
    const size_t equals = value.find('=');
    if (flag == "--rounds")
      o->rounds = std::atoll(value.c_str());
    else if (flag == "--threads")
      o->threads = std::atoi(value.c_str());
    else if (flag == "--seed")
      o->seed = static_cast<uint64_t>(std::atoll(value.c_str()));
    else if (flag == "--cpu-time")
      o->cpu_time = value == "1";
    else if (flag == "--size" && equals != std::string::npos)
      o->sizes[value.substr(0, equals)] = std::atoll(value.c_str() + equals + 1);
    else
      return false;
  }
  return argc % 2 == 1 && o->rounds >= 2 && o->threads >= 1;
}
}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!read_options(argc, argv, &o)) {
    std::fprintf(stderr,
                 "usage: two_engines FIRST SECOND [--rounds N] [--size NAME=N] [--threads N] [--seed N] [--cpu-time "
                 "1]\n");
    return 2;
  }
  const Status done = measure(o);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
