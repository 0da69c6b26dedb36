// BERT's normalisation of text before it is split: cleaning, spaces around Han characters, accent removal, lower case.
#pragma once

#include <string>

namespace peri::text {

struct BertNormalizer {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;  // null in the file: as `lowercase`
  bool lowercase = true;

  // `text` holds Unicode scalar values. Source: tokenizers, normalizers/bert.rs (order of the steps).
  std::u32string apply(std::u32string text) const;
};

}  // namespace peri::text
