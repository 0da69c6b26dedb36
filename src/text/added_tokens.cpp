// Finding added tokens. A match that its flags refuse is passed over whole, as `tokenizers` does.
#include "text/added_tokens.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "text/unicode.hpp"

namespace peri::text {

namespace {

constexpr size_t kMaxBytes = 512;  // bounds the search: bytes of text times this

// Start of the character that ends before `at`; precondition: at > 0 and valid UTF-8.
size_t character_before(std::string_view s, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80);
  return at;
}

bool has_class(std::string_view s, size_t at, CharClass bit) {
  return (char_class(utf8_decode(s, at).code) & bit) != 0;
}

bool within_word(std::string_view s, size_t begin, size_t end) {
  return (begin > 0 && has_class(s, character_before(s, begin), kWord)) || (end < s.size() && has_class(s, end, kWord));
}

size_t before_white(std::string_view s, size_t at, size_t least) {
  while (at > least) {
    const size_t previous = character_before(s, at);
    if (!has_class(s, previous, kWhite)) break;
    at = previous;
  }
  return std::max(at, least);
}

size_t after_white(std::string_view s, size_t at) {
  while (at < s.size() && has_class(s, at, kWhite)) at += static_cast<size_t>(utf8_decode(s, at).bytes);
  return at;
}

}  // namespace

Result<AddedTokens> AddedTokens::make(std::vector<AddedToken> tokens) {
  std::vector<std::pair<std::string, uint32_t>> patterns;
  for (const AddedToken& t : tokens) {
    if (t.content.empty()) return invalid("added token is empty once normalised").at_node(std::to_string(t.id));
    if (t.content.size() > kMaxBytes)
      return invalid("added token of %zu bytes is too long", t.content.size())
          .at_node(t.content.substr(0, 40))
          .expecting(format("at most %zu bytes", kMaxBytes));
    patterns.emplace_back(t.content, static_cast<uint32_t>(patterns.size()));
  }
  AddedTokens out;
  PERI_ASSIGN(out.patterns_, Vocab::make(std::move(patterns)));
  out.tokens_ = std::move(tokens);
  return out;
}

std::vector<AddedTokens::Piece> AddedTokens::split(std::string_view text) const {
  std::vector<Piece> out;
  size_t done = 0;
  const Vocab::Place all = patterns_.start();
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    const Vocab::Match match = patterns_.longest(all, text.substr(at));
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.id];
    size_t begin = at, end = at + match.bytes;
    at = end;
    if (token.single_word && within_word(text, begin, end)) continue;
    if (token.lstrip) begin = before_white(text, begin, done);
    if (token.rstrip) end = after_white(text, end);
    if (begin > end) continue;  // the token before took more; `tokenizers` ends with a panic here
    if (done < begin) out.push_back({text.substr(done, begin - done)});
    if (begin < end) out.push_back({text.substr(begin, end - begin), &token});  // else the token before took it
    done = end;
  }
  if (done < text.size()) out.push_back({text.substr(done)});
  return out;
}

}  // namespace peri::text
