// Any bytes as a tokenizer.json, a NUL and a text: refused, or ids in range in lists of one length.
// links: text
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer.hpp"

namespace {

void check(const peri::text::Tokenizer& tokenizer, const peri::Result<peri::text::Encoding>& e) {
  if (!e.ok()) return;
  if (e->type_ids.size() != e->ids.size() || e->attention_mask.size() != e->ids.size()) std::abort();
  for (const int64_t id : e->ids)
    if (id < 0 || id > tokenizer.max_id()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), size);
  const std::string_view text = all.substr(std::min(end + 1, size));
  const auto tokenizer = peri::text::Tokenizer::from_json(all.substr(0, end));
  if (!tokenizer.ok()) return 0;
  peri::text::EncodeOptions options;
  check(*tokenizer, tokenizer->encode(text, options));
  check(*tokenizer, tokenizer->encode_pair(text,
                                           "hello [CLS], un\xCC\x81"
                                           "able",
                                           options));
  options.max_length = 4;
  options.padding = peri::text::Padding::kLongest;
  check(*tokenizer, tokenizer->encode(text, options));
  (void)tokenizer->normalize(text);
  return 0;
}
