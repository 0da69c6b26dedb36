// What a fresh process says is heard out, its error is the error, and one that is asked to stop is told so once.
#include "bench/fresh.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "tests/bench/records.hpp"

namespace peri::bench {
namespace {

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

TEST(Fresh, TheAnswerIsHeardOut) {
  const auto a = run_fresh(shell("echo one; echo two >&2; exit 3"), {});
  ASSERT_TRUE(a.ok()) << a.error().text();
  EXPECT_EQ(a->output, "one\n");
  EXPECT_EQ(a->code, 3);
  EXPECT_EQ(run_fresh(shell("kill -KILL $$"), {})->code, 128 + 9);
  EXPECT_EQ(run_fresh({"/nowhere/peri"}, {}).error().kind, ErrorKind::kIo);
}

// Asked to stop once it hears that, and again and again while it goes on for a while.
TEST(Fresh, StopIsToldOnce) {
  const std::string hears = testing::TempDir() + "fresh_hears_" + std::to_string(getpid());
  const auto a = run_fresh(shell("trap 'echo told; told=1' TERM; echo begun; touch " + hears +
                                 "; while [ -z \"$told\" ]; do sleep 0.05; done; sleep 0.4"),
                           [&] { return std::filesystem::exists(hears); });
  std::filesystem::remove(hears);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->output, "begun\ntold\n");
}

TEST(Fresh, ProcessesBecomeOneRecord) {
  const Record one = made_up(1, 1, 1);
  const auto all = time_fresh({"/bin/echo", record_json(one)}, 3, {}, {});
  ASSERT_TRUE(all.ok()) << all.error().text();
  EXPECT_EQ(all->processes.size(), 3u);
  EXPECT_FALSE(all->interrupted);
  EXPECT_EQ(all->processes[2].samples_ms, one.processes[0].samples_ms);
}

TEST(Fresh, StoppedBetweenProcessesItSaysSo) {
  int asked = 0;
  const auto part = time_fresh({"/bin/echo", record_json(made_up(1, 1, 1))}, 100, {}, [&] { return ++asked > 12; });
  ASSERT_TRUE(part.ok()) << part.error().text();
  EXPECT_TRUE(part->interrupted);
  EXPECT_LT(part->processes.size(), 100u);
}

// A process that is asked to stop gives the samples it has, and ends as one that was interrupted.
TEST(Fresh, TheSamplesOfTheStoppedProcessAreKept) {
  const std::string hears = testing::TempDir() + "fresh_keeps_" + std::to_string(getpid());
  const auto stop = [&] { return std::filesystem::exists(hears); };
  const std::string record = hears + ".json";
  ASSERT_TRUE(write_file_atomic(record, record_json(made_up(1, 1, 1))).ok());
  const auto kept =
      time_fresh(shell("trap 'cat " + record + "; exit 130' TERM; touch " + hears + "; while :; do sleep 0.05; done"),
                 3, {}, stop);
  std::filesystem::remove(hears);
  std::filesystem::remove(record);
  ASSERT_TRUE(kept.ok()) << kept.error().text();
  EXPECT_TRUE(kept->interrupted);
  ASSERT_EQ(kept->processes.size(), 1u);
  EXPECT_EQ(kept->processes[0].samples_ms, made_up(1, 1, 1).processes[0].samples_ms);
  const auto none =
      time_fresh(shell("trap 'exit 130' TERM; touch " + hears + "; while :; do sleep 0.05; done"), 3, {}, stop);
  std::filesystem::remove(hears);
  EXPECT_EQ(none.error().text(), "interrupted before anything was measured");
}

TEST(Fresh, TheErrorOfAProcessIsTheError) {
  const std::string said =
      R"({"error":{"kind":"io","message":"cannot read","file":"f","node":"","expected":"","found":"","remedy":"look"}})";
  const auto r = time_fresh({"/bin/echo", said}, 2, {}, {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kIo);
  EXPECT_EQ(r.error().text(), "f: cannot read; look");
  EXPECT_NE(time_fresh(shell("kill -SEGV $$"), 1, {}, {}).error().text().find("signal 11"), std::string::npos);
}

}  // namespace
}  // namespace peri::bench
