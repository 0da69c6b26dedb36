// What every device keeps: stream order, waits, errors told once and passed on, captures that replay to the same
// answer, memory that is counted; and what misuse is refused.
#include "device/device.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "device/open.hpp"
#include "tests/device/devices.hpp"

namespace peri::device {
namespace {
using tests::all_of;
using tests::bytes_of;
using tests::floats;
using tests::must;
using tests::scaled;

constexpr size_t kFloats = 100, kBytes = kFloats * sizeof(float);
constexpr uint64_t kSeeds = 24;

// The host, then null devices of many seeds.
template <class F>
void on_all(F test) {
  {
    SCOPED_TRACE("host");
    const auto device = make_host_device();
    test(*device);
    EXPECT_EQ(device->counts().live, 0);
    EXPECT_EQ(device->counts().live_bytes, 0);
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("null, seed " + std::to_string(seed));
    const auto device = tests::null_of_seed(seed);
    ASSERT_NE(device, nullptr);
    test(*device);
    EXPECT_EQ(device->counts().live, 0);
    EXPECT_EQ(device->counts().live_bytes, 0);
  }
}

std::vector<float> counted(float from = 1) {
  std::vector<float> out(kFloats);
  std::iota(out.begin(), out.end(), from);
  return out;
}

TEST(Device, CopiesAndLaunchesKeepTheOrderOfTheirStream) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes));
    const auto stream = must(d.make_stream());
    const std::vector<float> x = counted();
    std::vector<float> y(kFloats), half(kFloats / 2);
    must(stream->copy_in(a.address(), bytes_of(x)));
    must(stream->launch(scaled("double", a, b, 2)));
    must(stream->launch(scaled("add", a, b, 1, 1)));
    must(stream->copy(a.address(), b.address(), kBytes));
    must(stream->copy_out(bytes_of(&y), a.address()));
    must(stream->copy_out(bytes_of(&half), b.address() + kBytes / 2));
    must(stream->synchronize());
    for (size_t k = 0; k < kFloats; ++k) ASSERT_EQ(y[k], 3 * x[k]);
    for (size_t k = 0; k < kFloats / 2; ++k) ASSERT_EQ(half[k], 3 * x[k + kFloats / 2]);
    EXPECT_EQ(d.counts().copies, 4);
    EXPECT_EQ(d.counts().launches, 2);
    EXPECT_EQ(d.counts().allocations, 2);
    EXPECT_EQ(d.counts().most_bytes, static_cast<int64_t>(2 * kBytes));
  });
}

// A diamond: one stream makes a; two use it; one joins both.
void diamond(Stream& one, Stream& two, Event& made, Event& done, const Memory& a, const Memory& b, const Memory& c) {
  must(one.launch(scaled("make", a, a, 1, 0, 1)));
  must(one.record(made));
  must(two.wait(made));
  must(one.launch(scaled("left", a, b, 10)));
  must(two.launch(scaled("right", a, c, 100)));
  must(two.record(done));
  must(one.wait(done));
  must(one.launch(scaled("join", c, b, 1, 1)));
}

TEST(Device, WaitsOrderStreams) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), c = must(d.allocate(kBytes));
    const auto one = must(d.make_stream()), two = must(d.make_stream());
    const auto made = must(d.make_event()), done = must(d.make_event());
    const std::vector<float> x = counted();
    std::vector<float> y(kFloats);
    must(one->copy_in(a.address(), bytes_of(x)));
    for (int round = 1; round <= 3; ++round) {  // events are recorded anew
      diamond(*one, *two, *made, *done, a, b, c);
      must(one->copy_out(bytes_of(&y), b.address()));
      must(one->synchronize());
      for (size_t k = 0; k < kFloats; ++k) ASSERT_EQ(y[k], 110 * (x[k] + static_cast<float>(round)));
    }
  });
}

TEST(Device, ACaptureReplaysToTheSameAnswer) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), c = must(d.allocate(kBytes));
    const auto one = must(d.make_stream()), two = must(d.make_stream());
    const auto made = must(d.make_event()), done = must(d.make_event());
    std::vector<float> x(kFloats, 0), y(kFloats, -1);
    // In its place: the capture holds where it is.
    const auto refill = [&x](float from) { std::iota(x.begin(), x.end(), from + 1); };
    must(one->begin_capture());
    must(one->copy_in(a.address(), bytes_of(x)));
    diamond(*one, *two, *made, *done, a, b, c);
    must(one->copy_out(bytes_of(&y), b.address()));
    const auto captured = must(one->end_capture());
    EXPECT_EQ(captured->size(), 6u);
    must(d.synchronize());
    EXPECT_EQ(y[0], -1) << "a capture runs nothing";
    EXPECT_EQ(d.counts().launches, 0);
    const int64_t allocated = d.counts().allocations;
    for (int round = 0; round < 3; ++round) {
      refill(static_cast<float>(round));
      must(one->replay(*captured));
      must(one->synchronize());
      for (size_t k = 0; k < kFloats; ++k) ASSERT_EQ(y[k], 110 * (x[k] + 1)) << "replay " << round;
    }
    // Behind it and before it the stream's order holds, also on a stream that took no part in the capture.
    refill(7);
    std::vector<float> after(kFloats);
    must(two->replay(*captured));
    must(two->launch(scaled("negate", b, b, -1)));
    must(two->copy_out(bytes_of(&after), b.address()));
    must(two->synchronize());
    for (size_t k = 0; k < kFloats; ++k) ASSERT_EQ(after[k], -y[k]);
    ASSERT_EQ(y[0], 110 * 9);
    EXPECT_EQ(d.counts().replays, 4);
    EXPECT_EQ(d.counts().allocations, allocated);
    // The streams are free again.
    must(two->launch(scaled("use", a, b, 1)));
    must(two->synchronize());
  });
}

TEST(Device, WhatWasCapturedMayGoBeforeItRan) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes));
    const auto stream = must(d.make_stream());
    const std::vector<float> x = counted();
    std::vector<float> y(kFloats);
    must(stream->begin_capture());
    must(stream->copy_in(a.address(), bytes_of(x)));
    auto captured = must(stream->end_capture());
    must(stream->replay(*captured));
    captured.reset();
    must(stream->copy_out(bytes_of(&y), a.address()));
    must(stream->synchronize());
    EXPECT_EQ(y, x);
  });
}

TEST(Device, CapturesThatAreNotJoinedAreRefused) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes));
    const auto one = must(d.make_stream()), two = must(d.make_stream());
    const auto made = must(d.make_event()), outside = must(d.make_event());
    must(two->record(*outside));
    must(one->begin_capture());
    must(one->record(*made));
    must(two->wait(*made));
    must(two->launch(scaled("left alone", a, b, 1)));
    EXPECT_EQ(two->synchronize().error().kind, ErrorKind::kInvalid) << "it takes part";
    EXPECT_EQ(two->end_capture().error().kind, ErrorKind::kInvalid) << "the other began";
    EXPECT_EQ(one->begin_capture().error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(one->wait(*outside).error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(made->synchronize().error().kind, ErrorKind::kInvalid);
    const auto ended = one->end_capture();
    ASSERT_FALSE(ended.ok());
    EXPECT_NE(ended.error().text().find("not waited for"), std::string::npos) << ended.error().text();
    EXPECT_EQ(two->wait(*made).error().kind, ErrorKind::kInvalid) << "of a capture that ended";
    EXPECT_EQ(one->end_capture().error().kind, ErrorKind::kInvalid);
    must(two->launch(scaled("free again", b, a, 1)));
    must(d.synchronize());
    EXPECT_EQ(d.counts().launches, 1);
  });
}

TEST(Device, ACaptureWhoseStreamGoesIsOver) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes));
    auto one = must(d.make_stream()), two = must(d.make_stream());
    const auto made = must(d.make_event());
    must(one->begin_capture());
    must(one->record(*made));
    must(two->wait(*made));
    one.reset();
    must(two->launch(scaled("runs", a, a, 1)));
    must(two->synchronize());
    EXPECT_EQ(d.counts().launches, 1);
    one = must(d.make_stream());
    must(one->begin_capture());
    must(one->record(*made));
    must(two->wait(*made));
    two.reset();
    EXPECT_FALSE(one->end_capture().ok());
  });
}

TEST(Device, AnErrorIsToldOnceAndPassedOn) {
  on_all([](Device& d) {
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes));
    const auto one = must(d.make_stream()), two = must(d.make_stream());
    const auto event = must(d.make_event());
    bool ran = false;
    must(one->launch({"broken", [](auto) -> Status { return invalid("an index of 7 is out of range"); }, {}}));
    must(one->launch({"behind",
                      [&ran](auto) -> Status {
                        ran = true;
                        return Ok{};
                      },
                      {}}));
    must(one->record(*event));
    must(two->wait(*event));
    must(two->launch({"across",
                      [&ran](auto) -> Status {
                        ran = true;
                        return Ok{};
                      },
                      {}}));
    for (Stream* s : {two.get(), one.get()}) {
      const Status told = s->synchronize();
      ASSERT_FALSE(told.ok());
      EXPECT_EQ(told.error().kind, ErrorKind::kInvalid);
      EXPECT_NE(told.error().text().find("launch 'broken'"), std::string::npos) << told.error().text();
      EXPECT_NE(told.error().text().find("7"), std::string::npos);
      must(s->synchronize());
    }
    EXPECT_FALSE(event->synchronize().ok());
    EXPECT_FALSE(ran);
    must(one->launch(scaled("works again", a, b, 1)));
    must(one->record(*event));
    must(event->synchronize());
    EXPECT_EQ(d.counts().launches, 2) << "those left out are not counted";
    // In a replay too: what follows is left out, the next replay starts anew.
    bool broken = true;
    must(one->begin_capture());
    must(
        one->launch({"sometimes", [&](auto) -> Status { return broken ? Status(invalid("now")) : Status(Ok{}); }, {}}));
    must(one->launch({"behind",
                      [&ran](auto) -> Status {
                        ran = true;
                        return Ok{};
                      },
                      {}}));
    const auto captured = must(one->end_capture());
    must(one->replay(*captured));
    EXPECT_FALSE(one->synchronize().ok());
    EXPECT_FALSE(ran);
    broken = false;
    must(one->replay(*captured));
    must(d.synchronize());
    EXPECT_TRUE(ran);
  });
}

TEST(Device, RefusesWhatIsNotThere) {
  const auto other = make_host_device();
  const auto foreign = must(other->make_event());
  on_all([&](Device& d) {
    const auto stream = must(d.make_stream());
    const auto event = must(d.make_event());
    Address gone;
    {
      const Memory m = must(d.allocate(kBytes));
      gone = m.address();
    }
    const Memory a = must(d.allocate(kBytes)), b = must(d.allocate(kBytes)), none = must(d.allocate(0));
    EXPECT_NE(none.address(), a.address());
    EXPECT_EQ(a.address().value % 256, 0u);
    std::vector<float> y(kFloats + 1);
    must(stream->copy_out({}, none.address()));
    const auto refused = [](const Status& s) {
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().kind, ErrorKind::kInvalid) << s.error().text();
    };
    refused(stream->copy_out(bytes_of(&y), a.address()));
    refused(stream->copy_in(a.address() + 8, bytes_of(counted())));
    refused(stream->copy_out(std::span(bytes_of(&y)).first(1), none.address()));
    refused(stream->copy(Address{}, a.address(), 4));
    refused(stream->copy(Address{~uint64_t{0}}, a.address(), 4));
    refused(stream->launch({"too long", [](auto) -> Status { return Ok{}; }, {{a.address(), kBytes + 1}}}));
    refused(stream->launch({"nothing", nullptr, {}}));
    refused(stream->wait(*event));
    refused(event->synchronize());
    refused(stream->wait(*foreign));
    refused(stream->record(*foreign));
    must(stream->copy(a.address() + 4, a.address(), 8));
    refused(stream->synchronize());  // the ranges overlap
    if (d.name() == "null") {
      refused(stream->copy_out(std::span(bytes_of(&y)).first(4), gone));
    }
    EXPECT_EQ(d.allocate(~size_t{0}).error().kind, ErrorKind::kMemory);
    EXPECT_EQ(d.allocate(size_t{1} << 60).error().kind, ErrorKind::kMemory);
  });
}

TEST(Device, StreamsOfManyThreads) {
  for (const bool host : {true, false}) {
    const auto d = host ? make_host_device() : tests::null_of_seed(5);
    std::vector<std::thread> threads;
    std::vector<int> right(4, 0);
    for (size_t t = 0; t < right.size(); ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 50; ++round) {
          const Memory a = must(d->allocate(kBytes)), b = must(d->allocate(kBytes));
          const auto stream = must(d->make_stream());
          const std::vector<float> x = counted(static_cast<float>(t * 1000));
          std::vector<float> y(kFloats);
          must(stream->copy_in(a.address(), bytes_of(x)));
          must(stream->launch(scaled("double", a, b, 2)));
          must(stream->copy_out(bytes_of(&y), b.address()));
          must(stream->synchronize());
          right[t] += y[3] == 2 * x[3] && y[kFloats - 1] == 2 * x[kFloats - 1];
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(right, std::vector<int>(4, 50));
    EXPECT_EQ(d->counts().live, 0);
    EXPECT_EQ(d->counts().launches, 200);
  }
}

TEST(HostDevice, MemoryIsTheHosts) {
  const auto d = make_host_device();
  EXPECT_EQ(d->name(), "host");
  EXPECT_EQ(d->target(), this_cpu());
  EXPECT_GT(d->memory().total_bytes, 0);
  const Memory m = must(d->allocate(kBytes));
  ASSERT_NE(d->host_pointer(m.address()), nullptr);
  std::memset(d->host_pointer(m.address()), 7, kBytes);
  const auto stream = must(d->make_stream());
  std::vector<float> y(kFloats);
  must(stream->copy_out(bytes_of(&y), m.address()));
  EXPECT_EQ(std::memcmp(y.data(), d->host_pointer(m.address()), kBytes), 0) << "done when it was enqueued";
}

TEST(Device, AProgramAsksForAKindOrForOne) {
  EXPECT_TRUE(is_asked_for("cuda:0", "cuda"));
  EXPECT_TRUE(is_asked_for("cuda:1", "cuda:1"));
  EXPECT_TRUE(is_asked_for("null", "null"));
  EXPECT_FALSE(is_asked_for("cuda:0", "cuda:1"));
  EXPECT_FALSE(is_asked_for("cuda:10", "cuda:1"));
  EXPECT_FALSE(is_asked_for("cuda", "cuda:0"));
  EXPECT_FALSE(is_asked_for("nullable", "null"));
}

TEST(Device, KindsSayWhetherTheyHaveNumbersAndAChip) {
  EXPECT_TRUE(has_numbers("cuda"));
  EXPECT_FALSE(has_numbers("null"));
  EXPECT_FALSE(has_numbers("host"));
  EXPECT_EQ(chip_at("null"), "");
  EXPECT_EQ(chip_at("cuda:4096"), "") << "no machine has it";
}

}  // namespace
}  // namespace peri::device
