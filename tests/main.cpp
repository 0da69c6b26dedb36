// Every test program's main: `--source=FILE_test.cpp` runs the tests of that file only, and fails when there are none.
// Tests that were skipped are named at the end with their reasons, and where all of a file's were the exit code is 77.
// What tests write for a time lies in one folder, which goes at the end; that of a killed program goes with the next
// one's start. Under the name of a program that add_program() was given it is that program.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "base/temporary_folder.hpp"
#include "tests/programs/add_program.hpp"

namespace {

std::map<std::string_view, peri::ProgramMain>& programs() {
  static std::map<std::string_view, peri::ProgramMain> list;
  return list;
}

bool ends_with_path(std::string_view path, std::string_view tail) {
  if (!path.ends_with(tail)) return false;
  return path.size() == tail.size() || path[path.size() - tail.size() - 1] == '/';
}

// The filter that selects all tests whose source file ends with `source`; empty when there is none.
std::string filter_of(std::string_view source) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (!ends_with_path(test.file(), source)) continue;
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

// The reasons of a skipped test.
std::string reasons_of(const testing::TestResult& result) {
  std::string out;
  for (int k = 0; k < result.total_part_count(); ++k)
    if (const testing::TestPartResult& part = result.GetTestPartResult(k); part.skipped())
      out += std::string(out.empty() ? "" : "; ") + part.message();
  return out;
}

constexpr int kAllSkipped = 77;  // as CMake's SKIP_RETURN_CODE

// Names what was skipped; whether nothing else ran.
bool name_skipped() {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i)
    for (int j = 0; j < all.GetTestSuite(i)->total_test_count(); ++j) {
      const testing::TestInfo& test = *all.GetTestSuite(i)->GetTestInfo(j);
      if (test.result()->Skipped())
        std::printf("not run: %s.%s: %s\n", test.test_suite_name(), test.name(), reasons_of(*test.result()).c_str());
    }
  return all.skipped_test_count() > 0 && all.skipped_test_count() == all.test_to_run_count();
}

}  // namespace

bool peri::add_program(std::string_view name, ProgramMain main) { return programs().emplace(name, main).second; }

int main(int argc, char** argv) {
  const std::string_view own = argc > 0 ? argv[0] : "";
  if (const auto program = programs().find(own.substr(own.rfind('/') + 1)); program != programs().end())
    return program->second(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with("--source=")) {
      std::fprintf(stderr, "unknown argument: %s\n", argv[i]);
      return 2;
    }
    const std::string_view source = argument.substr(9);
    const std::string filter = filter_of(source);
    if (filter.empty()) {
      std::fprintf(stderr, "no test comes from %s\n", argv[i] + 9);
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  // Static, so that it goes after the threads of what tests have opened: they may still write there.
  static const auto folder = peri::TemporaryFolder::create("tests");
  if (!folder.ok()) {
    std::fprintf(stderr, "%s\n", folder.error().text().c_str());
    return 1;
  }
  for (const char* name : {"TMPDIR", "TEST_TMPDIR"}) setenv(name, folder->path().c_str(), 1);
  const int failed = RUN_ALL_TESTS();
  return name_skipped() && failed == 0 ? kAllSkipped : failed;
}
