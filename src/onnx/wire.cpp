// The wire format: tags, varints, fixed values and length-delimited payloads.
#include "onnx/wire.hpp"

#include <cstring>

namespace peri::onnx {

bool WireReader::fail(const char* why) {
  why_ = why;
  bad_at_ = static_cast<size_t>(at_ - base_);
  at_ = end_;
  return false;
}

bool WireReader::varint(uint64_t* v) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    if (at_ == end_) return fail("a number runs past the end of its message");
    const uint8_t byte = static_cast<uint8_t>(*at_++);
    if (shift == 63 && byte > 1) return fail("a number has more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *v = value;
      return true;
    }
  }
}

bool WireReader::bytes(size_t n, std::string_view* out) {
  if (n > static_cast<size_t>(end_ - at_)) return fail("a field is longer than its message");
  *out = {at_, n};
  at_ += n;
  return true;
}

bool WireReader::next(Field* f) {
  if (at_ == end_) return false;
  uint64_t tag = 0;
  if (!varint(&tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return fail("a field number is out of range");
  f->number = static_cast<uint32_t>(tag >> 3);
  f->type = static_cast<WireType>(tag & 7);
  f->scalar = 0;
  f->bytes = {};
  std::string_view raw;
  switch (tag & 7) {
    case 0: return varint(&f->scalar);
    case 1:
      if (!bytes(8, &raw)) return false;
      std::memcpy(&f->scalar, raw.data(), 8);
      return true;
    case 2:
      if (!varint(&f->scalar)) return false;
      return bytes(f->scalar, &f->bytes);
    case 5: {
      if (!bytes(4, &raw)) return false;
      uint32_t v = 0;
      std::memcpy(&v, raw.data(), 4);
      f->scalar = v;
      return true;
    }
    default: return fail("a field has an unknown or deprecated wire type");
  }
}

Status WireReader::status() const {
  if (!why_) return Ok{};
  return invalid("damaged ONNX data: %s (byte %zu)", why_, bad_at_)
      .advise("the file is cut or damaged; fetch it again");
}

int64_t count_varints(std::string_view packed) {
  int64_t n = 0;
  for (const char c : packed) n += !(static_cast<uint8_t>(c) & 0x80);
  return n;
}

}  // namespace peri::onnx
