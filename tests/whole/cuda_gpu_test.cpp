// Whole models on a GPU: the judge of the engine finds nothing, every step is there, runs give the same bits, on memory
// and a stream of others too.
// label: gpu
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "build/build.hpp"
#include "device/cuda/cuda.hpp"
#include "exec/entry.hpp"
#include "tests/places.hpp"

namespace peri::build {
namespace {

// Of the sources, or of an archive of tests that was unpacked elsewhere (tools/gpu/run.sh).
std::string model_file(const std::string& name) {
  const char* const models = std::getenv("MODELS");
  return (models ? std::string(models) : std::string(tests::kSourceDir) + "/models") + "/" + name;
}

class GpuModel : public testing::TestWithParam<const char*> {};

TEST_P(GpuModel, IsRightAndRunsThereAlone) {
  const auto table = exec::table();
  Options o;
  o.compile.model = model_file(GetParam());
  o.compile.backend = "cuda";
  o.compile.tune.threads = 2;
  o.judge = true;
  o.executors = table;
  const auto built = build_engine(o);
  ASSERT_TRUE(built.ok()) << built.error().text();
  EXPECT_TRUE(built->verdict.right());
  EXPECT_GE(built->verdict.sizes.size(), 2U);
  const plan::Program& p = built->compiled.program;
  EXPECT_TRUE(std::all_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.device != plan::kHost; }));
  runtime::WeightSource weights;
  weights.tensors = built->compiled.weights;
  auto engine = runtime::Engine::create(p, std::move(weights), engine_options(table, 2));
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto session = runtime::Session::create(*engine);
  ASSERT_TRUE(session.ok()) << session.error().text();
  const std::vector<Tensor> x = {*Tensor::zeros(DType::kF32, {3, 1, 8, 8})};
  const auto first = (*session)->run(x);
  ASSERT_TRUE(first.ok()) << first.error().text();
  for (int k = 0; k < 1000; ++k) {
    const auto again = (*session)->run(x);
    ASSERT_TRUE(again.ok()) << again.error().text();
    ASSERT_TRUE(std::ranges::equal((*again)[0].bytes(), (*first)[0].bytes())) << k;
  }
}
INSTANTIATE_TEST_SUITE_P(Models, GpuModel, testing::Values("digits_cnn.onnx", "digits_transformer.onnx"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

const std::vector<const runtime::Executor*>& executors() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  return kTable;
}

Options gpu_options(const std::string& model) {
  Options o;
  o.compile.model = model;
  o.compile.backend = "cuda";
  o.executors = executors();
  return o;
}

Result<std::shared_ptr<const runtime::Engine>> engine_of(const Built& built) {
  runtime::WeightSource weights;
  weights.tensors = built.compiled.weights;
  return runtime::Engine::create(built.compiled.program, std::move(weights), engine_options(executors(), 2));
}

Result<std::shared_ptr<const runtime::Engine>> digits_engine() {
  PERI_ASSIGN(const Built built, build_engine(gpu_options(model_file("digits_cnn.onnx"))));
  return engine_of(built);
}

// Memory of the driver's that the session's device did not give, and a stream that it did not make.
TEST(GpuPorts, MemoryAndStreamOfOthersAreWorkedOnInPlace) {
  const auto engine = digits_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto made = runtime::Session::create(*engine).value();
  runtime::Session& session = *made;
  const Tensor x = Tensor::of_f32({2, 1, 8, 8}, std::vector<float>(128, 0.25F));
  const auto wanted = session.run(std::vector<Tensor>{x});
  ASSERT_TRUE(wanted.ok()) << wanted.error().text();
  ASSERT_NE(session.resident_device(), nullptr) << "inputs and outputs lie on the GPU";
  auto other = device::cuda::make_cuda_device();
  ASSERT_TRUE(other.ok());
  device::Memory in = (*other)->allocate(512).value(), out = (*other)->allocate(80).value();
  auto stream = (*other)->make_stream().value();
  ASSERT_TRUE(stream->copy_in(in.address(), x.bytes()).ok() && stream->synchronize().ok());

  const device::cuda::Driver& driver = (*other)->driver();
  device::cuda::CuContext context = nullptr, popped = nullptr;
  device::cuda::CuStream native = nullptr;
  ASSERT_EQ(driver.retain(&context, 0), 0);
  ASSERT_EQ(driver.push(context), 0);
  ASSERT_EQ(driver.stream_create(&native, device::cuda::kCuNonBlocking), 0);
  {
    auto lent = session.resident_device()->lend_stream(native).value();
    runtime::ResidentRun run;
    run.inputs = {{in.address(), {}}};
    run.outputs = {{out.address(), {}}};
    run.stream = lent.get();
    run.wait = false;
    for (int k = 0; k < 4; ++k) {
      const Status ran = session.run_resident(run);
      ASSERT_TRUE(ran.ok()) << ran.error().text();
      EXPECT_EQ(session.port_use(), k == 0 ? runtime::PortUse::kCopied : runtime::PortUse::kInPlace)
          << session.why_copied();
    }
    EXPECT_EQ(driver.stream_synchronize(native), 0) << "which stands behind the runs";
    EXPECT_TRUE(session.finish().ok());
  }
  std::vector<std::byte> answer(80);
  ASSERT_TRUE(stream->copy_out(answer, out.address()).ok() && stream->synchronize().ok());
  EXPECT_TRUE(std::ranges::equal(answer, (*wanted)[0].bytes()));
  EXPECT_EQ(driver.stream_destroy(native), 0);
  driver.pop(&popped);
  driver.release(0);

  runtime::ResidentRun astray;
  astray.inputs = {{{reinterpret_cast<uintptr_t>(answer.data())}, {}}};
  const Status refused = session.run_resident(astray);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("not device memory"), std::string::npos) << refused.error().text();
  EXPECT_TRUE(session.run(std::vector<Tensor>{x}).ok());
}

TEST(GpuPorts, TwoSessionsAtOnceGiveTheSameBits) {
  const auto engine = digits_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const Tensor x = Tensor::of_f32({2, 1, 8, 8}, std::vector<float>(128, 0.25F));
  const auto wanted = runtime::Session::create(*engine).value()->run(std::vector<Tensor>{x});
  ASSERT_TRUE(wanted.ok());
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const auto session = runtime::Session::create(*engine).value();
      for (int k = 0; k < 200; ++k) {
        const auto out = session->run(std::vector<Tensor>{x});
        right += out.ok() && std::ranges::equal((*out)[0].bytes(), (*wanted)[0].bytes());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 400);
}

// As a build does, which waits for all that its trials enqueued.
TEST(GpuPorts, SessionsCaptureNewSizesWhileAnotherThreadWaitsForTheDevice) {
  const auto engine = digits_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  std::atomic<bool> over{false};
  std::atomic<int> waited{0};
  std::thread waits([&] {
    while (!over) waited += (*engine)->device(1)->synchronize().ok();
  });
  std::string wrong;
  for (int64_t n = 1; n <= 200 && wrong.empty(); ++n) {
    const auto session = runtime::Session::create(*engine).value();
    const auto out = session->run(std::vector<Tensor>{*Tensor::zeros(DType::kF32, {1 + n % 8, 1, 8, 8})});
    if (!out.ok()) wrong = out.error().text();
  }
  over = true;
  waits.join();
  EXPECT_EQ(wrong, "");
  EXPECT_GT(waited, 0);
}

// Code of others that waits for the whole context, as libraries and frameworks of the same process do, spoils a
// capture: it is taken again.
TEST(GpuPorts, SessionsCaptureNewSizesWhileOtherCodeWaitsForTheContext) {
  const auto engine = digits_engine();
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  auto& gpu = dynamic_cast<device::cuda::CudaDevice&>(*(*engine)->device(1));
  void* const driver = dlopen(gpu.driver().path.c_str(), RTLD_NOW);
  ASSERT_NE(driver, nullptr);
  const auto wait_for_all = reinterpret_cast<int (*)()>(dlsym(driver, "cuCtxSynchronize"));
  ASSERT_NE(wait_for_all, nullptr);
  std::atomic<bool> over{false};
  int waits = 0, refused = 0;  // by the driver, where a capture was under way
  std::thread other([&] {
    (void)gpu.within([&]() -> Status {
      for (; !over; ++waits) {
        refused += wait_for_all() != 0;
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      return Ok{};
    });
  });
  std::string wrong;
  for (int64_t n = 1; n <= 200 && wrong.empty(); ++n) {
    const auto session = runtime::Session::create(*engine).value();
    const auto out = session->run(std::vector<Tensor>{*Tensor::zeros(DType::kF32, {1 + n % 8, 1, 8, 8})});
    if (!out.ok()) wrong = out.error().text();
  }
  over = true;
  other.join();
  EXPECT_EQ(wrong, "");
  std::printf("%d waits for the context, %d refused during a capture\n", waits, refused);
  EXPECT_GT(waits, 0);
}

// The run's error, with its node; the data beside is not touched, and the session runs again.
TEST(GpuIndices, OutOfRangeAreTheRunsErrorWithTheirNode) {
  compile::Imported model;
  auto g = ir::parse_graph(
      "graph { input x: f32[300,16]; input i: i64[40]; rows: f32[40,16] = gather(x, i); y: f32[40,16] = relu(rows); "
      "output y }");
  ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok());
  model.graph = std::move(*g);
  const auto built = build_engine(gpu_options("indices"), std::move(model));
  ASSERT_TRUE(built.ok()) << built.error().text();
  const plan::Program& p = built->compiled.program;
  EXPECT_TRUE(std::all_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.device != plan::kHost; }));
  const auto engine = engine_of(*built);
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  const auto session = runtime::Session::create(*engine).value();
  const Tensor x = Tensor::of_f32({300, 16}, std::vector<float>(4800, 0.5F));
  for (const int64_t index :
       {int64_t{0}, int64_t{299}, int64_t{300}, int64_t{-300}, int64_t{-301}, INT64_MAX, INT64_MIN}) {
    std::vector<int64_t> indices(40, 1);
    indices[39] = index;
    const auto out = session->run(std::vector<Tensor>{x, Tensor::of_i64({40}, indices)});
    ASSERT_EQ(out.ok(), -300 <= index && index < 300) << index;
    if (out.ok()) {
      EXPECT_EQ((*out)[0].f64(639), 0.5) << index;
    } else {
      EXPECT_NE(out.error().node.find("rows"), std::string::npos) << out.error().text();
      EXPECT_NE(out.error().text().find("[-300, 299]"), std::string::npos) << out.error().text();
    }
  }
}

}  // namespace
}  // namespace peri::build
