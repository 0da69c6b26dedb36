// Help fits into the columns that there are, says the same words at any width, and is one line a flag where nothing
// limits it.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/console/arguments.hpp"
#include "cli/console/columns.hpp"
#include "cli/console/terminal.hpp"

namespace peri::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

TEST(Help, FitsIntoATerminal) {
  ASSERT_GT(entries().size(), 5u);
  for (const Entry* e : entries())
    for (const size_t columns : {40, 60, 80, 120}) {
      const std::string text = help_text(e->command, columns);
      for (const std::string& line : lines_of(text)) {
        const bool example = line.starts_with("  peri ");
        const bool one_word = words_of(line).size() <= 1;
        EXPECT_TRUE(line.size() < columns || example || one_word || line.starts_with("usage:"))
            << e->command.name << " at " << columns << ": " << line;
        EXPECT_FALSE(line.ends_with(' ')) << e->command.name << ": '" << line << "'";
      }
      EXPECT_EQ(words_of(text), words_of(help_text(e->command))) << e->command.name;
    }
}

TEST(Help, IsALineAFlagWhereNothingLimitsIt) {
  const std::string text = help_text(*find("build"));
  for (const Flag& f : find("build")->flags) {
    const size_t at = text.find(std::string(f.name) + (f.value.empty() ? " " : " " + std::string(f.value) + " "));
    ASSERT_NE(at, std::string::npos) << f.name;
    EXPECT_NE(text.substr(at, text.find('\n', at) - at).find(f.help), std::string::npos) << f.name;
  }
}

TEST(Progress, LinesAreCutByTheColumnsTheyTake) {
  EXPECT_EQ(within("abcdef", 4), "abc") << "the last column is left free";
  EXPECT_EQ(within("abc", 4), "abc");
  EXPECT_EQ(within("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 3), "\xc3\xa4\xc3\xb6") << "two bytes, one column";
  const std::string wide = "\xe5\xb1\xa4";  // U+5C64: two columns
  EXPECT_EQ(within(wide + wide + wide, 6), wide + wide);
  EXPECT_EQ(within(wide + wide, 5), wide + wide);
  EXPECT_EQ(within(wide, 2), "") << "half a character does not fit";
  EXPECT_EQ(within("\xf0\x9f\x98\x80" + wide, 4), "\xf0\x9f\x98\x80");
}

TEST(Help, RowsHangFromTheirColumn) {
  EXPECT_EQ(help_row("  -x", "one two three", 8, 16), "  -x    one two\n        three\n");
  EXPECT_EQ(help_row("  --long-one", "one two", 8, 16), "  --long-one\n        one two\n");
  EXPECT_EQ(help_row("  --long-one", "one two", 8, 0), "  --long-one  one two\n");
  EXPECT_EQ(help_row("", "one two three", 0, 8), "one two\nthree\n");
  EXPECT_EQ(help_row("  -x", "unbreakable-word", 8, 16), "  -x    unbreakable-word\n");
}

TEST(Columns, NamesInAnyScriptLineUp) {
  EXPECT_EQ(columns_of("caf\xc3\xa9"), 4u);
  EXPECT_EQ(columns_of("cafe\xcc\x81"), 4u) << "a mark over the letter";
  EXPECT_EQ(columns_of("\xe5\x85\xa5\xe5\x8a\x9b"), 4u) << "two wide characters";
  EXPECT_EQ(in_columns("caf\xc3\xa9", 6), "caf\xc3\xa9  ");
  EXPECT_EQ(in_columns("\xe5\x85\xa5", 5), "\xe5\x85\xa5   ");
  EXPECT_EQ(in_columns("a\n", 6), "a\\x0a ") << "as it is printed";
  EXPECT_EQ(in_columns("abc", 2), "abc");
  EXPECT_EQ(cut_to_columns("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_columns("abcdefg", 6), "abcd..");
  EXPECT_EQ(cut_to_columns("\xe5\x85\xa5\xe5\x8a\x9b\xe5\x85\xa5", 5), "\xe5\x85\xa5..") << "half of one does not fit";
}

}  // namespace
}  // namespace peri::cli
