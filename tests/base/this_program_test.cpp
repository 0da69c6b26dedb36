// The running program is found, and a build of it is told from another.
#include "base/this_program.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace peri {
namespace {
namespace fs = std::filesystem;

TEST(ThisProgram, IsFound) {
  const auto path = program_path();
  ASSERT_TRUE(path.ok()) << path.error().text();
  EXPECT_EQ(fs::path(*path).filename(), "test_base");
  EXPECT_EQ(program_identity(), file_identity(*path));
  EXPECT_EQ(program_identity().substr(0, program_identity().find(' ')), std::to_string(fs::file_size(*path)));
}

TEST(ThisProgram, AnotherFileIsAnother) {
  const std::string path = testing::TempDir() + "identity";
  std::ofstream(path) << "one";
  const std::string one = file_identity(path);
  EXPECT_EQ(one, file_identity(path));
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::nanoseconds(1000));
  const std::string later = file_identity(path);
  EXPECT_NE(one, later);
  std::ofstream(path) << "longer";
  EXPECT_NE(file_identity(path), later);
  fs::remove(path);
  EXPECT_NE(file_identity(path), file_identity(path)) << "nothing is known of it";
}

}  // namespace
}  // namespace peri
