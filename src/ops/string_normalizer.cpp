// StringNormalizer: removes stop words from a list and changes the case of the rest. Case mapping is Unicode's, per
// code point, independent of the locale.
#include <algorithm>
#include <map>

#include "base/utf8.hpp"
#include "ops/reference/elements.hpp"
#include "text/unicode.hpp"

namespace peri::ops {
namespace {
enum class Case { kNone, kLower, kUpper };

Result<Case> case_of(const ir::Node& node) {
  const std::string action = node.s("case_change_action", "NONE");
  if (action == "NONE") return Case::kNone;
  if (action == "LOWER") return Case::kLower;
  if (action == "UPPER") return Case::kUpper;
  return invalid("case_change_action is unknown").expecting("NONE, LOWER or UPPER").but_found(action);
}

// Of letters whose lower case is one other letter.
const std::map<char32_t, char32_t>& upper_letters() {
  static const std::map<char32_t, char32_t> letters = [] {
    std::map<char32_t, char32_t> out;
    for (char32_t c = U'A'; c < 0x1E944; ++c) {
      std::u32string lower;
      if (text::char_class(c) & text::kLowers) text::append_lower(lower, c);
      if (lower.size() == 1) out.emplace(lower[0], c);
    }
    return out;
  }();
  return letters;
}

std::string in_case(const std::string& word, Case wanted) {
  if (wanted == Case::kNone) return word;
  std::string out;
  if (std::all_of(word.begin(), word.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    out = word;
    const char first = wanted == Case::kLower ? 'A' : 'a';
    for (char& c : out)
      if (c >= first && c <= first + 25) c ^= 0x20;
    return out;
  }
  for (size_t at = 0; at < word.size();) {
    const Utf8Char c = utf8_decode(word, at);
    if (!c.valid) {
      out.append(word, at, static_cast<size_t>(c.bytes));
    } else if (wanted == Case::kLower) {
      std::u32string lower;
      text::append_lower(lower, c.code);
      for (const char32_t l : lower) utf8_append(out, l);
    } else {
      const auto it = upper_letters().find(c.code);
      utf8_append(out, it == upper_letters().end() ? c.code : it->second);
    }
    at += static_cast<size_t>(c.bytes);
  }
  return out;
}

std::vector<std::string> stops_of(const ir::Node& node) {
  const auto it = node.attrs.find("stopwords");
  return it == node.attrs.end() ? std::vector<std::string>() : std::get<std::vector<std::string>>(it->second);
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty() || x.size() > 2 || (x.size() == 2 && x[0].is_const() && !x[0].is_const(1)))
    return invalid("x has a wrong shape").expecting("[words] or [1, words]").but_found(shape_text(x));
  PERI_TRY(case_of(c.node));
  Shape y = x;
  y[0] = x[0];
  if (!stops_of(c.node).empty() || !provably_at_least(x.back(), 1)) y.back() = c.fresh("words");
  if (x.size() == 2) y[0] = Dim(1);
  c.set(0, DType::kString, std::move(y));
  return Ok{};
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Case wanted, case_of(call.node));
  std::vector<std::string> stops = stops_of(call.node);
  const bool exact = call.node.i("is_case_sensitive") != 0;
  if (!exact)
    for (std::string& s : stops) s = in_case(s, Case::kLower);
  std::vector<std::string> kept;
  for (const std::string& word : call.in[0]->s)
    if (stops.empty() ||
        std::find(stops.begin(), stops.end(), exact ? word : in_case(word, Case::kLower)) == stops.end())
      kept.push_back(in_case(word, wanted));
  if (kept.empty()) kept.emplace_back();
  std::vector<int64_t> dims = call.in[0]->dims;
  dims.back() = static_cast<int64_t>(kept.size());
  PERI_TRY(resize(call.out[0], dims));
  call.out[0].s = std::move(kept);
  return Ok{};
}
}  // namespace

extern const Entry string_normalizer_entry;
const Entry string_normalizer_entry{{
    {.name = "string_normalizer",
     .onnx = "StringNormalizer",
     .versions = {10},
     .inputs = {{"x", types({DType::kString})}},
     .outputs = {{"y"}},
     .attrs = {{"case_change_action", AttrKind::kString, false, "NONE"},
               {"is_case_sensitive", AttrKind::kInt, false, "0"},
               {"locale", AttrKind::kString, false, "en_US"},
               {"stopwords", AttrKind::kStrings, false, "none"}},
     .infer = infer,
     .reference = reference,
     .jumps = true,
     .samples = {"graph { const x: string[3] = [\"Monday\", \"b\", \"C\"]; y = string_normalizer(x) "
                 "{case_change_action=\"UPPER\", stopwords=[\"monday\"]}; output y }",
                 "graph { const x: string[1,2] = [\"a\", \"A\"]; y = string_normalizer(x) "
                 "{case_change_action=\"LOWER\", is_case_sensitive=1, stopwords=[\"a\", \"A\"]}; output y }"}},
}};
}  // namespace peri::ops
