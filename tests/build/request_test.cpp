// A request is turned into options in one place, a subject is judged against the graph it must agree with and no other,
// and a proof explains itself.
// label: cpu
#include "build/request.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/thread_pool.hpp"
#include "build/build.hpp"
#include "build/explain.hpp"
#include "build/machine.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "build/subject.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

Request untuned() {
  Request r;
  r.model = kModel;
  r.tune = r.cache = false;
  r.threads = 1;
  return r;
}

TEST(Request, HasItsDefaultsInOnePlace) {
  Request r;
  const compile::Options o = options_of(r).value();
  EXPECT_EQ(o.tune.threads, usable_cpus());
  EXPECT_TRUE(o.tune.measure);
  EXPECT_TRUE(o.tune.verify);
  EXPECT_EQ(o.backend, "auto");
  EXPECT_NE(o.builder.find("peri "), std::string::npos);
  r.cache_folder = "/somewhere";
  EXPECT_EQ(options_of(r)->tune.cache_path, "/somewhere");
  r.cache = false;
  EXPECT_EQ(options_of(r)->tune.cache_path, "");
  r.worker = false;
  EXPECT_EQ(options_of(r)->tune.worker, "");
  r.threads = 3;
  EXPECT_EQ(options_of(r)->tune.threads, 3);
  r.threads = 1 << 20;
  EXPECT_EQ(options_of(r).error().kind, ErrorKind::kUsage);
}

TEST(Request, AnInterruptedEngineIsNoWholeOne) {
  Request r = untuned();
  r.stop = [] { return true; };
  const auto best = make_engine(r);
  ASSERT_TRUE(best.ok()) << best.error().text();
  EXPECT_TRUE(best->stopped);
  EXPECT_EQ(best->verdict(), "the engine was not run");
  EXPECT_EQ(make_whole_engine(r).error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(make_whole_engine(r).error().kind, ErrorKind::kCancelled);
}

TEST(Request, AValueThatNoPlanHoldsIsToldBeforeAnythingIsTried) {
  Request r = untuned();
  r.dims = {{"batch", 2'000'000'000}};
  size_t tried = 0;
  r.progress = [&](size_t, size_t total, const std::string&) { tried += total > 0; };
  const auto made = make_engine(r);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kMemory);
  EXPECT_NE(made.error().text().find("a value would take"), std::string::npos) << made.error().text();
  EXPECT_EQ(tried, 0U) << "candidates";
}

// An engine too large to be judged is run once all the same, if that is known to take no longer than a minute.
TEST(Verdict, SaysThatALargeEngineRanAndWasNotJudged) {
  EXPECT_TRUE(is_run_once(1e12, 0));
  EXPECT_FALSE(is_run_once(2e13, 0)) << "nobody knows how long";
  EXPECT_TRUE(is_run_once(2e13, 20e3));
  EXPECT_FALSE(is_run_once(2e13, 90e3));
  Made made;
  made.built.verdict.incomplete = "not run at batch=9: one run takes 13744 Gflop";
  EXPECT_EQ(made.verdict(), "the engine was not run at batch=9: one run takes 13744 Gflop");
  made.built.unjudged_run = "one run takes 13744 Gflop";
  EXPECT_EQ(made.verdict(), "the engine was not run at batch=9: one run takes 13744 Gflop");
  made.built.unjudged_run = "";
  made.built.compiled.program.tuned_for = {{"n", 4}};
  EXPECT_EQ(made.verdict(), "it runs at its tuned size; its answer was not judged: one run takes 13744 Gflop");
}

TEST(Verdict, SaysThatASmallerSizeWasJudgedAndTheTunedOneNot) {
  Made made;
  made.built.compiled.program.tuned_for = {{"n", 9}};
  judge::EngineVerdict& v = made.built.verdict;
  v.sizes.emplace_back().sizes = {{"n", 4}};
  v.sizes[0].steps_judged = 1;
  v.incomplete = "not run at n=9: to judge it takes 15.6 GiB of memory";
  const std::string open = "not judged at its tuned size: to judge it takes 15.6 GiB of memory";
  EXPECT_EQ(made.verdict(), "right at 1 size, 1 step judged; " + open);
  EXPECT_EQ(made.not_judged(), open);
  v.sizes.emplace_back().sizes = {{"n", 9}};
  v.incomplete.clear();
  EXPECT_EQ(made.verdict(), "right at 2 sizes, 1 step judged");
  EXPECT_EQ(made.not_judged(), "");
  v.sizes[1].nan_of = "y";
  v.sizes[1].nan = 3;
  v.sizes[1].nan_elements = 4;
  EXPECT_NE(made.verdict().find("; with made-up inputs 3 of the 4 elements of 'y' are NaN at n=9"), std::string::npos);
}

TEST(Subject, IsHeldAgainstItsOwnGraph) {
  auto subject = open_subject(untuned(), true);
  ASSERT_TRUE(subject.ok()) << subject.error().text();
  judge::VerifyTerms terms;
  const auto right = judge::verify(*subject, terms);
  ASSERT_TRUE(right.ok()) << right.error().text();
  EXPECT_TRUE(right->passed) << right->text();
  EXPECT_EQ(right->runs, 2u);
  // Another model's weights: one constant of the graph is changed.
  bool changed = false;
  for (const auto& value : subject->reference.values()) {
    const std::optional<Tensor>& old = value->constant;
    if (changed || !old || old->dtype() != DType::kF32 || old->numel() < 100) continue;
    Tensor other = Tensor::zeros(DType::kF32, old->dims()).value();
    for (int64_t k = 0; k < other.numel(); ++k) other.set_f64(k, old->f64(k) * (k % 2 ? 1.5 : 0.5));
    value->constant = std::move(other);
    changed = true;
  }
  ASSERT_TRUE(changed);
  const auto wrong = judge::verify(*subject, terms);
  ASSERT_TRUE(wrong.ok()) << wrong.error().text();
  EXPECT_FALSE(wrong->passed);
  EXPECT_NE(wrong->text().find("'logits' is outside its budget"), std::string::npos) << wrong->text();
}

TEST(Subject, CoarseTypesHaveTheirOwnRoundingUnlessABudgetIsGiven) {
  judge::Budget b;
  EXPECT_EQ(b.allowed(DType::kF32), 1e-4);
  EXPECT_EQ(b.allowed(DType::kBF16), 8 * unit_roundoff(DType::kBF16));
  EXPECT_EQ(b.allowed(DType::kI64), 0);
  b.given = true;
  EXPECT_EQ(b.allowed(DType::kBF16), 1e-4);
  EXPECT_GT(judge::peer_budget().min_cosine, 0.99);
}

TEST(Subject, EnginesShareADeviceWhereTheTargetIsNotTheCpu) {
  Request r;
  EXPECT_FALSE(shares_device(r));
  for (const char* backend : {"cpu", "null", "no_such"}) {
    r.backend = backend;
    EXPECT_FALSE(shares_device(r)) << backend;
  }
  r.backend = "cuda";
  EXPECT_TRUE(shares_device(r));
  r.backend = "auto";
  r.device = "cuda:1";
  EXPECT_TRUE(shares_device(r)) << "as the device's backend";
}

TEST(Explanation, SumsItsSteps) {
  Request r = untuned();
  const Json proof = proof_of(r).value();
  const auto e = explain(proof, false);
  ASSERT_TRUE(e.ok()) << e.error().text();
  double floor = 0;
  for (const ExplainedStep& s : e->steps) floor += s.floor.value_or(0);
  EXPECT_GT(floor, 0);
  EXPECT_NEAR(e->floor, floor, 1e-9 * floor);
  EXPECT_EQ(e->ms, 0);
  EXPECT_NE(e->text().find("none measured (built without tuning)"), std::string::npos);
  EXPECT_FALSE(explain(parse_json("{}").value(), false).ok());
  const auto json = parse_json(explanation_json("m", proof, *e));  // what was not measured has no time
  ASSERT_TRUE(json.ok()) << json.error().text();
  for (const char* key : {"total_ms", "share_of_floor", "share_of_peak"})
    EXPECT_TRUE(json->find(key)->is_null()) << key;
  const auto layers = json->get_array("layers");
  ASSERT_TRUE(layers.ok());
  for (const Json& layer : **layers) EXPECT_TRUE(layer.find("ms")->is_null());
}

// A step of a device is priced by what that device cannot leave out, as it was told when it was timed; where nobody
// told it, there is no floor, and it is said.
TEST(Explanation, FloorsAreThoseOfTheDeviceAStepRunsOn) {
  const auto explained = [](const char* evidence, const char* device) {
    static Json proof;
    std::string text = R"({"machine": )";
    JsonWriter machine;
    write_machine(machine, machine_facts());
    text += machine.take() + R"(, "threads": 1, "ceilings": )";
    JsonWriter ceilings;
    bench::write_ceilings(ceilings, bench::machine_ceilings(1));
    text += ceilings.take() + R"(, "peaks": )";
    JsonWriter peaks;
    bench::write_peaks(peaks, bench::measure_peaks(1, 0.01));
    text += peaks.take() + R"(, "verification": {"steps": 1, "steps_verified": 1, "steps_of_earlier_builds": 0},
      "steps": [{"name": "y", "chosen": "k@1 {}", )" +
            std::string(device) + R"("evidence": )" + evidence + R"(, "work": {"flops": 1e12, "algorithm_flops": 1e12,
      "least_flops": 1e12, "narrow": false, "bytes": 1e9}}]})";
    proof = parse_json(text).value();
    auto e = explain(proof, false);
    EXPECT_TRUE(e.ok()) << e.error().text();
    return std::move(*e);
  };
  const Explanation host = explained(R"({"time_ms": 1, "statistic": "p20"})", "");
  EXPECT_GT(host.floor, 10) << "a teraflop on one thread";
  EXPECT_EQ(host.floorless, 0u);
  const Explanation told =
      explained(R"({"time_ms": 1, "statistic": "slope", "floor_ms": 0.75})", R"("device": "cuda", )");
  EXPECT_EQ(told.floor, 0.75);
  EXPECT_EQ(told.sustained, 0);
  EXPECT_EQ(told.away, 1u);
  EXPECT_NE(told.text().find("hardware minimum 0.750 ms, 1 thread"), std::string::npos) << told.text();
  const Explanation untold = explained(R"({"time_ms": 1, "statistic": "slope"})", R"("device": "cuda", )");
  EXPECT_EQ(untold.floor, 0);
  EXPECT_FALSE(untold.steps[0].floor);
  EXPECT_NE(untold.text().find("(of 1 step on a device it is not known)"), std::string::npos) << untold.text();
  const std::string json = explanation_json("e", *untold.steps[0].step, untold);
  EXPECT_EQ(json.find("floor_ms", json.find("layers")), std::string::npos) << json;
}

}  // namespace
}  // namespace peri::build
