// What the system says of CPUs, limits and load is read from where it says so, in containers too, and what it does not
// say is not made up.
#include "device/load.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/thread_pool.hpp"

namespace peri::device {
namespace {

class Load : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (std::filesystem::temp_directory_path() / ("peri_load_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(Load, CountersAreRead) {
  write("/proc/stat", "cpu  100 20 30 4000 50 1 2 300 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  write("/proc/loadavg", "5.90 4.00 2.69 8/129 19249\n");
  write("/proc/self/cgroup", "0::/one/two\n");
  write("/sys/fs/cgroup/one/two/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 2500000\n");
  const CpuCounters c = cpu_counters(root_);
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(c.busy_s, 153 / ticks);
  EXPECT_DOUBLE_EQ(c.stolen_s, 300 / ticks);
  EXPECT_DOUBLE_EQ(c.load, 5.9);
  EXPECT_DOUBLE_EQ(c.throttled_s, 2.5);
  EXPECT_GT(c.own_s, 0);
}

TEST_F(Load, WhatIsNotSaidIsNotKnown) {
  const CpuCounters c = cpu_counters(root_ + "/nowhere");
  EXPECT_EQ(c.busy_s, -1);
  EXPECT_EQ(c.stolen_s, -1);
  EXPECT_EQ(c.load, -1);
  EXPECT_EQ(c.throttled_s, -1);
  const CpuLimits l = cpu_limits(root_ + "/nowhere");
  EXPECT_EQ(l.quota, 0);
  EXPECT_EQ(l.max_ghz, 0);
  EXPECT_EQ(l.governor, "");
  EXPECT_EQ(l.usable(), l.affinity);
}

TEST_F(Load, TheLeastQuotaOfAllGroupsCounts) {
  write("/proc/self/cgroup", "3:cpuset:/\n0::/one/two\n");
  write("/sys/fs/cgroup/one/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/one/two/cpu.max", "max 100000\n");
  CpuLimits l = cpu_limits(root_);
  EXPECT_DOUBLE_EQ(l.quota, 1.5);
  EXPECT_EQ(l.quota_from, root_ + "/sys/fs/cgroup/one/cpu.max");
  l.affinity = 64;
  EXPECT_EQ(l.usable(), 2) << "a part of a CPU is one that a thread can run on";
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_limits(root_).quota, 0.5) << "the root of the mount is a container's own group";
}

TEST_F(Load, TheFirstVersionOfControlGroups) {
  write("/proc/self/cgroup", "2:cpuacct,cpu:/docker/x\n0::/\n");
  write("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_limits(root_).quota, 0) << "-1: no limit";
  write("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n");
  EXPECT_DOUBLE_EQ(cpu_limits(root_).quota, 2);
  write("/sys/fs/cgroup/cpu/docker/x/cpu.stat", "nr_periods 3\nthrottled_time 4000000000\n");
  EXPECT_DOUBLE_EQ(cpu_counters(root_).throttled_s, 4);
}

TEST_F(Load, TheClockIsRead) {
  write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2000000\n");
  write("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n");
  write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const CpuLimits l = cpu_limits(root_);
  EXPECT_DOUBLE_EQ(l.max_ghz, 2);
  EXPECT_DOUBLE_EQ(l.hardware_ghz, 3.5);
  EXPECT_EQ(l.governor, "powersave");
}

TEST_F(Load, ThisMachineAgreesWithTheThreadsItIsGiven) {
  const CpuLimits l = cpu_limits();
  EXPECT_GE(l.online, l.usable());
  EXPECT_EQ(l.usable(), usable_cpus()) << "of the affinity and of all groups";
}

}  // namespace
}  // namespace peri::device
