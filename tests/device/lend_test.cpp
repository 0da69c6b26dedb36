// What a device takes of others and gives beside memory: pinned memory, times between events, memory that is lent.
#include "tests/device/devices.hpp"

namespace peri::device {
namespace {

using tests::must;

TEST(Lend, PinnedMemoryIsAlignedAndLarge) {
  const auto device = tests::null_device();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{100001}}) {
    const Pinned p = must(device->pinned(bytes));
    ASSERT_EQ(p.bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.bytes().data()) % 64, 0u);
    std::memset(p.bytes().data(), 0x5a, bytes);
  }
  EXPECT_EQ(device->pinned(~size_t{0}).error().kind, ErrorKind::kMemory);
}

TEST(Lend, TimesLieBetweenEventsThatKeepThem) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto device = tests::null_of_seed(seed);
    const auto stream = must(device->make_stream());
    const auto from = must(device->make_timed_event()), to = must(device->make_timed_event()),
               plain = must(device->make_event());
    EXPECT_EQ(device->milliseconds(*from, *to).error().kind, ErrorKind::kInvalid) << "not recorded";
    must(stream->record(*from));
    must(stream->record(*to));
    must(stream->record(*plain));
    must(stream->synchronize());
    EXPECT_GE(must(device->milliseconds(*from, *to)), 0);
    EXPECT_LE(must(device->milliseconds(*to, *from)), 0);
    EXPECT_EQ(device->milliseconds(*from, *plain).error().kind, ErrorKind::kInvalid) << "it keeps no time";
    const auto other = tests::null_of_seed(seed);
    EXPECT_EQ(other->milliseconds(*from, *to).error().kind, ErrorKind::kInvalid) << "of another device";
  }
}

TEST(Lend, MemoryIsLentWhereItIsTheDevices) {
  const auto device = tests::null_device();
  Memory own = must(device->allocate(100));
  {
    const Memory lent = must(device->lend(own.address() + 20, 80));
    EXPECT_EQ(lent.address().value, own.address().value + 20);
  }
  EXPECT_EQ(device->counts().live, 1) << "what was lent is not given back";
  EXPECT_EQ(device->lend(own.address() + 20, 81).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(device->lend({reinterpret_cast<uintptr_t>(&own)}, 1).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(device->lend_stream(&own).error().kind, ErrorKind::kUnsupported);
  const auto host = make_host_device();
  EXPECT_TRUE(host->pinned(100).ok());
}

}  // namespace
}  // namespace peri::device
