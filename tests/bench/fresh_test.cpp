// What a fresh process says is heard out, its error is the error, and one that is asked to stop is told so once.
#include "bench/fresh.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

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
