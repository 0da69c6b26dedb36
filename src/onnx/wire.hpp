// Strict reading of the protobuf wire format over bytes in place: every length is checked against the rest, nothing is
// copied, nothing is allocated, and an error has the offset in the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace peri::onnx {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t scalar = 0;     // varint or little-endian fixed value
  std::string_view bytes;  // kBytes: the payload
};

// Goes over the fields of one message. `base` is the first byte of the file, for error offsets only.
//   while (reader.next(&f)) {...}  PERI_TRY(reader.status());
class WireReader {
 public:
  WireReader(std::string_view message, const char* base)
      : at_(message.data()), end_(at_ + message.size()), base_(base) {}
  // False at the end of the message and on an error. Groups (deprecated, unused by the format) are errors.
  bool next(Field* f);
  Status status() const;
  // Reads one bare varint (an element of a packed field).
  bool varint(uint64_t* v);
  bool at_end() const { return at_ == end_; }

 private:
  bool fail(const char* why);
  bool bytes(size_t n, std::string_view* out);

  const char* at_;
  const char* end_;
  const char* base_;
  const char* why_ = nullptr;
  size_t bad_at_ = 0;
};

// Bytes of a varint field that end an element: the number of elements of a packed varint field.
int64_t count_varints(std::string_view packed);

}  // namespace peri::onnx
