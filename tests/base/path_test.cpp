// Folders of names as a shell has them; what stands in a folder is told without following it.
#include "base/path.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace peri {
namespace {

TEST(Path, TheFolderOfAName) {
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(folder_of("a/b"), "a");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("/a/b/c.onnx"), "/a/b");
  EXPECT_EQ(folder_of("./c"), ".");
  EXPECT_EQ(folder_of("a/b/"), "a/b");
}

TEST(Path, WhatStandsInAFolder) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("peri_path_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "inner");
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_TRUE(stands_in(folder.string(), "inner"));
  EXPECT_TRUE(stands_in(folder.string(), "link")) << "though it leads nowhere";
  EXPECT_FALSE(stands_in(folder.string(), "other"));
  EXPECT_FALSE(stands_in(folder.string(), "/etc")) << "an absolute name stays below the folder";
  EXPECT_FALSE(stands_in((folder / "none").string(), "inner"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace peri
