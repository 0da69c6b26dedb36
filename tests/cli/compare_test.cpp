// peri compare reads what peri bench wrote: a regression has its exit code, too few processes have theirs, and what
// cannot be compared is refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/console/arguments.hpp"
#include "tests/bench/records.hpp"

namespace peri::cli {
namespace {

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_compare_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const bench::Record& record) {
    const std::string path = folder_ + "/" + name + ".json";
    EXPECT_TRUE(write_file_atomic(path, bench::record_json(record)).ok());
    return path;
  }
  Result<Outcome> compare(std::vector<std::string> words) {
    words.insert(words.end(), {"--json", "-"});
    std::vector<char*> raw;
    for (std::string& w : words) raw.push_back(w.data());
    PERI_ASSIGN(const Arguments arguments, parse_arguments(*find("compare"), raw));
    return find("compare")->run(arguments);
  }
  std::string folder_;
};

std::string verdict(const Result<Outcome>& r) {
  if (!r.ok()) return r.error().text();
  const auto json = parse_json(r->json);
  return std::string(json->get_string("verdict").value()) + " " + std::to_string(r->code);
}

TEST_F(Compare, VerdictsHaveTheirExitCodes) {
  const std::string one = file("one", bench::made_up(1, 6, 1)), ten = file("ten", bench::made_up(1.1, 6, 2)),
                    same = file("same", bench::made_up(1, 6, 3));
  EXPECT_EQ(verdict(compare({one, ten})), "slower 4");
  EXPECT_EQ(verdict(compare({one, ten, "--limit", "1.2"})), "slower 0");
  EXPECT_EQ(verdict(compare({ten, one})), "faster 0");
  EXPECT_EQ(verdict(compare({one, same})), "no difference told 0");
}

TEST_F(Compare, SingleProcessesHaveNoVerdictAndAreToldHowToGetOne) {
  const auto r = compare({file("one", bench::made_up(1, 1, 1)), file("two", bench::made_up(2, 1, 2))});
  EXPECT_EQ(verdict(r), "no verdict 5");
  EXPECT_NE(r->summary.find("--repeat 5"), std::string::npos) << r->summary;
}

TEST_F(Compare, WhatDisturbedAMeasurementIsTold) {
  bench::Record noisy = bench::made_up(1, 5, 1);
  noisy.disturbed = {"the hypervisor gave 30 % of the CPUs' time to other machines (steal): measure again"};
  const auto json = parse_json(compare({file("noisy", noisy), file("quiet", bench::made_up(1, 5, 2))})->json);
  EXPECT_EQ((*json->get("before"))->get_array("disturbed").value()->size(), 1u);
  EXPECT_EQ((*json->get("after"))->get_array("disturbed").value()->size(), 0u);
}

// Times below a microsecond keep their digits, and what bench said against a measurement is said again.
TEST_F(Compare, ShortTimesAndUnstableSamplesAreShown) {
  bench::Record shaken = bench::made_up(0.0005048, 5, 1);
  shaken.unstable = "the halves differ by 40 %";
  std::vector<std::string> words = {file("shaken", shaken), file("other", bench::made_up(0.0005048, 5, 2))};
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  const auto arguments = parse_arguments(*find("compare"), raw);
  ASSERT_TRUE(arguments.ok());
  testing::internal::CaptureStdout();
  const auto r = find("compare")->run(*arguments);
  std::fflush(stdout);
  const std::string said = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_NE(said.find("not stable: the halves differ by 40 %"), std::string::npos) << said;
  EXPECT_EQ(said.find("0.0005 ms"), std::string::npos) << said;
  EXPECT_NE(said.find(" 0.000"), std::string::npos) << said;
  const auto json = parse_json(r->json);
  EXPECT_EQ((*json->get("before"))->get_string("unstable").value(), "the halves differ by 40 %");
  EXPECT_EQ((*json->get("after"))->get_string("unstable").value(), "");
}

TEST_F(Compare, WhatCannotBeComparedIsRefused) {
  const bench::Record record = bench::made_up(1, 5, 1);
  const std::string one = file("one", record);
  bench::Record other = record;
  other.identity = "ffffffffffffffff";
  EXPECT_NE(verdict(compare({one, file("other", other)})).find("another model"), std::string::npos);
  EXPECT_NE(verdict(compare({one, one, "--limit", "0.5"})).find("--limit is not in range"), std::string::npos);
  EXPECT_EQ(compare({one, folder_ + "/missing.json"}).error().kind, ErrorKind::kIo);
  ASSERT_TRUE(write_file_atomic(folder_ + "/no.json", "{\"form\":1,\"model\":\"m\"}").ok());
  EXPECT_NE(verdict(compare({one, folder_ + "/no.json"})).find("no.json: a measurement of another form"),
            std::string::npos);
  for (const char* text : {"{}", "{\"model\":\"m\"}", "{\"command\":\"bench\"}"}) {
    ASSERT_TRUE(write_file_atomic(folder_ + "/no.json", text).ok());
    EXPECT_NE(verdict(compare({one, folder_ + "/no.json"})).find("found JSON of another kind"), std::string::npos);
  }
}

TEST_F(Compare, ResultsOfServersAreNotCompared) {
  const std::string at = folder_ + "/load.json";
  ASSERT_TRUE(write_file_atomic(at, R"({"command":"bench","endpoint":"127.0.0.1:8000","model":"m","points":[]})").ok());
  const auto r = compare({at, at});
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().text().find("load.json: results of servers are not compared"), std::string::npos);
  EXPECT_NE(r.error().remedy.find("peri bench ENGINE --repeat 5 --json FILE"), std::string::npos) << r.error().text();
}

TEST_F(Compare, RefusalsNameFilesAndWhatToDo) {
  const bench::Record record = bench::made_up(1, 5, 1);
  const auto changed = [&](const std::function<void(bench::Record*)>& how) {
    bench::Record other = record;
    how(&other);
    const auto r = compare({file("one", record), file("other", other)});
    EXPECT_FALSE(r.ok());
    if (r.ok()) return;
    EXPECT_TRUE(r.error().file.ends_with("other.json")) << r.error().text();
    EXPECT_FALSE(r.error().remedy.empty()) << r.error().text();
  };
  changed([](bench::Record* r) { r->identity = "ffffffffffffffff"; });
  changed([](bench::Record* r) { r->identity = ""; });
  changed([](bench::Record* r) { r->dims["batch"] = 7; });
  changed([](bench::Record* r) { r->threads = 9; });
  changed([](bench::Record* r) { r->interrupted = true; });
  changed([](bench::Record* r) { r->processes[1].samples_ms.resize(2); });
}

}  // namespace
}  // namespace peri::cli
