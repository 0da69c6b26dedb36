// What a scan of a repository sees of a file that took the place of another.
#include "serve/repository/scan.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace peri::serve {
namespace {
namespace fs = std::filesystem;

TEST(Scan, SeesAFileOfTheSameSizeAndTime) {
  const fs::path root = fs::temp_directory_path() / ("peri_scan_" + std::to_string(getpid()));
  const fs::path folder = root / "m" / "1", file = folder / "model.onnx", other = root / "m" / "other";
  fs::create_directories(folder);
  const auto write = [](const fs::path& to, const char* bytes) { std::ofstream(to) << bytes; };
  const auto stamp = [&] {
    const auto found = scan_model(root.string(), "m");
    EXPECT_TRUE(found.ok()) << found.error().text();
    return found.ok() && found->versions.size() == 1 ? found->versions[0].stamp : 0;
  };
  write(file, "one");
  const uint64_t first = stamp();
  EXPECT_NE(first, 0u);
  EXPECT_EQ(stamp(), first);
  write(other, "two");
  fs::last_write_time(other, fs::last_write_time(file));
  fs::rename(other, file);
  EXPECT_NE(stamp(), first);
  fs::remove_all(root);
}
}  // namespace
}  // namespace peri::serve
