// Field access shared by the readers of messages: a known field must have its wire type, text must be UTF-8 without
// NUL.
#pragma once

#include "base/utf8.hpp"
#include "onnx/wire.hpp"

namespace peri::onnx {

template <class F>  // f(const Field&) → Status
Status each_field(std::string_view message, const char* base, F&& f) {
  WireReader reader(message, base);
  Field field;
  while (reader.next(&field)) PERI_TRY(f(field));
  return reader.status();
}

inline Error wrong_wire(const char* what) {
  return invalid("damaged ONNX data: field '%s' has the wrong wire type", what)
      .advise("the file is cut or damaged; fetch it again");
}

inline Status take_bytes(const Field& f, std::string_view* out, const char* what) {
  if (f.type != WireType::kBytes) return wrong_wire(what);
  *out = f.bytes;
  return Ok{};
}

constexpr size_t kMaxName = 1 << 16;

// A name: UTF-8, no NUL, at most 64 KiB.
inline Status take_name(const Field& f, std::string_view* out, const char* what) {
  PERI_TRY(take_bytes(f, out, what));
  if (out->size() > kMaxName)
    return invalid("'%s' is a name of %zu bytes", what, out->size()).expecting("at most 65536 bytes");
  if (!utf8_valid(*out) || out->find('\0') != std::string_view::npos)
    return invalid("'%s' is not valid UTF-8 text", what).advise("export the model with readable names");
  return Ok{};
}

inline Status take_int(const Field& f, int64_t* out, const char* what) {
  if (f.type != WireType::kVarint) return wrong_wire(what);
  *out = static_cast<int64_t>(f.scalar);
  return Ok{};
}

inline Status take_int32(const Field& f, int32_t* out, const char* what) {
  if (f.type != WireType::kVarint) return wrong_wire(what);
  const int64_t v = static_cast<int64_t>(f.scalar);
  if (v < INT32_MIN || v > INT32_MAX) return invalid("damaged ONNX data: '%s' does not fit 32 bits", what);
  *out = static_cast<int32_t>(v);
  return Ok{};
}

template <class T>
Status take_one(std::vector<T>* list, T value, size_t cap, const char* what) {
  if (list->size() >= cap) return invalid("too many entries in '%s'", what).expecting(format("at most %zu", cap));
  list->push_back(std::move(value));
  return Ok{};
}

// Repeated varints, packed or one by one.
inline Status take_ints(const Field& f, std::vector<int64_t>* out, const char* base, size_t cap, const char* what) {
  if (f.type == WireType::kVarint) return take_one(out, static_cast<int64_t>(f.scalar), cap, what);
  if (f.type != WireType::kBytes) return wrong_wire(what);
  WireReader r(f.bytes, base);
  uint64_t v = 0;
  while (!r.at_end() && r.varint(&v)) PERI_TRY(take_one(out, static_cast<int64_t>(v), cap, what));
  return r.status();
}

}  // namespace peri::onnx
