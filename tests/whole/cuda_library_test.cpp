// Products by a library on a (fake) GPU in a whole engine: captured, replayed and right at every size; with the choice
// of a lock, with one that the library takes no more, and without the library.
#include <gtest/gtest.h>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;

class CudaLibrary : public testing::Test {
 protected:
  void SetUp() override {
    Fakes::control<void()>("driver", "fake_reset")();
    Fakes::control<void()>("cublaslt", "fake_lt_reset")();
    using Enqueue = void(void*, void (*)(void*), void*);
    Fakes::control<void(Enqueue*)>("cublaslt", "fake_lt_queue")(Fakes::control<Enqueue>("driver", "fake_enqueue"));
  }
  void TearDown() override { Fakes::control<void()>("cublaslt", "fake_lt_reset")(); }
  static long products() { return Fakes::control<long()>("cublaslt", "fake_lt_products")(); }

  static Result<Built> build(std::optional<plan::Lock> lock = {}, const char* provider = "cublaslt") {
    Options o;
    o.compile.model = std::string(tests::kSourceDir) + "/models/digits_transformer.onnx";
    o.compile.backend = "cuda";
    o.compile.tune.threads = 2;
    o.compile.tune.provider = provider;
    o.compile.lock = std::move(lock);
    o.judge = true;
    o.executors = table();
    return build_engine(o);
  }
  static const std::vector<const runtime::Executor*>& table() {
    static const auto kTable = exec::table();
    return kTable;
  }
  // Configurations of the library's steps.
  static std::vector<std::string> configs(const plan::Program& p) {
    std::vector<std::string> out;
    for (const plan::Step& s : p.steps)
      for (const plan::Variant& v : s.variants)
        if (auto payload = exec::read_payload(v.payload); s.executor == "cuda" && payload.ok())
          out.push_back(payload->kernel + " " + payload->config);
    return out;
  }
  const Fakes fakes_{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}, {"libcublasLt.so.13", "cublaslt"}};
};

TEST_F(CudaLibrary, AnEngineRunsIt) {
  const auto built = build();
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_TRUE(built->verdict.right());
  EXPECT_GE(built->verdict.sizes.size(), 2U);
  const std::vector<std::string> all = configs(built->compiled.program);
  EXPECT_GT(all.size(), 5U);
  for (const std::string& c : all) EXPECT_EQ(c, "cuda_blaslt heuristic");
  EXPECT_GT(products(), static_cast<long>(all.size()));
}

// Locks hold what was resolved: each choice of the engine's own lock, written anew.
TEST_F(CudaLibrary, ALockedChoiceIsKept) {
  const auto built = build();
  ASSERT_TRUE(built.ok()) << built.error().text();
  const kernels::Kernel* const kernel = kernels::find("cuda_blaslt");
  for (const auto& [version, fallback] : {std::pair("130100", false), {"120000", true}}) {
    plan::Lock lock = built->compiled.lock;
    size_t changed = 0;
    for (plan::LockedChoice& c : lock.regions)
      if (c.candidate.starts_with("cuda_blaslt@")) {
        c.candidate = format(
            "cuda_blaslt@%d {sizes=1x1x1x1 version=%s algo=61 tile=21 split=4 reduction=0 swizzle=0 "
            "custom=0 stages=0 inner=0 cluster=2}",
            kernel->version, version);
        ++changed;
      }
    ASSERT_GT(changed, 5U);
    const auto again = build(lock);
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_TRUE(again->verdict.right()) << fallback;
    for (const std::string& c : configs(again->compiled.program)) EXPECT_NE(c.find("algo=61"), std::string::npos) << c;
  }
}

TEST_F(CudaLibrary, WithoutItItsProviderIsRefused) {
  const Fakes none{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
  const auto built = build();
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::kRefused);
  EXPECT_NE(built.error().text().find("provider 'cublaslt' needs cublaslt, which was not found"), std::string::npos)
      << built.error().text();
}

TEST_F(CudaLibrary, AnEngineWithoutItDoesNotLoad) {
  const auto built = build();
  ASSERT_TRUE(built.ok()) << built.error().text();
  const Fakes none{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
  runtime::WeightSource weights;
  weights.tensors = built->compiled.weights;
  auto engine = runtime::Engine::create(built->compiled.program, std::move(weights), engine_options(table(), 2));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok()) << session.error().text();
  const auto run = (*session)->run(std::vector<Tensor>{*Tensor::zeros(DType::kF32, {3, 1, 8, 8})});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(run.error().text().find("cuBLASLt (libcublasLt.so.13) is not found"), std::string::npos)
      << run.error().text();
}

}  // namespace
}  // namespace peri::build
