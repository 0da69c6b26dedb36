// Added tokens: strings that map to one id regardless of the model, matched before the text is split into words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "text/vocab.hpp"

namespace peri::text {

struct AddedToken {
  std::string content;  // as it is matched: already normalised if the file says "normalized"
  uint32_t id = 0;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // removes the white space before it
  bool rstrip = false;       // and after it
};

// A set of added tokens that are matched together.
class AddedTokens {
 public:
  struct Piece {
    std::string_view text;
    const AddedToken* token = nullptr;  // null: text between tokens
  };

  // Contents must be distinct, not empty, at most 512 bytes.
  static Result<AddedTokens> make(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }
  // Splits valid UTF-8 at its tokens, leftmost first and longest there; empty pieces of text are left out.
  std::vector<Piece> split(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;
  Vocab patterns_;  // content → index into tokens_
};

}  // namespace peri::text
