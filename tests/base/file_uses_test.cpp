// No file is lost: two names of one file are refused however they are spelt, and a file gives way to its own kind only.
#include "base/file_uses.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"

namespace peri {
namespace {

const FileKind kLetter{"a letter", [](std::string_view head) { return head.starts_with("Hello"); }};

class Uses : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_uses_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_ + "/sub");
    ASSERT_TRUE(write_file_atomic(folder_ + "/a", "Hello reader").ok());
    ASSERT_TRUE(write_file_atomic(folder_ + "/b", "a model").ok());
    std::filesystem::create_symlink("a", folder_ + "/link");
    std::filesystem::create_hard_link(folder_ + "/a", folder_ + "/hard");
    std::filesystem::create_symlink("..", folder_ + "/sub/up");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  ErrorKind kind(const std::string& read, const std::string& written, bool force = false) {
    FileUses u;
    u.reads("the input", folder_ + read);
    u.writes("--output", folder_ + written, kLetter);
    const Status s = u.check(force);
    return s.ok() ? ErrorKind::kCancelled : s.error().kind;  // which check() never gives
  }
  std::string folder_;
};

TEST_F(Uses, TwoNamesOfOneFileAreWrongUsage) {
  for (const char* written : {"/a", "/./a", "/sub/../a", "/link", "/hard", "/sub/up/a"}) {
    EXPECT_EQ(kind("/a", written), ErrorKind::kUsage) << written;
    EXPECT_EQ(kind("/a", written, true), ErrorKind::kUsage) << written;
  }
  EXPECT_EQ(kind("/new", "/sub/up/new"), ErrorKind::kUsage) << "a file that is not there yet";
  EXPECT_EQ(kind("/b", "/a"), ErrorKind::kCancelled);
  FileUses two;
  two.writes("--one", folder_ + "/new", kLetter);
  two.writes("--two", folder_ + "/sub/../new", kLetter);
  ASSERT_FALSE(two.check(true).ok());
  EXPECT_NE(two.check(true).error().text().find("--one and --two are one file"), std::string::npos);
  FileUses read;
  read.reads("one", folder_ + "/a");
  read.reads("two", folder_ + "/link");
  read.writes("none", "", kLetter);
  EXPECT_TRUE(read.check(false).ok()) << "what is only read may be read twice";
}

TEST_F(Uses, AFileGivesWayToItsOwnKindOnly) {
  EXPECT_EQ(kind("/none", "/b"), ErrorKind::kRefused);
  EXPECT_EQ(kind("/none", "/b", true), ErrorKind::kCancelled);
  EXPECT_EQ(kind("/none", "/a"), ErrorKind::kCancelled);
  EXPECT_EQ(kind("/none", "/sub", true), ErrorKind::kInvalid);
  ASSERT_TRUE(write_file_atomic(folder_ + "/b", "").ok());
  EXPECT_EQ(kind("/none", "/b"), ErrorKind::kCancelled) << "an empty file is of every kind";
}

TEST_F(Uses, AFileIsWrittenWhateverIsWrongWithOthers) {
  FileUses u;
  u.reads("the input", folder_ + "/a");
  u.writes("--output", folder_ + "/link", kLetter);
  u.writes("--json", folder_ + "/new", kLetter);
  u.writes("--log", folder_ + "/b", kLetter);
  EXPECT_FALSE(u.check(false).ok());
  EXPECT_TRUE(u.may_write(folder_ + "/new", false));
  EXPECT_FALSE(u.may_write(folder_ + "/b", false));  // of another kind
  EXPECT_TRUE(u.may_write(folder_ + "/b", true));
  for (const char* same : {"/a", "/link", "/hard", "/./a"}) EXPECT_FALSE(u.may_write(folder_ + same, true)) << same;
  u.writes("--lock", folder_ + "/sub/../new", kLetter);
  EXPECT_FALSE(u.may_write(folder_ + "/new", true));
  EXPECT_TRUE(same_file(folder_ + "/a", folder_ + "/hard") && same_file(folder_ + "/no", folder_ + "/sub/up/no"));
  EXPECT_FALSE(same_file(folder_ + "/a", folder_ + "/b") || same_file("/dev/null", "/dev/null"));
}

}  // namespace
}  // namespace peri
