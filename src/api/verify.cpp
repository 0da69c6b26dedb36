// Verification through the C interface.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "api/callbacks.hpp"
#include "api/handles.hpp"
#include "build/open.hpp"
#include "build/subject.hpp"
#include "hf/import.hpp"
#include "judge/seeded.hpp"

namespace peri::api {
namespace {

// Where 0 is the default, a number that has no full precision stands for 0.
double as_meant(double value) { return std::abs(value) < std::numeric_limits<double>::min() ? 0 : value; }

// What is 0 is as it was.
Status set_budget(const peri_verify_options& given, judge::Budget* b) {
  const auto take = [](double value, const char* name, double least, double most, double* out) -> Status {
    if (!(value >= least && value <= most) || !std::isfinite(value))
      return usage("peri_verify_options.%s is not in range", name)
          .expecting(std::isfinite(most) ? format("%g to %g", least, most) : "a finite number of 0 or more")
          .but_found(format("%g", value));
    if (value != 0) *out = as_meant(value);
    return Ok{};
  };
  PERI_TRY(take(given.min_cosine, "min_cosine", -1, 1, &b->min_cosine));
  PERI_TRY(take(given.max_change, "max_change", 0, INFINITY, &b->max_change));
  PERI_TRY(take(given.rtol, "rtol", 0, INFINITY, &b->tolerance.rtol));
  return take(given.atol, "atol", 0, INFINITY, &b->tolerance.atol);
}

// Of a run that compares no output, what is said of outputs would be ignored.
Status check_steps_only(const peri_verify_options& given) {
  const std::pair<const char*, bool> kOfOutputs[] = {{"peer_model", given.peer_model != nullptr},
                                                     {"max_error", given.max_error != 0},
                                                     {"min_cosine", given.min_cosine != 0},
                                                     {"max_change", given.max_change != 0},
                                                     {"rtol", given.rtol != 0},
                                                     {"atol", given.atol != 0}};
  for (const auto& [name, is_given] : kOfOutputs)
    if (is_given) return usage("the option %s is for outputs, and bisect = 2 compares none", name);
  if (given.seed_count > 1)
    return usage("peri_verify_options.seeds holds %zu seeds, and bisect = 2 makes one run", given.seed_count);
  return Ok{};
}

Result<judge::VerifyTerms> terms_of(const peri_engine& engine, const peri_verify_options& given,
                                    const Callbacks& callbacks) {
  judge::VerifyTerms t;
  t.threads = engine.engine->options().threads;
  if (given.threads) {
    PERI_ASSIGN(t.threads, build::threads_of(given.threads));
  }
  if (given.seed_count && !given.seeds) return usage("peri_verify_options.seeds is NULL and seed_count is not 0");
  if (given.seed_count) t.seeds.assign(given.seeds, given.seeds + given.seed_count);
  for (size_t k = 1; k < t.seeds.size() && given.seed_count; ++k)
    if (std::find(t.seeds.begin(), t.seeds.begin() + static_cast<std::ptrdiff_t>(k), t.seeds[k]) !=
        t.seeds.begin() + static_cast<std::ptrdiff_t>(k))
      return usage("peri_verify_options.seeds holds %llu twice", static_cast<unsigned long long>(t.seeds[k]));
  if (given.peer_model && !*given.peer_model)
    return usage("the option peer_model is an empty path").advise("give NULL to compare with the float64 reference");
  if (given.peer_model) {
    auto file = hf::onnx_file_of(given.peer_model);
    if (!file.ok())
      return std::move(file).error().advise(
          "verify a folder against the float64 reference: leave the option peer_model out");
    t.peer_model = *std::move(file);
    t.budget = judge::peer_budget();
  }
  if (!(given.max_error >= 0) || !std::isfinite(given.max_error))
    return usage("peri_verify_options.max_error is not in range")
        .expecting("a finite number of 0 or more")
        .but_found(format("%g", given.max_error));
  if (given.max_error > 0) {
    t.budget.max_error = as_meant(given.max_error);
    t.budget.given = true;
  }
  if (given.bisect < 0 || given.bisect > 2)
    return usage("peri_verify_options.bisect is not in range")
        .expecting("0, 1 or 2")
        .but_found(format("%d", given.bisect));
  t.bisect = given.bisect != 0;
  t.steps_only = given.bisect == 2;
  if (t.steps_only) PERI_TRY(check_steps_only(given));
  t.budget.nan_equal = given.nan_equal != 0;
  PERI_TRY(set_budget(given, &t.budget));
  t.progress = callbacks.progress();
  t.stop = callbacks.stop();
  if (!given.in && given.in_count) return usage("peri_verify_options.in is NULL and in_count is not 0");
  if (given.in) {
    if (given.dim_count || given.seed_count)
      return usage("peri_verify_options has inputs of its own: give neither seeds nor dims");
    const plan::Program& program = engine.engine->program();
    PERI_ASSIGN(const TensorArray array, TensorArray::of_inputs(given.in, given.in_count, program.inputs.size()));
    PERI_ASSIGN(std::vector<Tensor> inputs, inputs_of(program, array));
    t.seeds = {0};
    t.given = true;
    t.inputs = [inputs](uint64_t) -> Result<std::vector<Tensor>> { return inputs; };
    return t;
  }
  PERI_ASSIGN(const auto dims, named_dims(given.dims, given.dim_count, "dims"));
  PERI_ASSIGN(const DimBinding sizes, build::program_dims(engine.engine->program(), dims));
  t.sizes = sizes;
  t.inputs = [&program = engine.engine->program(), sizes](uint64_t seed) {
    return judge::random_inputs(program, sizes, seed * 1000);
  };
  return t;
}

// The error where an answer is outside; the report in any case.
Status verify(const peri_engine& engine, const peri_verify_options& given, peri_report** out) {
  const Callbacks callbacks(given.progress, given.stop, given.user);
  PERI_ASSIGN(const judge::VerifyTerms terms, terms_of(engine, given, callbacks));
  PERI_ASSIGN(judge::Subject subject, build::subject_of(engine.engine, engine.path));
  if (engine.file) subject.check_files = [file = engine.file] { return file->check(); };
  PERI_ASSIGN(const judge::Verification v, callbacks.result(judge::verify(subject, terms)));
  if (out) *out = std::make_unique<peri_report>(peri_report{judge::verification_json(v)}).release();
  if (v.passed) return Ok{};
  return Error(ErrorKind::kAccuracy, v.text()).in_file(engine.path);
}
}  // namespace
}  // namespace peri::api

extern "C" {

peri_error* peri_engine_verify(const peri_engine* engine, const peri_verify_options* options, peri_report** report) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!engine) return peri::usage("peri_engine_verify needs an engine");
    PERI_ASSIGN(const peri_verify_options o, peri::api::known_part(options, "peri_verify_options"));
    return peri::api::verify(*engine, o, report);
  });
}

const char* peri_report_json(const peri_report* report) { return report ? report->json.c_str() : ""; }

void peri_report_free(peri_report* report) { std::unique_ptr<peri_report>{report}.reset(); }

}  // extern "C"
