// Protobuf's text format as a tree of fields with their lines, for any message: the format of config.pbtxt. Bytes,
// depth and fields are limited; bytes of strings are unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::serve {

struct TextField;
struct TextMessage {
  std::vector<TextField> fields;
};

// `name: value` or `name { fields }`. A list is one field for each of its elements.
struct TextField {
  // kWord: a number, an enumerator, true, false; kEither: a word or a string, from a format that does not distinguish
  // them.
  enum class Kind : uint8_t { kWord, kString, kEither, kMessage };
  std::string name;
  int line = 0;
  Kind kind = Kind::kWord;
  std::string value;
  TextMessage message;
  bool sent = false;  // from a client, which may not name files of the folder
};

// Errors: kInvalid with the line; kMemory beyond 1 MiB or 20,000 fields.
Result<TextMessage> parse_text_proto(std::string_view text);

// The field's value; an error names the field, its line and what was expected.
Result<int64_t> text_int(const TextField& field, int64_t low, int64_t high);
Result<double> text_real(const TextField& field, double low, double high);
Result<bool> text_bool(const TextField& field);
Result<std::string> text_string(const TextField& field);
Result<std::string> text_word(const TextField& field);  // an enumerator
Result<const TextMessage*> text_message(const TextField& field);
// kInvalid at a field's line.
Error text_error(const TextField& field, const std::string& what);

}  // namespace peri::serve
