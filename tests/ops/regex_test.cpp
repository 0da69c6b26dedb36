// Regular expressions of RegexFullMatch: what matches as a whole, what is no expression, and time that does not
// explode.
#include "ops/reference/regex.hpp"

#include <gtest/gtest.h>

#include "base/rng.hpp"

namespace peri::ops {
namespace {

struct Case {
  const char *pattern, *text;
  bool matches;
};
constexpr Case kCases[] = {{"a*", "", true},
                           {"a*", "aaa", true},
                           {"a*", "aab", false},
                           {"(ab|c)+d?", "abcabd", true},
                           {"(ab|c)+d?", "abda", false},
                           {"[^a-c]x", "dx", true},
                           {"[^a-c]x", "bx", false},
                           {"[]a]+", "a]", true},
                           {"\\d{2,3}-\\w+", "123-a_1", true},
                           {"\\d{2,3}-\\w+", "1-a", false},
                           {"a{2}b{,3}", "aab{,3}", true},
                           {"^ab$", "ab", true},
                           {"(?i)straSSe", "STRASSE", true},
                           {"(?:\\xe4|\\x{20AC})", "€", true},
                           {".", "\n", false},
                           {"(?s).", "\n", true},
                           {"\\bfoo\\b.*", "foo bar", true},
                           {"\\bfoo\\b.*", "foobar", false},
                           {"[\\w.]+@[a-z]+\\.com", "a.b@c.com", true},
                           {"", "", true},
                           {"a||b", "", true}};

TEST(Regex, WholeTextsMatch) {
  for (const Case& c : kCases) {
    const auto r = Regex::parse(c.pattern);
    ASSERT_TRUE(r.ok()) << c.pattern << ": " << r.error().text();
    EXPECT_EQ(r->matches(c.text), c.matches) << c.pattern << " of " << c.text;
  }
}

// Against every part of the text, each matched as a whole.
TEST(Regex, TheFirstAndLongestMatchIsFound) {
  for (const char* pattern : {"(ab|c)+d?", "[^a-c]+", "a|ab|abb", "b*", "(a|ab)(c|bcd)", ".*d"}) {
    const Regex r = Regex::parse(pattern).value();
    Rng rng(5);
    for (int k = 0; k < 500; ++k) {
      std::string text;
      for (int64_t n = rng.below(12); n > 0; --n) text += "aabbcdx"[rng.below(7)];
      const std::u32string points(text.begin(), text.end());
      const auto from = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size()) + 1));
      std::optional<std::pair<size_t, size_t>> wanted;
      for (size_t begin = from; begin <= text.size() && !wanted; ++begin)
        for (size_t end = begin; end <= text.size(); ++end)
          if (r.matches(text.substr(begin, end - begin))) wanted = {begin, end};
      ASSERT_EQ(r.find(points, from), wanted) << pattern << " in " << text << " from " << from;
    }
  }
  const std::u32string text = U"the cat";  // what is around a part of a text counts
  EXPECT_EQ(Regex::parse("\\b.").value().find(text, 1), std::pair(size_t{3}, size_t{4}));
  EXPECT_EQ(Regex::parse("^.").value().find(text, 1), std::nullopt);
}

TEST(Regex, ManyTextsMatchAsEachAlone) {
  for (const char* pattern :
       {"(ab|c)+d?", "[^a-c]*x", "(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)", "\\bab.*", ".*d", "a||b"}) {
    const Regex r = Regex::parse(pattern).value();
    Matcher many(r);
    Rng rng(3);
    for (int k = 0; k < 3000; ++k) {
      std::string text;
      for (int64_t n = rng.below(30); n > 0; --n) text += "aabbcdx \n"[rng.below(9)];
      if (rng.below(9) == 0) text += "€";
      if (rng.below(9) == 0) text += "\xff";
      ASSERT_EQ(many.matches(text), r.matches(text)) << pattern << " of " << text;
    }
  }
}

TEST(Regex, WhatIsNoneIsRefused) {
  for (const char* p : {"(a", "a)", "[a", "*a", "a{3,2}", "a{2000}", "\\", "[b-a]", "(((a{500}){500}){500})"}) {
    const auto r = Regex::parse(p);
    ASSERT_FALSE(r.ok()) << p;
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid) << p;
  }
  for (const char* p : {"\\pL", "[[:alpha:]]", "(?=a)", "\\1"})
    EXPECT_EQ(Regex::parse(p).error().kind, ErrorKind::kUnsupported) << p;
}

TEST(Regex, NoTextMakesItGoBack) {
  const auto r = Regex::parse("(a*)*(a|aa)*b");
  ASSERT_TRUE(r.ok());
  EXPECT_FALSE(r->matches(std::string(20000, 'a')));
  std::string deep(5000, '(');
  EXPECT_FALSE(Regex::parse(deep).ok());
}

}  // namespace
}  // namespace peri::ops
