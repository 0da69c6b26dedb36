// A library that refuses a size when the step is made for it, on a GPU that is none: another kernel takes the size, the
// one that is expected to take the least time, and where candidates are tried it is a refusal.
#include <gtest/gtest.h>

#include "build/build.hpp"
#include "exec/entry.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/tune/planted_sum.hpp"

namespace peri::build {
namespace {
using device::tests::Fakes;
using kernels::cuda::LaunchArgument;
using kernels::cuda::LibraryCall;

constexpr int64_t kTaken = 30 * 40;  // elements
bool everything_refused = false;

// y = x + w, enqueued as a library does.
class Sum final : public kernels::cuda::LibraryWork {
 public:
  explicit Sum(int64_t n) : n_(n) {}
  Status enqueue(std::span<const device::Argument> at, device::Address, void* stream) const override {
    struct Call {
      const float *x, *w;
      float* y;
      int64_t n;
    };
    const auto of = [&](size_t k) { return reinterpret_cast<float*>(at[k].address.value); };
    using Enqueue = void(void*, void (*)(void*), void*);
    auto* const call = static_cast<Call*>(malloc(sizeof(Call)));  // the fake frees it
    *call = {of(0), of(1), of(2), n_};
    Fakes::control<Enqueue>("driver", "fake_enqueue")(
        stream,
        [](void* data) {
          const Call& c = *static_cast<Call*>(data);
          for (int64_t k = 0; k < c.n; ++k) c.y[k] = c.x[k] + c.w[k];
        },
        call);
    return Ok{};
  }

 private:
  int64_t n_;
};

kernels::Kernel sums_of_a_library() {
  kernels::Kernel k = tune::planted::sum_kernel<0>();
  k.name = "library_sum";
  k.provider = "planted";
  k.tunables = {};
  k.instantiate = [](const kernels::Problem& p, std::string_view,
                     const kernels::InstantiateContext&) -> Result<std::unique_ptr<kernels::Instance>> {
    LibraryCall call;
    call.arguments = {
        {LaunchArgument::From::kInput, 0}, {LaunchArgument::From::kInput, 1}, {LaunchArgument::From::kOutput, 0}};
    int64_t n = 1;
    for (const int64_t d : kernels::dims_of(*p.graph->outputs[0])) n *= d;
    call.make = [n](device::cuda::CudaDevice&) -> Result<std::unique_ptr<const kernels::cuda::LibraryWork>> {
      if (n != kTaken || everything_refused) return refused("the library has no engine for it");
      return std::unique_ptr<const kernels::cuda::LibraryWork>(std::make_unique<Sum>(n));
    };
    return std::unique_ptr<kernels::Instance>(
        std::make_unique<kernels::cuda::LaunchInstance>(std::vector<LibraryCall>{std::move(call)}));
  };
  return k;
}

class CudaRefused : public device::tests::HostedGpu {
 protected:
  void TearDown() override { everything_refused = false; }
  static Result<Built> built() {
    compile::Imported model;
    auto g = ir::parse_graph("graph { input x: f32[batch,40]; input w: f32[batch,40]; y = add(x, w); output y }");
    EXPECT_TRUE(g.ok() && ops::infer_graph(*g).ok());
    model.graph = std::move(*g);
    Options o;
    o.compile.model = "refused";
    o.compile.backend = "cuda";
    o.compile.dims["batch"] = 30;
    o.compile.tune.provider = "planted";
    o.compile.tune.verify = false;
    o.compile.tune.budget_ms = 1;
    o.judge = false;
    static const auto kTable = exec::table();
    o.executors = kTable;
    return build_engine(o, std::move(model));
  }
};

TEST_F(CudaRefused, AnotherKernelTakesTheSize) {
  const kernels::Kernel library = sums_of_a_library();
  const kernels::AddedKernel known(library);
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  runtime::WeightSource weights;
  weights.tensors = b->compiled.weights;
  const auto table = exec::table();
  const auto engine = runtime::Engine::create(b->compiled.program, std::move(weights), engine_options(table, 1));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok()) << session.error().text();
  for (const int64_t batch : {30, 7, 30}) {
    const Tensor x = Tensor::of_f32({batch, 40}, std::vector<float>(static_cast<size_t>(batch) * 40, 2.5F));
    const auto run = (*session)->run(std::vector<Tensor>{x, x});
    ASSERT_TRUE(run.ok()) << batch << ": " << run.error().text();
    for (int64_t k = 0; k < batch * 40; ++k) ASSERT_EQ((*run)[0].f64(k), 5.0) << batch;
  }
}

TEST_F(CudaRefused, ACandidateThatIsRefusedSoIsNoFailureOfTheBuild) {
  everything_refused = true;
  const kernels::Kernel library = sums_of_a_library(), own = tune::planted::sum_kernel<0>();
  const kernels::AddedKernel known(library), other(own);
  const auto b = built();
  ASSERT_TRUE(b.ok()) << b.error().text();
  for (const lower::StepReport& s : b->compiled.steps)
    if (!s.conversion) EXPECT_TRUE(s.chosen.starts_with(own.name)) << s.chosen;
}

}  // namespace
}  // namespace peri::build
