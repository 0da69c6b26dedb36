// Tokenizer of com.microsoft, which text vectorisers of scikit-learn begin with: each text is divided at what its
// separators match, or into what one expression matches, or into characters; rows are padded to the longest.
#include <algorithm>

#include "base/utf8.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/regex.hpp"

namespace peri::ops {
namespace {
using Words = std::vector<std::string_view>;

const std::vector<std::string>* separators_of(const ir::Node& node) {
  const auto it = node.attrs.find("separators");
  return it == node.attrs.end() ? nullptr : &std::get<std::vector<std::string>>(it->second);
}

// A text by characters.
struct Characters {
  explicit Characters(std::string_view of) : text(of) {
    for (size_t at = 0; at < text.size();) {
      const Utf8Char c = utf8_decode(text, at);
      codes.push_back(c.code);
      begins.push_back(at);
      at += static_cast<size_t>(c.bytes);
    }
    begins.push_back(text.size());
  }
  size_t size() const { return codes.size(); }
  std::string_view part(size_t begin, size_t end) const {
    return text.substr(begins[begin], begins[end] - begins[begin]);
  }
  std::string_view text;
  std::u32string codes;
  std::vector<size_t> begins;  // in bytes; the last is the end
};

class Tokenizer {
 public:
  static Result<Tokenizer> of(const ir::Node& node) {
    Tokenizer t;
    const int64_t least = node.i("mincharnum", 1);
    if (least < 1) return invalid("mincharnum is out of range").expecting("1 or more").but_found(std::to_string(least));
    t.least_ = static_cast<size_t>(least);
    std::vector<std::string> patterns;
    if (const auto* separators = separators_of(node)) {
      if (separators->empty()) return invalid("separators names none");
      t.separated_ = true;
      patterns = *separators;
    } else {
      patterns = {node.s("tokenexp", "")};
      if (patterns[0].empty()) return invalid("neither separators nor tokenexp says how texts are divided");
    }
    t.characters_ = patterns.size() == 1 && patterns[0] == (t.separated_ ? "" : ".");
    if (t.characters_ && t.least_ > 1)
      return invalid("mincharnum is out of range").expecting("1 for characters").but_found(std::to_string(least));
    for (const std::string& pattern : patterns) {
      PERI_ASSIGN(Regex regex, Regex::parse(pattern));
      t.patterns_.push_back(std::move(regex));
    }
    return t;
  }

  Words words_of(std::string_view text) const {
    Words words;
    if (!separated_ || characters_) {
      divide(text, nullptr, &words);
      return words;
    }
    words = {text};
    for (const Regex& separator : patterns_) {
      Words finer;
      for (const std::string_view word : words) divide(word, &separator, &finer);
      words = std::move(finer);
    }
    return words;
  }

 private:
  void add(const Characters& c, size_t begin, size_t end, Words* out) const {
    if (end - begin >= least_) out->push_back(c.part(begin, end));
  }
  // What lies between the matches of a separator, or the matches of the one pattern.
  void divide(std::string_view text, const Regex* separator, Words* out) const {
    const Characters c(text);
    if (characters_) {
      for (size_t k = 0; k < c.size(); ++k) add(c, k, k + 1, out);
      return;
    }
    size_t at = 0;
    while (at <= c.size()) {
      const auto found = (separator ? *separator : patterns_[0]).find(c.codes, at);
      if (!found) break;
      const auto [begin, end] = *found;
      if (separator && begin > at) add(c, at, begin, out);
      if (!separator && end > begin) add(c, begin, end, out);
      at = std::max(end, begin + 1);  // a match of nothing takes the character after it, as in ONNX Runtime
    }
    if (separator && at < c.size()) add(c, at, c.size(), out);
  }

  bool separated_ = false, characters_ = false;
  size_t least_ = 1;
  std::vector<Regex> patterns_;
};

Status infer(InferContext& c) {
  Shape y = c.shape(0);
  if (y.empty() || y.size() > 2)
    return invalid("x has a wrong shape").expecting("[texts] or [rows, texts]").but_found(shape_text(y));
  auto tokenizer = Tokenizer::of(c.node);
  if (!tokenizer.ok()) return std::move(tokenizer).error();
  y.push_back(c.fresh("tokens"));
  c.set(0, DType::kString, std::move(y));
  return Ok{};
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Tokenizer tokenizer, Tokenizer::of(call.node));
  const RefTensor& x = *call.in[0];
  std::vector<Words> rows;
  size_t width = 0;
  for (const std::string& text : x.s) {
    if (!utf8_valid(text)) return invalid("a text is not UTF-8");
    rows.push_back(tokenizer.words_of(text));
    width = std::max(width, rows.back().size());
  }
  const size_t marks = call.node.i("mark") != 0 && width > 0 ? 1 : 0;  // at either end
  width += 2 * marks;
  std::vector<int64_t> dims = x.dims;
  dims.push_back(static_cast<int64_t>(width));
  PERI_TRY(resize(call.out[0], dims));
  std::fill(call.out[0].s.begin(), call.out[0].s.end(), call.node.s("pad_value"));
  for (size_t k = 0; k < rows.size(); ++k) {
    const auto to = call.out[0].s.begin() + static_cast<std::ptrdiff_t>(k * width);
    if (marks) *to = "\x02";
    const auto end = std::copy(rows[k].begin(), rows[k].end(), to + static_cast<std::ptrdiff_t>(marks));
    if (marks) *end = "\x03";
  }
  return Ok{};
}
}  // namespace

extern const Entry microsoft_tokenizer_entry;
const Entry microsoft_tokenizer_entry{{
    {.name = "tokenizer",
     .onnx = "Tokenizer",
     .domain = "com.microsoft",
     .versions = {1},
     .inputs = {{"x", types({DType::kString})}},
     .outputs = {{"y"}},
     .attrs = {{"mark", AttrKind::kInt, true},
               {"mincharnum", AttrKind::kInt, true},
               {"pad_value", AttrKind::kString, true},
               {"separators", AttrKind::kStrings, false, "none"},
               {"tokenexp", AttrKind::kString, false, "none"}},
     .infer = infer,
     .reference = reference,
     .jumps = true,
     .samples = {"graph { const x: string[2] = [\"a cat, a dog\", \"\"]; y = tokenizer(x) {mark=1, mincharnum=2, "
                 "pad_value=\"#\", tokenexp=\"[a-z]+\"}; output y }",
                 "graph { const x: string[1,2] = [\"a cat\", \"a,b\"]; y = tokenizer(x) {mark=0, mincharnum=1, "
                 "pad_value=\"\", separators=[\" \", \"[,;]\"]}; output y }",
                 "graph { const x: string[2] = [\"abc\", \"d\"]; y = tokenizer(x) {mark=0, mincharnum=1, "
                 "pad_value=\"#\", separators=[\"\"]}; output y }",
                 "graph { const x: string[0] = []; y = tokenizer(x) {mark=1, mincharnum=1, pad_value=\"#\", "
                 "tokenexp=\".\"}; output y }"}},
}};
}  // namespace peri::ops
