// A vocabulary: tokens sorted once, so that an id, and the longest token at a position of a text, are found by
// narrowing a range. No tree: memory is the tokens' own bytes plus 16 for each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::text {

class Vocab {
 public:
  struct Match {
    size_t bytes = 0;  // 0: no token
    uint32_t id = 0;
  };
  // A set of tokens with a common prefix: the starting point of a search.
  struct Place {
    uint32_t first = 0, end = 0;  // tokens[first, end) have the prefix
    uint32_t depth = 0;           // its length in bytes
  };

  // `tokens` are distinct; an error names one that is not.
  static Result<Vocab> make(std::vector<std::pair<std::string, uint32_t>> tokens);

  size_t size() const { return tokens_.size(); }
  uint32_t max_id() const { return max_id_; }
  std::optional<uint32_t> id(std::string_view token) const;
  // All tokens (depth 0), or those that begin with `prefix` (an empty range if none does).
  Place start(std::string_view prefix = {}) const;
  // The longest token that is the place's prefix followed by a prefix of `text`; `bytes` counts those of `text` (a
  // token that ends at the place itself is no match). Time: bytes matched × log of the tokens there.
  Match longest(const Place& place, std::string_view text) const;

 private:
  bool narrow(Place& place, unsigned char next) const;
  std::vector<std::pair<std::string, uint32_t>> tokens_;
  std::array<uint32_t, 257> by_first_byte_ = {};  // tokens that begin with b: [b], [b + 1]; empty tokens precede [0]
  uint32_t max_id_ = 0;
};

}  // namespace peri::text
