// A simulation of all threads of an expression's steps at once.
#include <algorithm>

#include "base/utf8.hpp"
#include "ops/reference/regex.hpp"

namespace peri::ops {
namespace {
using Step = Regex::Step;
using Kind = Regex::Kind;

// Between which characters a thread stands.
struct Place {
  bool begin, end, edge;
};
bool is_word(char32_t c) {
  return (c >= U'0' && c <= U'9') || (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z') || c == U'_';
}
Place place_of(const std::u32string& text, size_t at) {
  const bool before = at > 0 && is_word(text[at - 1]), after = at < text.size() && is_word(text[at]);
  return {at == 0, at == text.size(), before != after};
}

// The steps that wait for a character, from one step on through those that take none.
void follow(const std::vector<Step>& steps, int32_t from, const Place& place, std::vector<bool>* seen,
            std::vector<int32_t>* waiting) {
  std::vector<int32_t> open = {from};
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if ((*seen)[static_cast<size_t>(at)]) continue;
    (*seen)[static_cast<size_t>(at)] = true;
    const Step& s = steps[static_cast<size_t>(at)];
    if (s.kind == Kind::kJump || s.kind == Kind::kSplit) open.push_back(s.a);
    if (s.kind == Kind::kSplit) open.push_back(s.b);
    if ((s.kind == Kind::kBegin && place.begin) || (s.kind == Kind::kEnd && place.end) ||
        (s.kind == Kind::kEdge && place.edge) || (s.kind == Kind::kInside && !place.edge))
      open.push_back(at + 1);
    if (s.kind == Kind::kClass || s.kind == Kind::kMatch) waiting->push_back(at);
  }
}
}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_decode(text, at);
    out.push_back(c.code);
    at += static_cast<size_t>(c.bytes);
  }
  return out;
}

bool Regex::Class::holds(char32_t c) const {
  const bool inside = std::any_of(ranges.begin(), ranges.end(), [&](auto& r) { return c >= r.first && c <= r.second; });
  return inside != others;
}

bool Regex::matches(std::string_view text) const {
  if (!utf8_valid(text)) return false;
  const std::u32string points = code_points(text);
  std::vector<int32_t> now, next;
  std::vector<bool> seen(steps_.size());
  follow(steps_, 0, place_of(points, 0), &seen, &now);
  for (size_t k = 0; k < points.size() && !now.empty(); ++k) {
    next.clear();
    seen.assign(steps_.size(), false);
    for (const int32_t at : now) {
      const Step& s = steps_[static_cast<size_t>(at)];
      if (s.kind == Kind::kClass && classes_[static_cast<size_t>(s.a)].holds(points[k]))
        follow(steps_, at + 1, place_of(points, k + 1), &seen, &next);
    }
    std::swap(now, next);
  }
  return ends(now);
}

std::optional<std::pair<size_t, size_t>> Regex::find(const std::u32string& text, size_t from) const {
  struct Thread {
    int32_t at;
    size_t begin;
  };
  std::optional<std::pair<size_t, size_t>> best;
  std::vector<Thread> now, next;  // in the order of their beginnings
  std::vector<bool> seen(steps_.size());
  std::vector<int32_t> waiting;
  const auto go_on = [&](int32_t step, size_t place, size_t begin, std::vector<Thread>* to) {
    waiting.clear();
    follow(steps_, step, place_of(text, place), &seen, &waiting);
    for (const int32_t at : waiting) to->push_back({at, begin});
  };
  for (size_t k = from; k <= text.size(); ++k) {
    if (!best) go_on(0, k, k, &now);
    for (const Thread& t : now)
      if (steps_[static_cast<size_t>(t.at)].kind == Kind::kMatch && (!best || t.begin <= best->first))
        best = {t.begin, k};
    next.clear();
    seen.assign(steps_.size(), false);
    for (const Thread& t : now) {
      const Step& s = steps_[static_cast<size_t>(t.at)];
      if (k < text.size() && s.kind == Kind::kClass && (!best || t.begin <= best->first) &&
          classes_[static_cast<size_t>(s.a)].holds(text[k]))
        go_on(t.at + 1, k + 1, t.begin, &next);
    }
    std::swap(now, next);
    if (best && now.empty()) break;
  }
  return best;
}

bool Regex::ends(const std::vector<int32_t>& waiting) const {
  return std::any_of(waiting.begin(), waiting.end(),
                     [&](int32_t at) { return steps_[static_cast<size_t>(at)].kind == Kind::kMatch; });
}
bool Regex::is_plain() const {
  return std::none_of(steps_.begin(), steps_.end(), [](const Step& s) {
    return s.kind == Kind::kBegin || s.kind == Kind::kEnd || s.kind == Kind::kEdge || s.kind == Kind::kInside;
  });
}
std::vector<int32_t> Regex::begin() const {
  std::vector<bool> seen(steps_.size());
  std::vector<int32_t> out;
  follow(steps_, 0, {}, &seen, &out);
  return out;
}
std::vector<int32_t> Regex::behind(const std::vector<int32_t>& waiting, char32_t c) const {
  std::vector<bool> seen(steps_.size());
  std::vector<int32_t> out;
  for (const int32_t at : waiting) {
    const Step& s = steps_[static_cast<size_t>(at)];
    if (s.kind == Kind::kClass && classes_[static_cast<size_t>(s.a)].holds(c)) follow(steps_, at + 1, {}, &seen, &out);
  }
  return out;
}

}  // namespace peri::ops
