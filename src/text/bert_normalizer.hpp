// BERT's normalisation of text before it is split: cleaning, spaces round Han characters, accents off, lower case.
#pragma once

#include <string>

namespace peri::text {

struct BertNormalizer {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;  // a null in the file means: as `lowercase` says
  bool lowercase = true;

  // `text` holds Unicode scalar values. Source: tokenizers, normalizers/bert.rs (order of the steps).
  std::u32string apply(std::u32string text) const;
};

}  // namespace peri::text
