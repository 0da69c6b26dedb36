// A configuration in YAML as the same tree as protobuf's text format: the same keys, read by the same code. Aliases,
// tags and several documents in a file are refused. In a text that begins as JSON anything may be quoted.
#pragma once

#include "serve/config/text_proto.hpp"

namespace peri::serve {

// Errors: kInvalid with the line; kMemory beyond 1 MiB or 20,000 values.
Result<TextMessage> parse_yaml(std::string_view text);

}  // namespace peri::serve
