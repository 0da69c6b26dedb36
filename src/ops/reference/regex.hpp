// Whether a whole text matches a regular expression in the syntax of RE2, and what of a text does, in time proportional
// to its length times the expression's: there is no backtracking.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::ops {

std::u32string code_points(std::string_view text);

class Regex {
 public:
  // kInvalid: not a regular expression; kUnsupported: it uses an unimplemented feature (\p, flags other than i and s).
  static Result<Regex> parse(std::string_view pattern);
  bool matches(std::string_view text) const;
  // The first match that begins at character `from` or later, and the longest of those that begin there: its begin and
  // its end.
  std::optional<std::pair<size_t, size_t>> find(const std::u32string& text, size_t from) const;

  // For an expression without assertions about position: the steps that wait for a character initially, those after
  // each such step, and whether a text may end there.
  bool is_plain() const;
  std::vector<int32_t> begin() const;
  std::vector<int32_t> behind(const std::vector<int32_t>& waiting, char32_t c) const;
  bool ends(const std::vector<int32_t>& waiting) const;

  // Code points of a class: ranges with inclusive ends, or the complement.
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

// Matches many texts: states found for one are reused for the next. States are cached for ASCII and up to a limit; all
// else is matched by the expression itself.
class Matcher {
 public:
  explicit Matcher(const Regex& regex);  // `regex` must outlive the matcher
  bool matches(std::string_view text);

 private:
  static constexpr size_t kMaxStates = 256;
  static constexpr int32_t kUnknown = -1;
  struct State {
    std::vector<int32_t> waiting;
    bool ends = false;
    std::array<int32_t, 128> to;
  };
  int32_t state_of(std::vector<int32_t> waiting);
  const Regex& regex_;
  bool plain_;
  std::vector<State> states_;
  std::map<std::vector<int32_t>, int32_t> known_;
};

}  // namespace peri::ops
