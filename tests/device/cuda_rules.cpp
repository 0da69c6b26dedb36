// The rules that a CUDA device keeps, as functions: cuda_fake_test.cpp and cuda_gpu_test.cpp run them.
#include <numeric>
#include <thread>

#include "tests/device/cuda_kernels.hpp"

namespace peri::device::tests {

namespace {
constexpr size_t kFloats = 1000, kBytes = kFloats * sizeof(float);

std::vector<float> counted(float from = 1) {
  std::vector<float> out(kFloats);
  std::iota(out.begin(), out.end(), from);
  return out;
}
Memory zeroed(Device& d) {
  Memory out = must(d.allocate(kBytes));
  const auto stream = must(d.make_stream());
  const std::vector<float> none(kFloats);
  must(stream->copy_in(out.address(), bytes_of(none)));
  must(stream->synchronize());
  return out;
}
void refused(const Status& s, ErrorKind kind = ErrorKind::kInvalid) {
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().kind, kind) << s.error().text();
}

// One stream makes a; two use it; one joins both: c = (100 + 10) * a.
void diamond(const Kernels& k, Stream& one, Stream& two, Event& made, Event& done, const Memory& a, const Memory& b,
             const Memory& c) {
  must(one.record(made));
  must(two.wait(made));
  must(one.launch(k.of(k.scale, a, b, 10)));
  must(two.launch(k.of(k.scale, a, c, 100)));
  must(two.record(done));
  must(one.wait(done));
  must(one.launch(k.of(k.add, b, c, 1)));
}
}  // namespace

void keeps_the_order_of_streams(Kernels& k) {
  Device& d = *k.device;
  const Counts before = d.counts();
  const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), none = must(d.allocate(0));
  EXPECT_EQ(a.address().value % 256, 0u);
  EXPECT_NE(none.address(), a.address());
  const auto stream = must(d.make_stream());
  const std::vector<float> x = counted();
  std::vector<float> y(kFloats), half(kFloats / 2);
  must(stream->copy_in(a.address(), bytes_of(x)));
  must(stream->launch(k.of(k.scale, a, b, 2)));
  must(stream->launch(k.of(k.add, a, b, 1)));
  must(stream->copy(a.address(), b.address(), kBytes));
  must(stream->copy_out(bytes_of(&y), a.address()));
  must(stream->copy_out(bytes_of(&half), b.address() + kBytes / 2));
  must(stream->synchronize());
  for (size_t n = 0; n < kFloats; ++n) ASSERT_EQ(y[n], 3 * x[n]);
  for (size_t n = 0; n < kFloats / 2; ++n) ASSERT_EQ(half[n], 3 * x[n + kFloats / 2]);
  EXPECT_EQ(d.counts().copies - before.copies, 4);
  EXPECT_EQ(d.counts().launches - before.launches, 2);
  EXPECT_EQ(d.counts().live - before.live, 3);
  EXPECT_GT(d.memory().available_bytes, 0);
  EXPECT_GE(d.memory().total_bytes, d.memory().available_bytes);
}

void waits_order_streams(Kernels& k) {
  Device& d = *k.device;
  const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), c = must(d.allocate(kBytes));
  const auto one = must(d.make_stream()), two = must(d.make_stream());
  const auto made = must(d.make_event()), done = must(d.make_event());
  for (int round = 1; round <= 3; ++round) {  // events are recorded anew
    const std::vector<float> x = counted(static_cast<float>(round));
    std::vector<float> y(kFloats);
    must(one->copy_in(a.address(), bytes_of(x)));
    diamond(k, *one, *two, *made, *done, a, b, c);
    must(one->copy_out(bytes_of(&y), c.address()));
    must(one->record(*done));
    must(done->synchronize());
    for (size_t n = 0; n < kFloats; ++n) ASSERT_EQ(y[n], 110 * x[n]);
  }
  must(d.synchronize());
}

void a_capture_replays(Kernels& k) {
  Device& d = *k.device;
  const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), c = must(d.allocate(kBytes));
  const auto one = must(d.make_stream()), two = must(d.make_stream());
  const auto made = must(d.make_event()), done = must(d.make_event());
  std::vector<float> x(kFloats, 0), y(kFloats, -1), after(kFloats);
  const Counts before = d.counts();
  must(one->begin_capture());
  must(one->copy_in(a.address(), bytes_of(x)));
  diamond(k, *one, *two, *made, *done, a, b, c);
  must(one->copy_out(bytes_of(&y), c.address()));
  auto captured = must(one->end_capture());
  EXPECT_EQ(captured->size(), 5u);
  must(d.synchronize());
  EXPECT_EQ(y[0], -1) << "a capture runs nothing";
  EXPECT_EQ(d.counts().launches, before.launches);
  for (int round = 0; round < 3; ++round) {
    std::iota(x.begin(), x.end(), static_cast<float>(round + 1));
    must(one->replay(*captured));
    must(one->synchronize());
    for (size_t n = 0; n < kFloats; ++n) ASSERT_EQ(y[n], 110 * x[n]) << "replay " << round;
  }
  std::iota(x.begin(), x.end(), 7.f);
  must(two->replay(*captured));
  captured.reset();  // it may go before it ran
  must(two->launch(k.of(k.scale, c, b, -1)));
  must(two->copy_out(bytes_of(&after), b.address()));
  must(two->synchronize());
  for (size_t n = 0; n < kFloats; ++n) ASSERT_EQ(after[n], -110 * x[n]);
  EXPECT_EQ(d.counts().replays - before.replays, 4);
  EXPECT_EQ(d.counts().launches - before.launches, 13);
  EXPECT_EQ(d.counts().allocations, before.allocations);
}

void captures_that_are_not_joined_are_refused(Kernels& k) {
  Device& d = *k.device;
  const Memory a = zeroed(d), b = zeroed(d);
  const auto one = must(d.make_stream()), two = must(d.make_stream());
  const auto made = must(d.make_event()), outside = must(d.make_event());
  must(two->record(*outside));
  must(one->begin_capture());
  must(one->record(*made));
  must(two->wait(*made));
  must(two->launch(k.of(k.scale, a, b, 1)));
  refused(two->synchronize());
  EXPECT_EQ(two->end_capture().error().kind, ErrorKind::kInvalid) << "the other began";
  refused(one->begin_capture());
  refused(one->wait(*outside));
  refused(made->synchronize());
  const auto ended = one->end_capture();
  ASSERT_FALSE(ended.ok());
  EXPECT_NE(ended.error().text().find("not waited for"), std::string::npos) << ended.error().text();
  refused(two->wait(*made));
  EXPECT_EQ(one->end_capture().error().kind, ErrorKind::kInvalid);
  must(two->launch(k.of(k.scale, b, a, 1)));
  must(one->launch(k.of(k.scale, b, a, 1)));
  must(d.synchronize());
}

void a_capture_whose_stream_goes_is_over(Kernels& k) {
  Device& d = *k.device;
  const Memory a = zeroed(d), b = zeroed(d);
  auto one = must(d.make_stream()), two = must(d.make_stream());
  const auto made = must(d.make_event());
  must(one->begin_capture());
  must(one->record(*made));
  must(two->wait(*made));
  one.reset();
  must(two->launch(k.of(k.scale, a, b, 1)));
  must(two->synchronize());
  one = must(d.make_stream());
  must(one->begin_capture());
  must(one->record(*made));
  must(two->wait(*made));
  two.reset();
  EXPECT_FALSE(one->end_capture().ok());
  must(one->launch(k.of(k.scale, a, b, 1)));
  must(d.synchronize());
}

void a_capture_is_updated(Kernels& k) {
  cuda::CudaDevice& d = *k.device;
  const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), c = must(d.allocate(kBytes));
  const auto stream = must(d.make_stream());
  const auto capture = [&](const Memory& to, float by, bool twice) {
    must(stream->begin_capture());
    must(stream->launch(k.of(k.scale, a, to, by)));
    if (twice) must(stream->launch(k.of(k.add, a, to, by)));
    return must(stream->end_capture());
  };
  const std::vector<float> x = counted();
  const auto holds = [&](const Memory& memory, float by) {
    std::vector<float> y(kFloats);
    must(stream->copy_out(bytes_of(&y), memory.address()));
    must(stream->synchronize());
    for (size_t n = 0; n < kFloats; ++n) ASSERT_EQ(y[n], by * x[n]);
  };
  must(stream->copy_in(a.address(), bytes_of(x)));
  const auto kept = capture(b, 2, false);
  must(stream->replay(*kept));
  EXPECT_TRUE(must(d.update(*kept, *capture(c, 3, false)))) << "only address and scalar differ";
  must(stream->replay(*kept));
  holds(b, 2);
  holds(c, 3);
  EXPECT_FALSE(must(d.update(*kept, *capture(c, 5, true)))) << "another graph";
  EXPECT_EQ(kept->size(), 2u);
  must(stream->replay(*kept));
  holds(c, 10);
}

void refuses_what_is_not_there(Kernels& k) {
  Device& d = *k.device;
  const auto other = make_host_device();
  const auto foreign = must(other->make_event());
  const auto stream = must(d.make_stream());
  const auto event = must(d.make_event());
  Address gone;
  {
    const Memory m = must(d.allocate(kBytes));
    gone = m.address();
  }
  const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), none = must(d.allocate(0));
  std::vector<float> y(kFloats + 1);
  must(stream->copy_out({}, none.address()));
  refused(stream->copy_out(bytes_of(&y), a.address()));
  refused(stream->copy_in(a.address() + 8, bytes_of(counted())));
  refused(stream->copy_out(std::span(bytes_of(&y)).first(1), none.address()));
  refused(stream->copy(Address{}, a.address(), 4));
  refused(stream->copy(Address{~uint64_t{0}}, a.address(), 4));
  refused(stream->copy(a.address() + 4, a.address(), 8));
  Launch too_long = k.of(k.scale, a, b, 1);
  too_long.arguments[1].bytes += 1;
  refused(stream->launch(too_long));
  refused(stream->launch({"nothing", nullptr, {}}));
  refused(stream->launch({"host", [](auto) -> Status { return Ok{}; }, {}}), ErrorKind::kUnsupported);
  refused(stream->wait(*event));
  refused(event->synchronize());
  refused(stream->wait(*foreign));
  refused(stream->record(*foreign));
  EXPECT_EQ(d.host_pointer(a.address()), nullptr);
  EXPECT_EQ(d.allocate(~size_t{0}).error().kind, ErrorKind::kMemory);
  const auto large = d.allocate(static_cast<size_t>(d.memory().total_bytes));
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().kind, ErrorKind::kMemory);
  EXPECT_NE(large.error().text().find("MiB"), std::string::npos) << large.error().text();
  must(stream->synchronize());
}

void keeps_pinned_memory(Kernels& k) {
  cuda::CudaDevice& d = *k.device;
  const Memory a = must(d.allocate(kBytes));
  const auto stream = must(d.make_stream());
  const std::byte* first = nullptr;
  {
    const cuda::Pinned p = must(d.pinned(kBytes)), q = must(d.pinned(kBytes));
    first = p.bytes().data();
    const std::vector<float> x = counted();
    std::memcpy(p.bytes().data(), x.data(), kBytes);
    std::memset(q.bytes().data(), 0, kBytes);
    must(stream->copy_in(a.address(), p.bytes()));
    must(stream->copy_out(q.bytes(), a.address()));
    must(stream->synchronize());
    EXPECT_EQ(std::memcmp(p.bytes().data(), q.bytes().data(), kBytes), 0);
  }
  const cuda::Pinned again = must(d.pinned(kBytes - 4)), once_more = must(d.pinned(kBytes));
  EXPECT_TRUE(again.bytes().data() == first || once_more.bytes().data() == first) << "what came back is used again";
  EXPECT_EQ(d.pinned(~size_t{0}).error().kind, ErrorKind::kMemory);
}

void tells_times(Kernels& k) {
  cuda::CudaDevice& d = *k.device;
  const Memory a = zeroed(d), b = zeroed(d);
  const auto stream = must(d.make_stream());
  const auto from = must(d.make_timed_event()), to = must(d.make_timed_event()), plain = must(d.make_event());
  EXPECT_EQ(d.milliseconds(*from, *to).error().kind, ErrorKind::kInvalid) << "not recorded";
  must(stream->record(*from));
  must(stream->launch(k.of(k.scale, a, b, 1)));
  must(stream->record(*to));
  must(stream->record(*plain));
  must(stream->synchronize());
  EXPECT_GT(must(d.milliseconds(*from, *to)), 0);
  EXPECT_EQ(d.milliseconds(*from, *plain).error().kind, ErrorKind::kInvalid) << "it keeps no time";
}

void serves_many_threads(Kernels& k) {
  Device& d = *k.device;
  const int64_t live = d.counts().live;
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes));
        const auto stream = must(d.make_stream());
        const std::vector<float> x = counted(static_cast<float>(t * 1000));
        std::vector<float> y(kFloats);
        must(stream->begin_capture());
        must(stream->copy_in(a.address(), bytes_of(x)));
        must(stream->launch(k.of(k.scale, a, b, 2)));
        must(stream->copy_out(bytes_of(&y), b.address()));
        const auto captured = must(stream->end_capture());
        must(stream->replay(*captured));
        must(stream->synchronize());
        right[t] += y[3] == 2 * x[3] && y[kFloats - 1] == 2 * x[kFloats - 1];
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
  EXPECT_EQ(d.counts().live, live);
}

void refuses_kernels_that_do_not_fit(Kernels& k) {
  EXPECT_EQ(k.module->kernel("peri_none").error().kind, ErrorKind::kInvalid);
  const auto much = k.module->kernel("peri_scale", 1 << 30);
  ASSERT_FALSE(much.ok());
  EXPECT_NE(much.error().text().find("shared memory"), std::string::npos);
  EXPECT_GT(k.scale.registers, 0);
  const Memory a = must(k.device->allocate(kBytes));
  const auto stream = must(k.device->make_stream());
  cuda::Shape none, wide, cluster;
  none.blocks[1] = 0;
  wide.threads[0] = 4096;
  cluster.cluster[0] = 2;  // of one block
  for (const cuda::Shape& shape : {none, wide, cluster})
    refused(stream->launch(
        k.device->launch_of(k.scale, shape, {all_of(a), all_of(a)}, {cuda::scalar(1.f), cuda::scalar(0)})));
  EXPECT_EQ(k.device->load({}).error().kind, ErrorKind::kInvalid);
}

// The one for less shared memory is asked for last, and takes nothing from the other.
void shares_a_kernel_between_sizes(Kernels& k) {
  constexpr int kLarge = 100 << 10, kSmall = 56 << 10;
  const Memory a = zeroed(*k.device), b = zeroed(*k.device);
  const cuda::Kernel large = must(k.module->kernel("peri_scale", kLarge)),
                     small = must(k.module->kernel("peri_scale", kSmall)), none = must(k.module->kernel("peri_scale"));
  const auto stream = must(k.device->make_stream());
  must(stream->launch(k.of(large, a, b, 1, kLarge)));
  must(stream->launch(k.of(small, a, b, 1, kSmall)));
  must(stream->launch(k.of(none, a, b, 1)));
  must(stream->synchronize());
}

// At once, and as a capture keeps them.
void launches_clusters(Kernels& k) {
  if (k.device->facts().major < 9) return;
  const Memory a = zeroed(*k.device), b = zeroed(*k.device);
  const auto stream = must(k.device->make_stream());
  const std::vector<float> ones(a.bytes() / sizeof(float), 1.f);
  std::vector<float> out(b.bytes() / sizeof(float));
  must(stream->copy_in(a.address(), std::as_bytes(std::span(ones))));
  must(stream->launch(k.of(k.scale, a, b, 2, 0, 8)));
  must(stream->begin_capture());
  must(stream->launch(k.of(k.add, a, b, 3, 0, 2)));
  const auto captured = must(stream->end_capture());
  for (int round = 0; round < 2; ++round) must(stream->replay(*captured));
  must(stream->copy_out(std::as_writable_bytes(std::span(out)), b.address()));
  must(stream->synchronize());
  for (const float v : out) ASSERT_EQ(v, 8.f);
}

// Whose stream it is does not matter to a capture: one that it began is over, one that it joined is spoilt; the stream
// itself stays, and is in no capture of ours any more.
void a_lent_stream_that_goes_ends_its_part(Kernels& k) {
  cuda::CudaDevice& d = *k.device;
  const Memory a = zeroed(d), b = zeroed(d);
  cuda::CuStream native = nullptr;
  must(d.within([&]() -> Status {
    return d.driver().stream_create(&native, cuda::kCuNonBlocking) == cuda::kCuSuccess ? Status(Ok{})
                                                                                       : internal_error("no stream");
  }));
  const auto one = must(d.make_stream());
  const auto made = must(d.make_event()), joined = must(d.make_event());
  auto lent = must(d.lend_stream(native));
  must(lent->begin_capture());
  must(lent->launch(k.of(k.scale, a, b, 1)));
  lent.reset();
  lent = must(d.lend_stream(native));
  must(lent->launch(k.of(k.scale, a, b, 1)));
  must(lent->synchronize());

  must(one->begin_capture());
  must(one->record(*made));
  must(lent->wait(*made));
  must(lent->record(*joined));
  must(one->wait(*joined));
  lent.reset();
  EXPECT_FALSE(one->end_capture().ok());
  lent = must(d.lend_stream(native));
  must(lent->launch(k.of(k.scale, a, b, 1)));
  must(lent->synchronize());
  lent.reset();
  must(d.within([&]() -> Status {
    return d.driver().stream_destroy(native) == cuda::kCuSuccess ? Status(Ok{}) : internal_error("the stream is gone");
  }));
}

}  // namespace peri::device::tests
