// StringConcat, StringSplit and RegexFullMatch: element-wise concatenation, splitting, and matching of whole strings.
// Strings are UTF-8; splitting and concatenation do not validate it.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/reference/regex.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kText = types({DType::kString});

Status infer_concat(InferContext& c) {
  PERI_ASSIGN(Shape y, broadcast(c.shape(0), c.shape(1)));
  c.set(0, DType::kString, std::move(y));
  return Ok{};
}
Status concat(RefCall& call) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  const Under under_a(a.dims, y.dims), under_b(b.dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    y.s[static_cast<size_t>(p)] = a.s[static_cast<size_t>(under_a(p))] + b.s[static_cast<size_t>(under_b(p))];
  }
  return Ok{};
}

// ---- split
constexpr std::string_view kSpaces = " \t\n\v\f\r";

// Without a delimiter: between runs of white space, none of it at the ends.
void words_of(std::string_view text, int64_t most, std::vector<std::string_view>* out) {
  const size_t before = out->size();
  size_t at = text.find_first_not_of(kSpaces);
  while (at != std::string_view::npos) {
    if (static_cast<int64_t>(out->size() - before) == most) return static_cast<void>(out->push_back(text.substr(at)));
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    out->push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpaces, end);
  }
}
void parts_of(std::string_view text, const std::string& delimiter, int64_t most, std::vector<std::string_view>* out) {
  if (delimiter.empty()) return words_of(text, most, out);
  const size_t before = out->size();
  for (size_t at = 0;;) {
    const bool last = static_cast<int64_t>(out->size() - before) == most;
    const size_t end = last ? std::string_view::npos : text.find(delimiter, at);
    out->push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) return;
    at = end + delimiter.size();
  }
}

Status infer_split(InferContext& c) {
  if (c.node.has("maxsplit") && c.node.i("maxsplit") < 0)
    return invalid("maxsplit is out of range").expecting(">= 0").but_found(std::to_string(c.node.i("maxsplit")));
  Shape y = c.shape(0);
  y.push_back(c.fresh("parts"));
  c.set(0, DType::kString, std::move(y));
  if (c.out.size() > 1) c.set(1, DType::kI64, c.shape(0));
  return Ok{};
}
Status split(RefCall& call) {
  const RefTensor& x = *call.in[0];
  const std::string delimiter = call.node.s("delimiter", "");
  const int64_t most = call.node.i("maxsplit", INT64_MAX);
  std::vector<std::string_view> parts;
  std::vector<size_t> ends;  // of each text's parts
  size_t width = 0;
  for (const std::string& text : x.s) {
    const size_t begin = parts.size();
    parts_of(text, delimiter, most, &parts);
    ends.push_back(parts.size());
    width = std::max(width, parts.size() - begin);
  }
  std::vector<int64_t> dims = x.dims;
  dims.push_back(static_cast<int64_t>(width));
  PERI_TRY(resize(call.out[0], dims));
  for (size_t k = 0, begin = 0; k < ends.size(); begin = ends[k++]) {
    for (size_t at = begin; at < ends[k]; ++at) call.out[0].s[k * width + at - begin] = parts[at];
    if (call.out.size() > 1) call.out[1].i[k] = static_cast<int64_t>(ends[k] - begin);
  }
  return Ok{};
}

// ---- match
Status infer_match(InferContext& c) {
  auto parsed = Regex::parse(c.node.s("pattern", ""));
  if (!parsed.ok()) return std::move(parsed).error();
  c.set(0, DType::kBool, c.shape(0));
  return Ok{};
}
Status match(RefCall& call) {
  PERI_ASSIGN(const Regex pattern, Regex::parse(call.node.s("pattern", "")));
  Matcher matcher(pattern);
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t p = static_cast<size_t>(call.position(n));
    call.out[0].i[p] = matcher.matches(call.in[0]->s[p]);
  }
  return Ok{};
}
}  // namespace

extern const Entry text_entry;
const Entry text_entry{{
    {.name = "string_concat",
     .onnx = "StringConcat",
     .versions = {20},
     .inputs = {{"a", kText}, {"b", kText}},
     .outputs = {{"y"}},
     .infer = infer_concat,
     .reference = concat,
     .samples = {"graph { const a: string[2,1] = [\"a\", \"\"]; const b: string[3] = [\"x\", \"y\", \"\"]; y = "
                 "string_concat(a, b); output y }",
                 "graph { const a: string[0] = []; const b: string[1] = [\"x\"]; y = string_concat(a, b); output y }"}},
    {.name = "string_split",
     .onnx = "StringSplit",
     .versions = {20},
     .inputs = {{"x", kText}},
     .outputs = {{"y"}, {"count", types({DType::kI64}), true}},
     .attrs = {{"delimiter", AttrKind::kString, false, "white space"}, {"maxsplit", AttrKind::kInt, false, "no limit"}},
     .infer = infer_split,
     .reference = split,
     .jumps = true,
     .samples = {"graph { const x: string[2] = [\" a  b \", \"c\"]; y, n = string_split(x); output y; output n }",
                 "graph { const x: string[2] = [\"a,b,,c\", \"\"]; y, n = string_split(x) {delimiter=\",\", "
                 "maxsplit=2}; output y; output n }",
                 "graph { const x: string[0] = []; y, n = string_split(x); output y; output n }"}},
    {.name = "regex_full_match",
     .onnx = "RegexFullMatch",
     .versions = {20},
     .inputs = {{"x", kText}},
     .outputs = {{"y"}},
     .attrs = {{"pattern", AttrKind::kString, true}},
     .infer = infer_match,
     .reference = match,
     .jumps = true,
     .samples = {"graph { const x: string[3] = [\"www.a.com\", \"a\", \"\"]; y = regex_full_match(x) "
                 "{pattern=\"www[.][a-c]+[.](com|org)\"}; output y }",
                 "graph { const x: string[1] = [\"\"]; y = regex_full_match(x) {pattern=\"a*\"}; output y }"}},
}};
}  // namespace peri::ops
