// Whether a whole text matches a regular expression in the syntax of RE2, in time of its length times the expression's:
// no text and no expression makes it go back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::ops {

class Regex {
 public:
  // kInvalid: it is no regular expression; kUnsupported: it uses what is not there (\p, flags other than i and s).
  static Result<Regex> parse(std::string_view pattern);
  bool matches(std::string_view text) const;

  // Code points of a class: ranges with both ends, or all others.
  struct Class {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool others = false;
    bool holds(char32_t c) const;
  };
  enum class Kind : uint8_t { kClass, kSplit, kJump, kBegin, kEnd, kEdge, kInside, kMatch };
  struct Step {
    Kind kind;
    int32_t a = 0, b = 0;  // class; targets
  };

 private:
  std::vector<Class> classes_;
  std::vector<Step> steps_;
};

}  // namespace peri::ops
