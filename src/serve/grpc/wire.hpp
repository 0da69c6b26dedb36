// Checks protobuf messages against limits before they are parsed: a few bytes may describe objects of hundreds.
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
  size_t parts = 20000;     // messages, names and fields that are not known
  size_t values = 4000000;  // numbers, and elements of BYTES
};

using Bytes = std::span<const std::byte>;

// kInvalid: no message of that type by its bytes; kMemory: beyond the limits.
Status check_message(Bytes bytes, const google::protobuf::Descriptor& type, const MessageLimits& limits);

// A message without its fields of one number, and these apart, as views.
struct SplitMessage {
  std::string rest;
  std::vector<Bytes> fields;
};
// `field`: of bytes. Errors: kInvalid.
Result<SplitMessage> split_message(Bytes bytes, int field, size_t most);

// check_message(), then its contents.
Status read_message(Bytes bytes, const MessageLimits& limits, google::protobuf::Message* out);

// The beginning of a field of bytes: its number and length.
void put_bytes_head(int field, size_t size, std::string* out);

}  // namespace peri::serve
