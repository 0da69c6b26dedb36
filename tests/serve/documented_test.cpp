// Every configuration that docs/ shows for peri serve is one that peri serve reads.
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "serve/config/model_config.hpp"
#include "tests/places.hpp"

namespace peri::serve {
namespace {

struct Shown {
  std::string file, text;
};

// Blocks of a page that begin with ```KIND.
std::vector<std::string> blocks(const std::string& page, const std::string& kind) {
  std::vector<std::string> out;
  const std::string begin = "\n```" + kind + "\n", end = "\n```\n";
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at)) {
    at += begin.size();
    const size_t to = page.find(end, at);
    if (to == std::string::npos) break;
    out.push_back(page.substr(at, to - at + 1));
    at = to;
  }
  return out;
}

TEST(Config, WhatThePagesShowIsRead) {
  size_t read = 0;
  for (const char* name : {"serving", "serving-sequences", "serving-robust", "serving-operate", "serving-sizing"}) {
    const auto page = read_file(std::string(tests::kSourceDir) + "/docs/" + name + ".md", 1 << 20);
    ASSERT_TRUE(page.ok()) << page.error().text();
    std::vector<Shown> all;
    for (std::string& text : blocks(*page, "yaml")) all.push_back({"config.yaml", std::move(text)});
    for (std::string& text : blocks(*page, "text"))
      if (text.find("max_batch_size:") != std::string::npos || text.find("instance_group [") != std::string::npos)
        all.push_back({"config.pbtxt", std::move(text)});
    for (const Shown& shown : all) {
      const auto config = parse_model_config(shown.text, shown.file);
      EXPECT_TRUE(config.ok()) << name << ": " << config.error().text() << "\n" << shown.text;
      ++read;
    }
  }
  EXPECT_GE(read, 3u) << "the pages show some";
}

}  // namespace
}  // namespace peri::serve
