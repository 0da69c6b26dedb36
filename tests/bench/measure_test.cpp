// The timing loop takes what its schedule says, and samples that disagree are told.
#include "bench/measure.hpp"

#include <gtest/gtest.h>

namespace peri::bench {
namespace {

TEST(Loop, TakesSamplesByTheSchedule) {
  int calls = 0, before = 0;
  Schedule s{.warm_up_seconds = 0, .seconds = 0, .min_samples = 4, .max_samples = 9};
  s.before = [&] { ++before; };
  const auto once = [&]() -> Result<double> { return ++calls; };
  EXPECT_EQ(*sample(s, once), (std::vector<double>{2, 3, 4, 5})) << "the first call is the warm-up";
  EXPECT_EQ(before, 4);
  s.seconds = 3600;
  EXPECT_EQ(sample(s, once)->size(), 9u);
  EXPECT_EQ(sample(s, once, [] { return true; })->size(), 1u) << "stopped";
  EXPECT_FALSE(sample(s, [&]() -> Result<double> {
                 if (++calls > 20) return invalid("no");
                 return 1.0;
               }).ok());
}

TEST(Loop, TakesWholeBatches) {
  int batches = 0, before = 0;
  Schedule s{.warm_up_seconds = 0, .seconds = 0, .min_samples = 4, .max_samples = 8};
  s.before = [&] { ++before; };
  const auto batch = [&](std::vector<double>* into) -> Status {
    ++batches;
    for (int k = 0; k < 3; ++k) into->push_back(batches);
    return Ok{};
  };
  EXPECT_EQ(*sample_batches(s, batch), (std::vector<double>{2, 2, 2, 3, 3, 3})) << "the first batch is the warm-up";
  EXPECT_EQ(before, 2) << "once for a batch";
  s.seconds = 3600;
  EXPECT_EQ(sample_batches(s, batch)->size(), 9u) << "8 within a batch: it is kept whole";
  EXPECT_EQ(sample_batches(s, batch, [] { return true; })->size(), 3u) << "stopped";
  EXPECT_FALSE(sample_batches(s, [&](std::vector<double>*) -> Status { return invalid("no"); }).ok());
}

TEST(Loop, SamplesOfABatchAreTakenApart) {
  const std::vector<double> all = {1, 2, 3, 10, 20, 30};
  EXPECT_EQ(every(all, 3, 0), (std::vector<double>{1, 10}));
  EXPECT_EQ(every(all, 3, 2), (std::vector<double>{3, 30}));
  EXPECT_EQ(every({}, 2, 1), std::vector<double>());
}

TEST(Stability, HalvesThatDisagreeAreTold) {
  const std::vector<double> even(40, 1.0);
  EXPECT_EQ(why_unstable(summarize(even), 0.01), "");
  std::vector<double> drift = even;
  for (size_t k = 20; k < drift.size(); ++k) drift[k] = 1.5;
  EXPECT_NE(why_unstable(summarize(drift), 0.25).find("second 1.5 ms"), std::string::npos);
  EXPECT_EQ(why_unstable(summarize(drift), 0.6), "");
  EXPECT_EQ(why_unstable(summarize({drift.begin() + 16, drift.begin() + 24}), 0.25), "") << "too few to tell";
}

TEST(Stability, AWideIntervalIsTold) {
  std::vector<double> two;
  for (int k = 0; k < 20; ++k) two.push_back(k % 2 ? 1.0 : 2.0);
  EXPECT_NE(why_unstable(summarize(two), 0.25).find("between 1 and 2 ms"), std::string::npos)
      << why_unstable(summarize(two), 0.25);
}

}  // namespace
}  // namespace peri::bench
