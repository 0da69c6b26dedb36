// A lock gives the same bytes as the tuned build it came from, and refuses by name what is not here; results are the
// same bits from run to run, for 1 and 2 threads, with each provider forced.
// label: cpu
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.hpp"
#include "build/open.hpp"
#include "compile/compile.hpp"
#include "judge/seeded.hpp"
#include "plan/engine_file.hpp"
#include "runtime/engine.hpp"
#include "tests/places.hpp"

namespace peri {
namespace {

const std::vector<std::string> kModels = {"digits_cnn", "digits_transformer"};

compile::Options options_for(const std::string& model) {
  compile::Options o;
  o.model = std::string(tests::kSourceDir) + "/models/" + model + ".onnx";
  o.tune.threads = 2;
  o.tune.budget_ms = 1;
  o.builder = "peri test";
  return o;
}

struct Built {
  std::string bytes;
  plan::Lock lock;
};
Built build(const compile::Options& options, const std::string& path) {
  Result<compile::Compiled> made = compile::compile(options);
  EXPECT_TRUE(made.ok()) << made.error().text();
  if (!made.ok()) return {};
  const Status written = plan::write_engine(path, made->program, made->weights);
  EXPECT_TRUE(written.ok()) << written.error().text();
  return {read_file(path, size_t{1} << 30).value(), made->lock};
}

std::string scratch(const std::string& name) {
  return std::string(tests::kBuildDir) + "/peri_lock_" + name + ".engine";
}

TEST(Lock, TunedAndLockedBuildsAreTheSameBytes) {
  for (const std::string& model : kModels) {
    compile::Options options = options_for(model);
    const Built tuned = build(options, scratch(model));
    ASSERT_FALSE(tuned.lock.regions.empty()) << model;
    Result<plan::Lock> lock = plan::parse_lock(plan::lock_text(tuned.lock));
    ASSERT_TRUE(lock.ok()) << lock.error().text();
    options.lock = *lock;
    for (int k = 0; k < 2; ++k) {
      const Built again = build(options, scratch(model + std::to_string(k)));
      EXPECT_TRUE(again.bytes == tuned.bytes) << model << " differs, locked build " << k;
      EXPECT_EQ(plan::lock_text(again.lock), plan::lock_text(tuned.lock)) << model;
    }
  }
}

TEST(Lock, IsObeyedAndNotChosenAgain) {
  compile::Options options = options_for("digits_transformer");
  options.tune.measure = options.tune.verify = false;
  Result<compile::Compiled> made = compile::compile(options);
  ASSERT_TRUE(made.ok()) << made.error().text();
  ASSERT_TRUE(made->lock.conversions.empty())
      << "all row-major: any region may go to the reference without a conversion";
  ASSERT_NE(made->lock.regions[0].candidate, "reference");
  made->lock.regions[0].candidate = "reference";
  made->lock.regions[0].requires_isa.clear();
  options.lock = made->lock;
  Result<compile::Compiled> again = compile::compile(options);
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->lock.regions[0].candidate, "reference");
}

TEST(Lock, RefusesByNameWhatIsNotHere) {
  compile::Options options = options_for("digits_cnn");
  options.tune.measure = options.tune.verify = false;
  Result<compile::Compiled> made = compile::compile(options);
  ASSERT_TRUE(made.ok()) << made.error().text();
  const plan::Lock good = made->lock;
  const auto refusal = [&](const std::string& says, auto change) {
    compile::Options o = options;
    o.lock = good;
    change(&o);
    Result<compile::Compiled> again = compile::compile(o);
    ASSERT_FALSE(again.ok()) << says;
    EXPECT_EQ(again.error().kind, ErrorKind::kRefused) << again.error().text();
    EXPECT_NE(again.error().text().find(says), std::string::npos) << again.error().text();
  };
  refusal("nonsense@1 {}", [](auto* o) { o->lock->regions[0].candidate = "nonsense@1 {}"; });
  refusal("avx1024", [](auto* o) { o->lock->regions[0].requires_isa = "avx1024"; });
  refusal("onednn 0.0.1", [](auto* o) { o->lock->regions[0].library = "onednn 0.0.1"; });
  refusal(good.regions[0].key, [](auto* o) { o->lock->regions.erase(o->lock->regions.begin()); });
  refusal("0123456789abcdef",
          [](auto* o) { o->lock->regions.push_back({"x", "0123456789abcdef", "reference", "", "", ""}); });
  refusal("peri other", [](auto* o) { o->lock->builder = "peri other"; });
  refusal("onednn", [](auto* o) { o->tune.provider = "onednn"; });
  refusal("batch", [](auto* o) { o->dims["batch"] = 5; });
  refusal("the lock says nothing", [](auto* o) {
    o->model = options_for("digits_transformer").model;
    o->lock->dims.clear();
  });
}

TEST(Bits, AreTheSameFromRunToRunForThreadsAndProviders) {
  for (const std::string& model : kModels) {
    for (const char* provider : {"", "peri", "onednn", "reference"}) {
      compile::Options options = options_for(model);
      options.tune.measure = options.tune.verify = false;
      options.tune.provider = provider;
      const std::string path = scratch(model + "_" + provider);
      build(options, path);
      std::vector<std::vector<Tensor>> all;
      for (const int threads : {1, 2, 1, 2}) {
        auto engine = build::load(path, build::run_options(threads));
        ASSERT_TRUE(engine.ok()) << engine.error().text();
        std::vector<Tensor> inputs;
        for (const plan::Port& port : (*engine)->program().inputs) {
          DimBinding dims;
          for (const std::string& d : (*engine)->program().dims) dims[d] = 3;
          inputs.push_back(judge::random_input(port, dims, 11).value());
        }
        auto session = runtime::Session::create(*engine).value();
        for (int run = 0; run < 2; ++run) {
          auto outputs = session->run(inputs);
          ASSERT_TRUE(outputs.ok()) << outputs.error().text();
          all.push_back(std::move(outputs).value());
        }
      }
      for (const std::vector<Tensor>& outputs : all)
        for (size_t k = 0; k < outputs.size(); ++k)
          EXPECT_TRUE(std::ranges::equal(outputs[k].bytes(), all[0][k].bytes()))
              << model << " " << provider << " output " << k;
    }
  }
}

}  // namespace
}  // namespace peri
