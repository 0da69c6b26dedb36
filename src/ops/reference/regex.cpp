// A recursive-descent parser into a list of steps.
#include "ops/reference/regex.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace peri::ops {
namespace {
constexpr int kMaxDepth = 200;
constexpr int64_t kMaxRepeat = 1000;  // as RE2
constexpr size_t kMaxSteps = 100000;
constexpr char32_t kLast = 0x10FFFF;

using Step = Regex::Step;
using Kind = Regex::Kind;

// A piece of program whose targets count from its own beginning, and which ends by running off its end.
using Code = std::vector<Step>;

void append(Code* to, const Code& from) {
  const auto base = static_cast<int32_t>(to->size());
  for (Step s : from) {
    if (s.kind == Kind::kSplit || s.kind == Kind::kJump) {
      s.a += base;
      s.b += base;
    }
    to->push_back(s);
  }
}

class Parser {
 public:
  Parser(std::u32string text, std::vector<Regex::Class>* classes) : text_(std::move(text)), classes_(*classes) {}
  Result<Code> run() {
    PERI_ASSIGN(Code code, alternatives(0));
    if (at_ < text_.size()) return bad("a ')' without a '('");
    return code;
  }

 private:
  Error bad(std::string_view what) const {
    return invalid("the pattern is not a regular expression: %s at character %zu", std::string(what).c_str(), at_);
  }
  Error unknown(std::string_view what) const {
    return unsupported("%s in a pattern is not supported", std::string(what).c_str())
        .advise("write the pattern without it");
  }
  bool more() const { return at_ < text_.size(); }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Code one(Regex::Class c) {
    if (fold_) add_cases(&c);
    classes_.push_back(std::move(c));
    return {{Kind::kClass, static_cast<int32_t>(classes_.size() - 1), 0}};
  }
  static void add_cases(Regex::Class* c) {
    for (const auto& [low, high] : std::vector(c->ranges))
      for (char32_t v = U'A'; v <= U'Z'; ++v) {
        if (v >= low && v <= high) c->ranges.emplace_back(v + 32, v + 32);
        if (v + 32 >= low && v + 32 <= high) c->ranges.emplace_back(v, v);
      }
  }
  Status check_size(const Code& code) const {
    if (code.size() <= kMaxSteps) return Ok{};
    return invalid("the pattern is too large").expecting(format("at most %zu steps", kMaxSteps));
  }

  Result<Code> alternatives(int depth) {
    if (depth > kMaxDepth) return bad("groups nested too deeply");
    PERI_ASSIGN(Code code, sequence(depth));
    while (take(U'|')) {
      PERI_ASSIGN(const Code other, sequence(depth));
      Code both = {{Kind::kSplit, 1, static_cast<int32_t>(code.size()) + 2}};
      append(&both, code);
      both.push_back({Kind::kJump, static_cast<int32_t>(code.size() + other.size()) + 2, 0});
      append(&both, other);
      code = std::move(both);
      PERI_TRY(check_size(code));
    }
    return code;
  }
  Result<Code> sequence(int depth) {
    Code code;
    while (more() && text_[at_] != U'|' && text_[at_] != U')') {
      PERI_ASSIGN(const Code piece, repeated(depth));
      append(&code, piece);
      PERI_TRY(check_size(code));
    }
    return code;
  }
  static Code optional_of(const Code& piece) {
    Code out = {{Kind::kSplit, 1, static_cast<int32_t>(piece.size()) + 1}};
    append(&out, piece);
    return out;
  }
  static Code star_of(const Code& piece) {
    Code out = {{Kind::kSplit, 1, static_cast<int32_t>(piece.size()) + 2}};
    append(&out, piece);
    out.push_back({Kind::kJump, 0, 0});
    return out;
  }
  Result<Code> repeated(int depth) {
    PERI_ASSIGN(Code code, atom(depth));
    while (more()) {
      int64_t least = 0, most = -1;
      const size_t before = at_;
      if (take(U'*')) {
      } else if (take(U'+')) {
        least = 1;
      } else if (take(U'?')) {
        most = 1;
      } else if (text_[at_] != U'{' || !counts(&least, &most)) {
        at_ = before;
        break;
      }
      take(U'?');  // a match of the whole is the same
      if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least))
        return bad("a repetition out of range");
      if ((static_cast<size_t>(std::max(least, most)) + 1) * (code.size() + 2) > kMaxSteps)
        return bad("a repetition that is too large");
      Code all;
      for (int64_t k = 0; k < least; ++k) append(&all, code);
      if (most < 0) {
        append(&all, star_of(code));
      } else {
        Code rest;
        for (int64_t k = least; k < most; ++k) {
          Code next = code;
          append(&next, rest);
          rest = optional_of(next);
        }
        append(&all, rest);
      }
      code = std::move(all);
    }
    return code;
  }
  // {m}, {m,} or {m,n}; anything else is text.
  bool counts(int64_t* least, int64_t* most) {
    const auto number = [&](int64_t* v) {
      const size_t begin = at_;
      *v = 0;
      while (more() && text_[at_] >= U'0' && text_[at_] <= U'9' && *v <= kMaxRepeat)
        *v = *v * 10 + (text_[at_++] - U'0');
      return at_ > begin;
    };
    if (!take(U'{') || !number(least)) return false;
    *most = *least;
    if (take(U',') && !number(most)) *most = -1;
    return take(U'}');
  }
  Result<Code> group(int depth) {
    const bool before = fold_, dots = newline_;
    if (take(U'?')) {
      if (take(U'P') || (more() && text_[at_] == U'<')) {
        while (more() && !take(U'>')) ++at_;
      } else {
        bool on = true;
        for (; more() && text_[at_] != U':' && text_[at_] != U')'; ++at_) {
          if (text_[at_] == U'-')
            on = false;
          else if (text_[at_] == U'i')
            fold_ = on;
          else if (text_[at_] == U's')
            newline_ = on;
          else
            return unknown("a group of this kind");
        }
        if (take(U')')) return Code{};  // flags until the end of the group around them
        take(U':');
      }
    }
    PERI_ASSIGN(Code code, alternatives(depth + 1));
    if (!take(U')')) return bad("a '(' without a ')'");
    fold_ = before;
    newline_ = dots;
    return code;
  }
  Result<Code> atom(int depth) {
    const char32_t c = text_[at_++];
    switch (c) {
      case U'(': return group(depth);
      case U'[': {
        PERI_ASSIGN(Regex::Class set, bracket());
        return one(std::move(set));
      }
      case U'.': return newline_ ? one({{{0, kLast}}}) : one({{{U'\n', U'\n'}}, true});
      case U'^': return Code{{Kind::kBegin, 0, 0}};
      case U'$': return Code{{Kind::kEnd, 0, 0}};
      case U'*':
      case U'+':
      case U'?': return bad("nothing to repeat");
      case U'\\': {
        if (take(U'A')) return Code{{Kind::kBegin, 0, 0}};
        if (take(U'z')) return Code{{Kind::kEnd, 0, 0}};
        if (take(U'b')) return Code{{Kind::kEdge, 0, 0}};
        if (take(U'B')) return Code{{Kind::kInside, 0, 0}};
        PERI_ASSIGN(Regex::Class set, escape());
        return one(std::move(set));
      }
      default: return one({{{c, c}}});
    }
  }
  static Regex::Class named(char32_t c) {
    if (c == U'd' || c == U'D') return {{{U'0', U'9'}}, c == U'D'};
    if (c == U's' || c == U'S') return {{{U'\t', U'\n'}, {U'\f', U'\r'}, {U' ', U' '}}, c == U'S'};
    return {{{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}, {U'_', U'_'}}, c == U'W'};
  }
  Result<Regex::Class> escape() {
    if (!more()) return bad("a '\\' at the end");
    const char32_t c = text_[at_++];
    if (std::u32string_view(U"dDsSwW").find(c) != std::u32string_view::npos) return named(c);
    const std::u32string_view letters = U"nrtfva", codes = U"\n\r\t\f\v\a";
    if (const size_t k = letters.find(c); k != std::u32string_view::npos) return Regex::Class{{{codes[k], codes[k]}}};
    if (c == U'x') return hexadecimal();
    if ((c >= U'0' && c <= U'9') || (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z'))
      return unknown(format("'\\%c'", static_cast<char>(c)));
    return Regex::Class{{{c, c}}};
  }
  Result<Regex::Class> hexadecimal() {
    const bool braces = take(U'{');
    char32_t v = 0;
    for (int digits = 0; more() && (braces ? text_[at_] != U'}' : digits < 2); ++digits, ++at_) {
      const char32_t c = text_[at_] | 0x20;
      if (!((c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'f')) || v > kLast) return bad("no hexadecimal number");
      v = v * 16 + (c <= U'9' ? c - U'0' : c - U'a' + 10);
    }
    if (braces && !take(U'}')) return bad("no hexadecimal number");
    return Regex::Class{{{v, v}}};
  }
  Result<Regex::Class> bracket() {
    Regex::Class set;
    set.others = take(U'^');
    for (bool first = true; first || !take(U']'); first = false) {
      if (!more()) return bad("a '[' without a ']'");
      if (text_[at_] == U'[' && at_ + 1 < text_.size() && text_[at_ + 1] == U':') return unknown("a class by name");
      char32_t low = text_[at_++];
      if (low == U'\\') {
        PERI_ASSIGN(const Regex::Class inner, escape());
        const bool single =
            !inner.others && inner.ranges.size() == 1 && inner.ranges[0].first == inner.ranges[0].second;
        if (!single) {
          add(&set, inner);
          continue;
        }
        low = inner.ranges[0].first;
      }
      char32_t high = low;
      if (at_ + 1 < text_.size() && text_[at_] == U'-' && text_[at_ + 1] != U']') {
        ++at_;
        high = text_[at_++];
        if (high == U'\\') {
          PERI_ASSIGN(const Regex::Class end, escape());
          high = end.ranges[0].first;
        }
        if (high < low) return bad("a range whose ends are the wrong way round");
      }
      set.ranges.emplace_back(low, high);
    }
    return set;
  }
  // What `inner` holds, in a class that may hold others' complement only as ranges.
  static void add(Regex::Class* set, const Regex::Class& inner) {
    if (!inner.others) {
      set->ranges.insert(set->ranges.end(), inner.ranges.begin(), inner.ranges.end());
      return;
    }
    auto ranges = inner.ranges;
    std::sort(ranges.begin(), ranges.end());
    char32_t from = 0;
    for (const auto& [low, high] : ranges) {
      if (low > from) set->ranges.emplace_back(from, low - 1);
      from = high + 1;
    }
    set->ranges.emplace_back(from, kLast);
  }

  std::u32string text_;
  std::vector<Regex::Class>& classes_;
  size_t at_ = 0;
  bool fold_ = false, newline_ = false;
};
}  // namespace

Result<Regex> Regex::parse(std::string_view pattern) {
  Regex out;
  if (!utf8_valid(pattern)) return invalid("the pattern is not UTF-8");
  Parser parser(code_points(pattern), &out.classes_);
  PERI_ASSIGN(out.steps_, parser.run());
  out.steps_.push_back({Kind::kMatch, 0, 0});
  return out;
}

}  // namespace peri::ops
