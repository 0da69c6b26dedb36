// A configuration in YAML as the tree that protobuf's text form gives: the same keys, by the same reader. Aliases, tags
// and several documents in a file are refused. A text that begins as JSON may quote whatever it likes.
#pragma once

#include "serve/config/text_proto.hpp"

namespace peri::serve {

// Errors: kInvalid with the line; kMemory beyond 1 MiB or 20,000 values.
Result<TextMessage> parse_yaml(std::string_view text);

}  // namespace peri::serve
