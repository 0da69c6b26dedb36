// Words that are given to a shell come back as they were.
#include "base/shell_word.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/rng.hpp"
#include "base/utf8.hpp"

namespace peri {
namespace {

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  for (const char* word : {"model.onnx", "a/b-c_d.engine", "batch=2,image.0=3", "f16:x@1%+", "modèle.onnx"})
    EXPECT_EQ(shell_word(word), word);
}

TEST(ShellWord, OthersAreQuoted) {
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("my model.onnx"), "'my model.onnx'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(rm x);`y`"), "'$(rm x);`y`'");
  EXPECT_EQ(shell_word("p99<5ms"), "'p99<5ms'");
  EXPECT_EQ(shell_word("~/m"), "'~/m'");
  EXPECT_EQ(shell_word("a\x1b[31m'\\\xff"), "$'a\\x1b[31m\\'\\\\\\xff'");
  EXPECT_EQ(shell_word("a\u202eb"), "$'a\\xe2\\x80\\xaeb'");
}

// What bash makes of the word is the text that it was made of.
TEST(ShellWord, BashReadsTheTextBack) {
  Rng rng(7);
  std::string script, expected;
  for (int k = 0; k < 200; ++k) {
    std::string text;
    for (uint64_t n = rng.below(12); n > 0; --n) text += static_cast<char>(1 + rng.below(k % 2 ? 255 : 126));
    const std::string word = shell_word(text);
    EXPECT_EQ(printable(word), word);
    script += "printf '%s\\0' " + word + "\n";
    expected += text + '\0';
  }
  const std::string path = testing::TempDir() + "/shell_words.sh";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_TRUE(file);
  ASSERT_EQ(std::fwrite(script.data(), 1, script.size(), file), script.size());
  std::fclose(file);
  std::FILE* pipe = popen(("LC_ALL=C bash " + shell_word(path)).c_str(), "r");
  ASSERT_TRUE(pipe);
  std::string got;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) got.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace peri
