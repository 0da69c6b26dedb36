// Checks protobuf messages against limits before they are parsed: a few bytes may describe objects of hundreds of
// bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace peri::serve {

struct MessageLimits {
  int depth = 16;
  size_t parts = 20000;     // messages, names and unknown fields
  size_t values = 4000000;  // numbers, and elements of BYTES
};

using Bytes = std::span<const std::byte>;

// Errors: kInvalid: not a valid message of that type; kMemory: beyond the limits.
Status check_message(Bytes bytes, const google::protobuf::Descriptor& type, const MessageLimits& limits);

// A message without its fields of one number, and those fields as views.
struct SplitMessage {
  std::string rest;
  std::vector<Bytes> fields;
};
// `field`: a field of bytes; `most`: limit of their number. Errors: kInvalid.
Result<SplitMessage> split_message(Bytes bytes, int field, size_t most);

// check_message(), then parses the message.
Status read_message(Bytes bytes, const MessageLimits& limits, google::protobuf::Message* out);

// The tag and length of a field of bytes.
void put_bytes_head(int field, size_t size, std::string* out);

}  // namespace peri::serve
