// Slower, faster and equal measurements are told apart, a regression has its exit code, and what cannot be compared is
// refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/rng.hpp"
#include "cli/console/arguments.hpp"

namespace peri::cli {
namespace {

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_compare_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // A file as peri bench writes it.
  std::string measured(const std::string& name, double ms, const std::string& model = "m", int64_t batch = 1,
                       int samples = 200) {
    Rng rng(name.size() + static_cast<uint64_t>(ms * 1000));
    JsonWriter w;
    w.begin_object()
        .field("model", model)
        .field("threads", 2)
        .key("dims")
        .begin_object()
        .field("batch", batch)
        .end_object();
    w.key("samples").begin_array();
    for (int k = 0; k < samples; ++k) w.value(ms * (1 + 0.01 * std::fabs(rng.normal())));
    w.end_array().end_object();
    const std::string path = folder_ + "/" + name + ".json";
    EXPECT_TRUE(write_file_atomic(path, w.take()).ok());
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

TEST_F(Compare, TellsSlowerFasterAndEqualApart) {
  const std::string one = measured("one", 1.0), ten = measured("ten_percent", 1.1), two = measured("two_percent", 1.02),
                    same = measured("same", 1.0);
  EXPECT_EQ(verdict(compare({one, ten})), "slower 4");
  EXPECT_EQ(verdict(compare({one, ten, "--limit", "1.2"})), "slower 0");
  EXPECT_EQ(verdict(compare({one, two})), "slower 0") << "within the limit";
  EXPECT_EQ(verdict(compare({one, two, "--limit", "1"})), "slower 4");
  EXPECT_EQ(verdict(compare({ten, one})), "faster 0");
  EXPECT_EQ(verdict(compare({one, same})), "no difference told 0");
}

TEST_F(Compare, WhatCannotBeComparedIsRefused) {
  const std::string one = measured("one", 1.0);
  EXPECT_NE(verdict(compare({one, measured("other", 1.0, "n")})).find("another model"), std::string::npos);
  EXPECT_NE(
      verdict(compare({one, measured("wide", 1.0, "m", 8)})).find("another size: expected batch=1, found batch=8"),
      std::string::npos);
  EXPECT_NE(verdict(compare({one, measured("few", 1.0, "m", 1, 3)})).find("too few samples"), std::string::npos);
  EXPECT_NE(verdict(compare({one, measured("negative", -1.0)})).find("a sample of"), std::string::npos);
  EXPECT_NE(verdict(compare({one, one, "--limit", "0.5"})).find("--limit is not a ratio"), std::string::npos);
  EXPECT_EQ(compare({one, folder_ + "/missing.json"}).error().kind, ErrorKind::kIo);
  ASSERT_TRUE(write_file_atomic(folder_ + "/no.json", "{\"model\":\"m\"}").ok());
  EXPECT_FALSE(compare({one, folder_ + "/no.json"}).ok());
}

}  // namespace
}  // namespace peri::cli
