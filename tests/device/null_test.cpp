// What the null device is for: a host that follows an address dies, a missing wait shows, and any call may fail.
#include "device/null.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <set>

#include "tests/device/devices.hpp"

namespace peri::device {
namespace {
using tests::bytes_of;
using tests::floats;
using tests::must;
using tests::scaled;

constexpr size_t kFloats = 16, kBytes = kFloats * sizeof(float);
constexpr uint64_t kSeeds = 60;

// By SIGSEGV, or by the sanitizer that catches it.
bool killed(int status) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return true;
#endif
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST(NullDeviceDeathTest, TheHostCannotTouchItsMemory) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto reach = [](bool write, bool working, size_t offset) {
    const auto d = tests::null_of_seed(2);
    const Memory m = must(d->allocate(kBytes));
    const auto stream = must(d->make_stream());
    volatile auto* at = reinterpret_cast<volatile float*>(m.address().value + offset);
    const auto touch = [=] {
      if (write)
        *at = 1;
      else
        (void)*at;
    };
    // Even while work runs on that very memory.
    if (working)
      must(stream->launch({"work",
                           [&](auto) -> Status {
                             touch();
                             return Ok{};
                           },
                           {{m.address(), kBytes}}}));
    else
      touch();
    must(stream->synchronize());
  };
  for (const bool write : {false, true}) {
    EXPECT_EXIT(reach(write, false, 0), killed, "");
    EXPECT_EXIT(reach(write, false, kBytes - 4), killed, "");
    EXPECT_EXIT(reach(write, true, 0), killed, "");
  }
}

TEST(NullDeviceDeathTest, ALaunchThatLeavesItsArgumentsDies) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto write_at = [](ptrdiff_t floats_behind) {
    const auto d = tests::null_of_seed(0);
    const Memory m = must(d->allocate(kBytes));  // a multiple of 64: the guard is next
    const auto stream = must(d->make_stream());
    const auto function = [=](std::span<const std::span<std::byte>> a) -> Status {
      volatile float* at = floats(a[0]).data() + floats_behind;
      *at = 1;
      return Ok{};
    };
    must(stream->launch({"write", function, {{m.address(), kBytes}}}));
    must(stream->synchronize());
    std::exit(0);
  };
  EXPECT_EXIT(write_at(0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(write_at(kFloats - 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(write_at(kFloats), killed, "");
}

TEST(NullDevice, HidesAndPoisonsItsMemory) {
  const auto d = tests::null_of_seed(0);
  EXPECT_EQ(d->name(), "null");
  EXPECT_EQ(d->target().kind, Kind::kNull);
  const Memory m = must(d->allocate(kBytes));
  EXPECT_EQ(d->host_pointer(m.address()), nullptr);
  std::vector<float> y(kFloats);
  const auto stream = must(d->make_stream());
  must(stream->copy_out(bytes_of(&y), m.address()));
  must(stream->synchronize());
  for (float v : y) EXPECT_TRUE(std::isnan(v));
}

TEST(NullDevice, AddressesAreNotSoonTakenAgain) {
  const auto d = tests::null_of_seed(0);
  std::set<uint64_t> seen;
  for (int k = 0; k < 2000; ++k) {
    const Memory m = must(d->allocate(5000));
    EXPECT_TRUE(seen.insert(m.address().value).second);
  }
}

TEST(NullDevice, UsedUpAddressesAreTakenAgainPastThoseThatLive) {
  NullOptions options;
  options.address_bytes = size_t{1} << 20;
  const auto d = tests::null_device(options);
  const Memory kept = must(d->allocate(kBytes));
  for (int k = 0; k < 2000; ++k) {
    const Memory m = must(d->allocate(kBytes)), n = must(d->allocate(70000));
    for (const Memory* other : {&kept, &m})
      ASSERT_TRUE(n.address().value + 70000 <= other->address().value ||
                  other->address().value + kBytes <= n.address().value);
    ASSERT_NE(m.address(), kept.address());
  }
  std::vector<Memory> all;
  for (;;) {
    auto m = d->allocate(70000);
    if (!m.ok()) {
      EXPECT_EQ(m.error().kind, ErrorKind::kMemory);
      break;
    }
    all.push_back(std::move(m).value());
    ASSERT_LT(all.size(), 15u);
  }
  EXPECT_GT(all.size(), 8u);
}

TEST(NullDevice, MemoryHasALimit) {
  NullOptions options;
  options.memory_bytes = 1000;
  const auto d = tests::null_device(options);
  const Memory a = must(d->allocate(600));
  EXPECT_EQ(d->memory().available_bytes, 400);
  const auto refused = d->allocate(401);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMemory);
  { const Memory b = must(d->allocate(400)); }
  const Memory c = must(d->allocate(400));
  EXPECT_EQ(d->counts().most_bytes, 1000);
}

TEST(NullDevice, WorkOnMemoryThatWentIsAnError) {
  int found = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto d = tests::null_of_seed(seed);
    const auto stream = must(d->make_stream());
    auto m = std::make_unique<Memory>(must(d->allocate(kBytes)));
    must(stream->launch({"late", [](auto) -> Status { return Ok{}; }, {{m->address(), kBytes}}}));
    m.reset();
    found += !stream->synchronize().ok();
  }
  EXPECT_GT(found, 0);
}

// Two streams that hand values on; the answer, and whether the waits it needs are there.
struct Waits {
  bool behind_first = true, behind_second = true, before_host = true, host_stays = true;
};
std::vector<float> handed_on(uint64_t seed, Waits waits, bool captured) {
  const auto d = tests::null_of_seed(seed);
  const Memory a = must(d->allocate(kBytes)), b = must(d->allocate(kBytes)), c = must(d->allocate(kBytes));
  const auto one = must(d->make_stream()), two = must(d->make_stream());
  const auto first = must(d->make_event()), second = must(d->make_event());
  std::vector<float> x(kFloats, 1), y(kFloats, 0), seen;
  if (captured) must(one->begin_capture());
  must(one->copy_in(a.address(), bytes_of(x)));
  must(one->copy_in(b.address(), bytes_of(x)));
  must(one->copy_in(c.address(), bytes_of(x)));
  must(one->record(*second));
  must(two->wait(*second));  // all are written
  must(one->launch(scaled("a", a, a, 2)));
  must(one->record(*first));
  if (waits.behind_first) must(two->wait(*first));
  must(two->launch(scaled("b", a, b, 10)));
  must(two->record(*second));
  if (waits.behind_second) must(one->wait(*second));
  must(one->launch(scaled("c", b, c, 100)));
  must(two->record(*second));
  if (captured) must(one->wait(*second));  // a capture wants it, behind what it could have ordered
  must(one->copy_out(bytes_of(&y), c.address()));
  if (captured) {
    const auto work = must(one->end_capture());
    must(one->replay(*work));
    must(one->synchronize());
    return y;
  }
  if (!waits.host_stays) x.assign(kFloats, 5);
  if (waits.before_host) must(one->synchronize());
  seen = y;
  must(d->synchronize());
  return seen;
}

TEST(NullDevice, WithItsWaitsTheAnswerIsTheSameForAllSeeds) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const bool captured : {false, true})
      EXPECT_EQ(handed_on(seed, {}, captured), std::vector<float>(kFloats, 2000)) << "seed " << seed;
}

TEST(NullDevice, EachMissingWaitShowsForSomeSeed) {
  struct Case {
    const char* name;
    Waits waits;
    bool in_capture;
  };
  const Case cases[] = {{"behind the first", {false, true, true, true}, true},
                        {"behind the second", {true, false, true, true}, true},
                        {"of the host for its answer", {true, true, false, true}, false},
                        {"of the host before it writes what is copied", {true, true, true, false}, false}};
  for (const Case& c : cases)
    for (const bool captured : {false, true}) {
      if (captured && !c.in_capture) continue;
      int wrong = 0;
      for (uint64_t seed = 0; seed < kSeeds; ++seed)
        wrong += handed_on(seed, c.waits, captured) != std::vector<float>(kFloats, 2000);
      EXPECT_GT(wrong, 0) << c.name << (captured ? ", captured" : "");
      EXPECT_LT(wrong, static_cast<int>(kSeeds)) << c.name << ": else no order is tried in which it goes well";
    }
}

TEST(NullDevice, AStreamMayComeBetweenAnyTwoOfAnother) {
  std::set<float> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto d = tests::null_of_seed(seed);
    const Memory a = must(d->allocate(kBytes));
    const auto one = must(d->make_stream()), two = must(d->make_stream());
    const std::vector<float> zero(kFloats, 0);
    std::vector<float> y(kFloats);
    must(one->copy_in(a.address(), bytes_of(zero)));
    must(one->synchronize());
    for (int k = 0; k < 4; ++k) must(one->launch(scaled("count", a, a, 1, 0, 1)));
    must(two->copy_out(bytes_of(&y), a.address()));
    must(d->synchronize());
    seen.insert(y[0]);
  }
  EXPECT_EQ(seen, (std::set<float>{0, 1, 2, 3, 4}));
}

TEST(NullDevice, AStreamThatGoesFinishesItsWork) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto d = tests::null_of_seed(seed);
    const Memory a = must(d->allocate(kBytes));
    const std::vector<float> x(kFloats, 7);
    std::vector<float> y(kFloats);
    {
      const auto one = must(d->make_stream()), two = must(d->make_stream());
      const auto event = must(d->make_event());
      must(one->copy_in(a.address(), bytes_of(x)));
      must(one->record(*event));
      must(two->wait(*event));
      must(two->copy_out(bytes_of(&y), a.address()));
    }
    EXPECT_EQ(y, x) << "seed " << seed;
  }
}

TEST(NullDevice, TheSameSeedIsTheSameOrder) {
  const auto order = [](uint64_t seed) {
    const auto d = tests::null_of_seed(seed);
    std::vector<int> ran;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int s = 0; s < 4; ++s) streams.push_back(must(d->make_stream()));
    for (int k = 0; k < 40; ++k)
      must(streams[static_cast<size_t>(k % 4)]->launch({"note",
                                                        [&ran, k](auto) {
                                                          ran.push_back(k);
                                                          return Status(Ok{});
                                                        },
                                                        {}}));
    must(d->synchronize());
    return ran;
  };
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<int> ran = order(seed);
    EXPECT_EQ(ran.size(), 40u);
    EXPECT_EQ(ran, order(seed)) << "seed " << seed;
    for (int s = 0; s < 4; ++s) {  // each stream keeps its own
      std::vector<int> mine;
      for (int k : ran)
        if (k % 4 == s) mine.push_back(k);
      EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end())) << "seed " << seed;
    }
    orders.insert(ran);
  }
  EXPECT_GT(orders.size(), kSeeds / 2);
}

// Every kind of call once and more; the first error ends it.
Status everything(Device& d, std::vector<float>* y) {
  const std::vector<float> x(kFloats, 3);  // outlives the streams, which finish their work as they go
  PERI_ASSIGN(const Memory a, d.allocate(kBytes));
  PERI_ASSIGN(const Memory b, d.allocate(kBytes));
  PERI_ASSIGN(const auto one, d.make_stream());
  PERI_ASSIGN(const auto two, d.make_stream());
  PERI_ASSIGN(const auto event, d.make_event());
  PERI_TRY(one->copy_in(a.address(), bytes_of(x)));
  PERI_TRY(one->begin_capture());
  PERI_TRY(one->launch(scaled("first", a, b, 2)));
  PERI_TRY(one->record(*event));
  PERI_TRY(two->wait(*event));
  PERI_TRY(two->launch(scaled("second", b, a, 2)));
  PERI_TRY(two->record(*event));
  PERI_TRY(one->wait(*event));
  PERI_ASSIGN(const auto captured, one->end_capture());
  PERI_TRY(one->replay(*captured));
  PERI_TRY(one->copy(b.address(), a.address(), kBytes));
  PERI_TRY(one->copy_out(bytes_of(y), b.address()));
  PERI_TRY(one->record(*event));
  PERI_TRY(event->synchronize());
  PERI_TRY(one->synchronize());
  return d.synchronize();
}

TEST(NullDevice, AnyCallMayFailAndNothingIsLost) {
  int64_t calls = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    {
      const auto d = tests::null_of_seed(seed);
      std::vector<float> y(kFloats);
      must(everything(*d, &y));
      EXPECT_EQ(y, std::vector<float>(kFloats, 12));
      calls = d->counts().calls;
      ASSERT_GE(calls, 20);
    }
    for (int64_t n = 1; n <= calls; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", call " + std::to_string(n));
      NullOptions options;
      options.seed = seed;
      options.failing_call = n;
      const auto d = tests::null_device(options);
      std::vector<float> y(kFloats);
      const Status s = everything(*d, &y);
      ASSERT_FALSE(s.ok());
      EXPECT_TRUE(s.error().kind == ErrorKind::kIo || (n <= 2 && s.error().kind == ErrorKind::kMemory))
          << s.error().text();
      EXPECT_FALSE(s.error().node.empty()) << "it names the call";
      EXPECT_EQ(d->counts().calls, n);
      EXPECT_EQ(d->counts().live, 0);
      EXPECT_EQ(d->counts().live_bytes, 0);
      // The device goes on.
      must(everything(*d, &y));
      EXPECT_EQ(y, std::vector<float>(kFloats, 12));
    }
  }
}

TEST(NullDevice, AnyWorkMayFailAndIsTold) {
  int64_t works = 0;
  {
    const auto d = tests::null_of_seed(1);
    std::vector<float> y(kFloats);
    must(everything(*d, &y));
    works = d->counts().copies + d->counts().launches;
    ASSERT_EQ(works, 5);
  }
  for (uint64_t seed = 0; seed < 6; ++seed)
    for (int64_t n = 1; n <= works; ++n) {
      NullOptions options;
      options.seed = seed;
      options.failing_work = n;
      const auto d = tests::null_device(options);
      std::vector<float> y(kFloats, -1);
      const Status s = everything(*d, &y);
      ASSERT_FALSE(s.ok()) << "seed " << seed << ", work " << n;
      EXPECT_EQ(s.error().kind, ErrorKind::kIo);
      EXPECT_EQ(y, std::vector<float>(kFloats, -1)) << "what is behind it is left out";
      EXPECT_EQ(d->counts().live, 0);
      must(d->synchronize());
    }
}

}  // namespace
}  // namespace peri::device
