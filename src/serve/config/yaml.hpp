// A configuration in YAML as the same tree as protobuf's text format: the same keys, read by the same code. Aliases,
// tags and several documents in a file are refused. A text that begins as JSON may quote anything.
#pragma once

#include "serve/config/text_proto.hpp"

namespace peri::serve {

// Errors: kInvalid with the line; kMemory beyond 1 MiB or 20,000 values.
Result<TextMessage> parse_yaml(std::string_view text);

}  // namespace peri::serve
