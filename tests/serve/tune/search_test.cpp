// Tuning on simulated models: the settings found take nearly the largest rate that any take, and meet the objective
// there on arrivals that the search never saw.
#include "serve/tune/search.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "tests/places.hpp"

namespace peri::serve {
namespace {

Search search_of(int64_t base_us, int64_t row_us, const char* objective, int slots = 1) {
  Search s;
  s.objective = parse_objective(objective).value();
  for (int64_t k = 1; k <= 32; ++k) s.policy.sizes.push_back(k);
  for (const int64_t rows : {1, 2, 4, 8, 16, 32}) s.times[rows] = (base_us + rows * row_us) * 1000;
  s.slots = slots;
  return s;
}

// Another seed than the search's.
Measure other_arrivals(const Search& s, int* asked = nullptr) {
  return [&s, asked](const BatchSettings& b, double rate) -> Result<Seen> {
    if (asked) ++*asked;
    QueuePolicy policy = with_settings(s.policy, b);
    policy.level.max_queue = longest_queue(s);
    return simulate(policy, s.times, s.slots, rate, 10000, 99);
  };
}

double best_of_grid(const Search& s) {
  double best = 0;
  for (const int64_t rows : {1, 4, 8, 16, 32})
    for (const int64_t delay_us : {0, 1000, 5000})
      best = std::max(best, largest_rate(s.objective, {rows, delay_us * 1000}, 500, 16, other_arrivals(s))->per_second);
  return best;
}

TEST(Tune, FindsNearlyTheLargestRate) {
  for (const int slots : {1, 3}) {
    const Search s = search_of(5000, 250, "p99=40ms", slots);  // batches pay: 190 rows a second alone, 2460 by 32
    int asked = 0;
    const auto found = find_settings(s, other_arrivals(s, &asked));
    ASSERT_TRUE(found.ok()) << found.error().text();
    const TunedPoint& best = found->front();
    EXPECT_GT(best.settings.most_rows, 4);
    EXPECT_LE(best.quantile_ns, s.objective.ns);
    EXPECT_GT(best.per_second, 0.9 * best_of_grid(s));
    EXPECT_LE(asked, 18);
    const Seen again =
        simulate(with_settings(s.policy, best.settings), s.times, slots, 0.95 * best.per_second, 20000, 7);
    EXPECT_LE(again.latency.quantile(0.99), s.objective.ns);
  }
}

TEST(Tune, ARateIsToldInDigits) {
  KeptTuning t;
  t.objective = "p99=20ms";
  t.best.settings = {16, 1'500'000};
  t.best.quantile_ns = 18'200'000;
  for (const auto& [rate, told] : {std::pair{94760.4, "94760"}, {1200.0, "1200"}, {999.4, "999.4"}, {0.25, "0.25"}}) {
    t.best.per_second = rate;
    EXPECT_EQ(tuning_text(t), std::string("batches of up to 16 rows, a delay of 1.5 ms: ") + told +
                                  " rows a second for p99=20ms, at 18.2 ms");
  }
}

TEST(Tune, DoesNotBatchWhereBatchesGainNothing) {
  const Search s = search_of(0, 2000, "p95=50ms");
  const auto found = find_settings(s, other_arrivals(s));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->front().settings, (BatchSettings{1, 0}));
}

TEST(Tune, SaysWhenNothingMeetsTheObjective) {
  const auto found = find_settings(search_of(5000, 250, "p99=4ms"), nullptr);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::kRefused);
  EXPECT_NE(found.error().text().find("5.25 ms"), std::string::npos) << found.error().text();
}

TEST(Tune, TheSimulationIsAServer) {
  Search s = search_of(1000, 0, "p50=1s");
  const Seen idle = simulate(with_settings(s.policy, {1, 0}), s.times, 1, 1, 200, 3);
  EXPECT_EQ(idle.latency.quantile(0.9), 1000000) << "nothing waits at one a second";
  EXPECT_EQ(idle.latency.count(), 200u);
  const Seen delayed = simulate(with_settings(s.policy, {4, 3000000}), s.times, 1, 1, 200, 3);
  EXPECT_NEAR(static_cast<double>(delayed.latency.quantile(0.5)), 4e6, 4e6 / 31);
  s.policy.level.max_queue = 5;
  EXPECT_FALSE(simulate(with_settings(s.policy, {1, 0}), s.times, 1, 5000, 2000, 3).kept_up);
  EXPECT_EQ(run_ns({{1, 10}, {3, 30}}, 2), 20);
  EXPECT_EQ(run_ns({{1, 10}, {3, 30}}, 6), 60);
}

TEST(Tune, ObjectivesAndWhatIsKept) {
  EXPECT_EQ(parse_objective("p99.9=500us")->ns, 500000);
  EXPECT_EQ(parse_objective("p50=1.5s")->text(), "p50=1500ms");
  for (const char* bad :
       {"", "p99", "p99=", "99=1ms", "p100=1ms", "p99=1", "p99=0ms", "p99=-1ms", "p99=1h", "p99=nanms"})
    EXPECT_FALSE(parse_objective(bad).ok()) << bad;
  KeptTuning t;
  t.objective = "p99=20ms";
  t.files = 0xfedcba9876543210ull;
  t.slots = 2;
  t.machine = "some";
  t.stated = {16, 500, {4, 8}};
  t.best = {{16, 1500000}, 1200.5, 18200000};
  t.tried = {t.best, {{8, 0}, 1000, 1000000}};
  const std::string path = std::string(tests::kBuildDir) + "/batching-test.json";
  ASSERT_TRUE(write_file_atomic(path, kept_tuning_json(t)).ok());
  const auto read = read_kept_tuning(path);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->files, t.files);
  EXPECT_EQ(read->stated, t.stated);
  EXPECT_TRUE(check_replaces(path, kTuningFile, false).ok());
  EXPECT_EQ(read->best.settings, t.best.settings);
  EXPECT_EQ(read->tried.size(), 2u);
  EXPECT_EQ(kept_tuning_json(*read), kept_tuning_json(t));
  for (const char* bad : {"{}", "", "{\"format\":\"peri batching 3\"}"}) {
    ASSERT_TRUE(write_file_atomic(path, bad).ok());
    EXPECT_NE(read_kept_tuning(path).error().text().find("batching-test.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace peri::serve
