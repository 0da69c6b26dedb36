// What others took while something was measured is the difference of two counters, said in words where it counts and
// not where it does not.
#include "bench/conditions.hpp"

#include <gtest/gtest.h>

namespace peri::bench {
namespace {

device::CpuCounters at(double s, double busy, double stolen, double own, double throttled) {
  return {.at_s = s, .busy_s = busy, .stolen_s = stolen, .own_s = own, .throttled_s = throttled, .load = 1.5};
}

TEST(Conditions, AreDifferencesOfCounters) {
  const Conditions c = conditions_between(at(10, 100, 5, 20, 1), at(14, 107, 7, 23, 2), 2);
  EXPECT_DOUBLE_EQ(c.load, 1.5);
  EXPECT_DOUBLE_EQ(c.others_cpus, 1) << "7 s busy, 3 s of them its own, in 4 s";
  EXPECT_DOUBLE_EQ(c.stolen_share, 0.25) << "2 s of the 8 s of two CPUs";
  EXPECT_DOUBLE_EQ(c.throttled_share, 0.25);
  const Conditions unknown = conditions_between(at(10, -1, -1, 0, -1), at(14, -1, -1, 1, -1), 2);
  EXPECT_EQ(unknown.others_cpus, -1);
  EXPECT_EQ(unknown.stolen_share, -1);
  EXPECT_EQ(unknown.throttled_share, -1);
}

TEST(Conditions, WhatCountsIsSaid) {
  const device::CpuLimits two = {.online = 2, .affinity = 2};
  const auto told = [&](const Conditions& c, int threads) {
    std::string all;
    for (const std::string& line : disturbances(c, threads, two)) all += line + "\n";
    return all;
  };
  EXPECT_EQ(told({.load = 9, .others_cpus = 0.05, .stolen_share = 0.01, .throttled_share = 0}, 2), "");
  EXPECT_EQ(told({}, 2), "") << "what is not known is not said";
  EXPECT_NE(told({.others_cpus = 1}, 2).find("other processes used 1.0 of 2 CPUs"), std::string::npos);
  EXPECT_EQ(told({.others_cpus = 1}, 1), "") << "one thread has the other CPU to itself";
  EXPECT_NE(told({.stolen_share = 0.3}, 1).find("hypervisor gave 30 %"), std::string::npos);
  EXPECT_NE(told({.throttled_share = 0.5}, 1).find("held this process back for 50 %"), std::string::npos);
  EXPECT_NE(told({}, 64).find("64 threads share the 2 CPUs"), std::string::npos);
}

TEST(Conditions, AreReadAsTheyWereWritten) {
  const Conditions c = {.load = 0.5, .others_cpus = 0.25, .stolen_share = -1, .throttled_share = 0};
  JsonWriter w;
  write_conditions(w, c);
  const std::string text = w.take();
  EXPECT_EQ(text.find("stolen"), std::string::npos) << text;
  const auto json = parse_json(text);
  const auto back = read_conditions(*json);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->load, c.load);
  EXPECT_EQ(back->others_cpus, c.others_cpus);
  EXPECT_EQ(back->stolen_share, -1);
  EXPECT_EQ(back->throttled_share, 0);
  EXPECT_FALSE(read_conditions(*parse_json("{\"load\": \"high\"}")).ok());
}

}  // namespace
}  // namespace peri::bench
