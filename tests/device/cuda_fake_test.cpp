// The CUDA device on a fake driver: every rule, every call failing in turn without a leak, and the end of a device that
// failed for good.
#include <atomic>
#include <thread>

#include "device/capture.hpp"
#include "tests/device/cuda_fakes.hpp"
#include "tests/device/cuda_kernels.hpp"

namespace peri::device::tests {
namespace {

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override { Fakes::control<void()>("driver", "fake_reset")(); }
  void TearDown() override { Fakes::control<void()>("driver", "fake_reset")(); }
  long live() { return Fakes::control<long()>("driver", "fake_live")(); }
  void fail(long call, int code) { Fakes::control<void(long, int)>("driver", "fake_fail")(call, code); }
  long calls() { return Fakes::control<long()>("driver", "fake_calls")(); }
  const Fakes fakes_{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}};
};

TEST_F(FakeCuda, KeepsEveryRule) {
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.name);
    const auto device = must(cuda::make_cuda_device());
    const auto compiler = must(cuda::Compiler::open(""));
    Kernels kernels = must(load_kernels(*device, *compiler));
    rule.run(kernels);
    EXPECT_EQ(device->counts().live, 0);
    EXPECT_EQ(device->counts().live_bytes, 0);
  }
  EXPECT_EQ(live(), 0);
}

// As the driver is told them, at once and in each replay.
TEST_F(FakeCuda, ToldOfClusters) {
  const auto device = must(cuda::make_cuda_device());
  const auto compiler = must(cuda::Compiler::open(""));
  const Kernels k = must(load_kernels(*device, *compiler));
  const Memory a = must(device->allocate(4096)), b = must(device->allocate(4096));  // eight blocks
  const auto stream = must(device->make_stream());
  const auto clusters = [] { return Fakes::control<long()>("driver", "fake_clusters")(); };
  must(stream->launch(k.of(k.scale, a, b, 1)));
  EXPECT_EQ(clusters(), 0);
  must(stream->launch(k.of(k.scale, a, b, 1, 0, 4)));
  EXPECT_EQ(clusters(), 2);
  must(stream->begin_capture());
  must(stream->launch(k.of(k.add, a, b, 1, 0, 8)));
  const auto captured = must(stream->end_capture());
  must(stream->replay(*captured));
  must(stream->replay(*captured));
  EXPECT_EQ(clusters(), 4);
  must(stream->synchronize());
}

TEST_F(FakeCuda, TellsItsTarget) {
  const auto device = must(cuda::make_cuda_device({0, {"cudnn 9.19.0"}}));
  EXPECT_EQ(device->name(), "cuda:0");
  const Target& t = device->target();
  EXPECT_EQ(target_text(t),
            R"({"kind":"cuda","chip":"Fake H200","isas":["sm_90","sm_90a"],"threads":132,"multiprocessors":132,)"
            R"("caches":{"shared of a block":232448,"L2 unified":52428800,"memory":1073741824},)"
            R"("libraries":["cuda driver 13.0","cudnn 9.19.0"]})");
  EXPECT_EQ(must(parse_target(target_text(t))), t);
  EXPECT_EQ(t.cache_bytes(2), 50 << 20);
  EXPECT_EQ(device->memory().available_bytes, (1 << 29) + 4096) << "what the pool keeps counts";
}

TEST_F(FakeCuda, RefusesGpusThatAreNotThere) {
  const auto none = cuda::make_cuda_device({1, {}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
  EXPECT_NE(none.error().text().find("cuda:1"), std::string::npos);
  Fakes::control<void(int, int)>("driver", "fake_devices")(1, 0);
  EXPECT_EQ(cuda::make_cuda_device().error().kind, ErrorKind::kUnsupported);
}

// Everything a session does once; the first error. `work_calls`: the driver's calls before the session is taken down.
Status session(long* work_calls = nullptr) {
  PERI_ASSIGN(const auto device, cuda::make_cuda_device());
  PERI_ASSIGN(const auto compiler, cuda::Compiler::open(""));
  PERI_ASSIGN(Kernels k, load_kernels(*device, *compiler));
  PERI_ASSIGN(k.scale, k.module->kernel("peri_scale", 100000));
  PERI_ASSIGN(const Memory a, device->allocate(400));
  PERI_ASSIGN(const Memory b, device->allocate(400));
  PERI_ASSIGN(const auto host, device->pinned(400));
  PERI_ASSIGN(const auto one, device->make_stream());
  PERI_ASSIGN(const auto two, device->make_stream());
  PERI_ASSIGN(const auto event, device->make_event());
  PERI_ASSIGN(const auto from, device->make_timed_event());
  PERI_ASSIGN(const auto to, device->make_timed_event());
  std::memset(host.bytes().data(), 0, 400);
  const auto work = [&](Stream& s, float by) -> Status {
    PERI_TRY(s.copy_in(a.address(), host.bytes()));
    PERI_TRY(s.launch(k.of(k.scale, a, b, by)));
    PERI_TRY(s.copy(a.address(), b.address(), 400));
    PERI_TRY(s.record(*event));
    PERI_TRY(two->wait(*event));
    PERI_TRY(two->launch(k.of(k.add, a, b, by, 0, 2)));
    PERI_TRY(two->record(*event));
    PERI_TRY(s.wait(*event));
    return s.copy_out(host.bytes(), b.address());
  };
  PERI_TRY(one->record(*from));
  PERI_TRY(work(*one, 2));
  PERI_TRY(one->record(*to));
  PERI_TRY(to->synchronize());
  PERI_TRY(one->begin_capture());
  const Status worked = work(*one, 3);
  auto captured = one->end_capture();
  PERI_TRY(worked);
  if (!captured.ok()) return std::move(captured).error();
  PERI_TRY(one->replay(**captured));
  PERI_TRY(one->begin_capture());
  PERI_TRY(one->launch(k.of(k.scale, a, b, 1)));
  PERI_ASSIGN(const auto shorter, one->end_capture());
  PERI_ASSIGN(const bool in_place, device->update(**captured, *shorter));
  EXPECT_FALSE(in_place);
  PERI_TRY(one->synchronize());
  PERI_ASSIGN(const double ms, device->milliseconds(*from, *to));
  EXPECT_GT(ms, 0);
  Status done = device->synchronize();
  if (work_calls) *work_calls = Fakes::control<long()>("driver", "fake_calls")();
  return done;
}

TEST_F(FakeCuda, EveryCallMayFail) {
  long work = 0;
  must(session(&work));
  EXPECT_EQ(live(), 0);
  const long all = calls();
  EXPECT_GT(all, 60);
  for (const int code : {1, 2, 719}) {
    int untold = 0;
    for (long call = 1; call <= all; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + " gives " + std::to_string(code));
      Fakes::control<void()>("driver", "fake_reset")();
      fail(call, code);
      const Status done = session();
      if (call > work) EXPECT_TRUE(done.ok()) << done.error().text();
      untold += done.ok() && call <= work;
      if (!done.ok()) {
        EXPECT_NE(done.error().text().find("(" + std::to_string(code) + ")"), std::string::npos) << done.error().text();
        EXPECT_FALSE(done.error().node.empty()) << done.error().text();
        const bool no_gpu = done.error().text().find("gives no GPU") != std::string::npos;
        if (code == 2) EXPECT_EQ(done.error().kind, no_gpu ? ErrorKind::kUnsupported : ErrorKind::kMemory);
      }
      EXPECT_EQ(live(), 0) << "something was not given back";
    }
    // A capture and two graphs are ended or given back meanwhile, which is tried without the context, too.
    EXPECT_EQ(untold, code == 719 ? 0 : 3) << code;
  }
}

TEST_F(FakeCuda, AGraphIsOnTheDeviceBeforeItsFirstLaunch) {
  must(session());
  EXPECT_EQ(Fakes::control<long()>("driver", "fake_late")(), 0);
}

TEST_F(FakeCuda, AfterAStickyErrorNothingIsTaken) {
  const auto device = must(cuda::make_cuda_device());
  const auto compiler = must(cuda::Compiler::open(""));
  Kernels k = must(load_kernels(*device, *compiler));
  const Memory a = must(device->allocate(400)), b = must(device->allocate(400));
  const auto stream = must(device->make_stream());
  const auto event = must(device->make_event());
  must(stream->launch(k.of(k.scale, a, b, 1)));
  must(stream->synchronize());
  must(stream->launch(k.of(k.trap, a, b, 1)));
  const Status told = stream->synchronize();
  ASSERT_FALSE(told.ok());
  for (const char* part : {"cuda:0 failed", "cannot be used by this process", "'peri_trap'", "(700)", "start again"})
    EXPECT_NE(told.error().text().find(part), std::string::npos) << part << " in " << told.error().text();
  const long before = calls();
  const std::string text = told.error().text();
  EXPECT_EQ(stream->synchronize().error().text(), text);
  EXPECT_EQ(stream->launch(k.of(k.scale, a, b, 1)).error().text(), text);
  EXPECT_EQ(stream->begin_capture().error().text(), text);
  EXPECT_EQ(stream->record(*event).error().text(), text);
  EXPECT_EQ(device->allocate(4).error().text(), text);
  EXPECT_EQ(device->make_stream().error().text(), text);
  EXPECT_EQ(device->pinned(4).error().text(), text);
  EXPECT_EQ(device->synchronize().error().text(), text);
  EXPECT_EQ(calls(), before) << "the driver is not asked again";
}

// To wait for the whole device, as a build does beside sessions that capture, spoils no capture of another thread.
TEST_F(FakeCuda, WaitingForTheDeviceSpoilsNoCapture) {
  const auto device = must(cuda::make_cuda_device());
  const auto compiler = must(cuda::Compiler::open(""));
  const Kernels k = must(load_kernels(*device, *compiler));
  const Memory a = must(device->allocate(400)), b = must(device->allocate(400));
  const auto one = must(device->make_stream()), two = must(device->make_stream());
  const auto event = must(device->make_event());
  std::atomic<bool> over = false;
  std::thread waits([&] {
    while (!over) must(device->synchronize());
  });
  const auto capture = [&]() -> Status {
    PERI_TRY(one->begin_capture());
    PERI_TRY(one->launch(k.of(k.scale, a, b, 1)));
    PERI_TRY(one->record(*event));
    PERI_TRY(two->wait(*event));
    PERI_TRY(two->launch(k.of(k.scale, a, b, 1)));
    PERI_TRY(two->record(*event));
    PERI_TRY(one->wait(*event));
    auto captured = one->end_capture();
    return captured.ok() ? Status(Ok{}) : Status(std::move(captured).error());
  };
  Status done = Ok{};
  for (int n = 0; n < 3000 && done.ok(); ++n) done = capture();
  over = true;
  waits.join();
  must(std::move(done));
}

// Nothing of a capture ran that other work of the process spoilt: it is taken again, and of its own failures it is not.
TEST_F(FakeCuda, ASpoiltCaptureIsTakenAgain) {
  const auto spoil = Fakes::control<void(long)>("driver", "fake_spoil");
  {
    const auto device = must(cuda::make_cuda_device());
    const auto compiler = must(cuda::Compiler::open(""));
    const Kernels k = must(load_kernels(*device, *compiler));
    const Memory a = must(device->allocate(400)), b = must(device->allocate(400));
    const auto one = must(device->make_stream()), two = must(device->make_stream());
    const auto event = must(device->make_event());
    int calls = 0;
    const auto work = [&]() -> Status {
      ++calls;
      PERI_TRY(one->record(*event));
      PERI_TRY(two->wait(*event));
      PERI_TRY(two->launch(k.of(k.scale, a, b, 2)));
      PERI_TRY(two->record(*event));
      return one->wait(*event);
    };
    spoil(kMaxCaptures - 1);
    const auto captured = must(capture(*one, work));
    EXPECT_EQ(calls, kMaxCaptures);
    EXPECT_EQ(captured->size(), 1U);
    must(one->replay(*captured));
    must(one->synchronize());

    calls = 0;
    spoil(kMaxCaptures);
    const auto never = capture(*one, work);
    ASSERT_FALSE(never.ok());
    EXPECT_NE(never.error().text().find("901"), std::string::npos) << never.error().text();
    EXPECT_EQ(calls, kMaxCaptures);

    calls = 0;
    const auto own = capture(*one, [&]() -> Status {
      ++calls;
      return refused("not this");
    });
    ASSERT_FALSE(own.ok());
    EXPECT_EQ(own.error().message, "not this");
    EXPECT_EQ(calls, 1);
    must(capture(*one, work));
  }
  EXPECT_EQ(live(), 0);
}

// A replay says what ran in it, on whichever of its streams, and of many launches the last.
TEST_F(FakeCuda, AReplayThatFailsNamesTheLaunchesOfAllItsStreams) {
  const auto device = must(cuda::make_cuda_device());
  const auto compiler = must(cuda::Compiler::open(""));
  const Kernels k = must(load_kernels(*device, *compiler));
  const Memory a = must(device->allocate(400)), b = must(device->allocate(400));
  const auto one = must(device->make_stream()), two = must(device->make_stream());
  const auto event = must(device->make_event());
  const auto named = [&](const cuda::Kernel& kernel, const std::string& name) {
    Launch launch = k.of(kernel, a, b, 1);
    launch.name = name;
    return launch;
  };
  must(one->begin_capture());
  for (int n = 0; n < 20; ++n) must(one->launch(named(k.scale, "scale " + std::to_string(n))));
  must(one->record(*event));
  must(two->wait(*event));
  must(two->launch(named(k.trap, "trap")));
  must(two->record(*event));
  must(one->wait(*event));
  const auto captured = must(one->end_capture());
  must(device->synchronize());  // what was enqueued by now is no suspect
  must(one->replay(*captured));
  const Status told = one->synchronize();
  ASSERT_FALSE(told.ok());
  EXPECT_NE(told.error().text().find("'trap'"), std::string::npos) << told.error().text();
  EXPECT_NE(told.error().text().find("'scale 19'"), std::string::npos) << told.error().text();
  EXPECT_EQ(told.error().text().find("'scale 12'"), std::string::npos) << told.error().text();
}

}  // namespace
}  // namespace peri::device::tests
