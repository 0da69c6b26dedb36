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
