// Memory that this process may take: the machine's, and what the control groups around it, of both versions, leave.
#include "device/memory_limits.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace peri::device {
namespace {

constexpr int64_t kKilo = 1024;

class MemoryLimits : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (std::filesystem::temp_directory_path() / ("peri_memory_" + std::to_string(getpid()))).string();
    write("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void group(const std::string& folder, const std::string& limit, int64_t used, int64_t cache) {
    write("/sys/fs/cgroup" + folder + "/memory.max", limit + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.current", std::to_string(used) + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.stat", "anon 1\ninactive_file " + std::to_string(cache) + "\n");
  }
  void expect(int64_t total, int64_t available, const char* why) {
    EXPECT_EQ(read_memory(root_).total_bytes, total) << why;
    EXPECT_EQ(read_memory(root_).available_bytes, available) << why;
  }
  std::string root_;
};

TEST_F(MemoryLimits, WithoutGroupsItIsTheMachines) { expect(1000 * kKilo, 600 * kKilo, "as /proc/meminfo says"); }

TEST_F(MemoryLimits, TheLeastOfTheOwnGroupAndThoseAroundItCounts) {
  write("/proc/self/cgroup", "0::/one/two\n");
  group("/one/two", "max", 100, 0);
  expect(1000 * kKilo, 600 * kKilo, "'max' is no limit");
  group("/one/two", "500000", 100000, 30000);
  expect(500000, 430000, "of the own group; its page cache can be reclaimed");
  group("/one", "700000", 690000, 5000);
  expect(500000, 15000, "the outer group has less left, though its limit is higher");
  group("", "400000", 1000, 0);
  expect(400000, 15000, "the root of the mount is a container's own group");
  group("/three", "10", 10, 0);
  expect(400000, 15000, "of a group that this process is not in");
}

TEST_F(MemoryLimits, AGroupThatIsFullLeavesNothing) {
  write("/proc/self/cgroup", "0::/one\n");
  group("/one", "500000", 500001, 0);
  expect(500000, 1, "0 would mean that it is not known");
}

TEST_F(MemoryLimits, ALimitBeyondTheMachineIsNone) {
  group("", "2000000", 1999999, 0);
  expect(1000 * kKilo, 600 * kKilo, "more than the machine has");
}

TEST_F(MemoryLimits, TheFirstVersion) {
  const std::string folder = "/sys/fs/cgroup/memory/docker/x";
  write("/proc/self/cgroup", "4:memory:/docker/x\n1:cpu:/other\n0::/\n");
  write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  write(folder + "/memory.usage_in_bytes", "1000\n");
  expect(1000 * kKilo, 600 * kKilo, "no limit is written as a large number");
  write(folder + "/memory.limit_in_bytes", "300000\n");
  write(folder + "/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
  expect(300000, 299200, "of its own group");
  write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "200000\n");
  write("/sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "150000\n");
  expect(200000, 50000, "of the group around it");
}

TEST_F(MemoryLimits, WhatIsNotSaidIsNotKnown) {
  const MemoryInfo nowhere = read_memory(root_ + "/nowhere");
  EXPECT_EQ(nowhere.total_bytes, 0);
  EXPECT_EQ(nowhere.available_bytes, 0);
  std::filesystem::remove(root_ + "/proc/meminfo");
  group("", "5000", 1000, 0);
  expect(5000, 4000, "a group's limit is known though the machine's memory is not");
}

TEST_F(MemoryLimits, TheHostsMemoryIsReadSo) {
  const MemoryInfo host = host_memory(), read = read_memory();
  EXPECT_EQ(host.total_bytes, read.total_bytes);
  EXPECT_GT(host.available_bytes, 0);
}

}  // namespace
}  // namespace peri::device
