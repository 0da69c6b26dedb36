// Texts stand for values that JSON lacks, as a server takes them.
#include "serve/load/values.hpp"

#include <limits>

#include "base/dtype.hpp"

namespace peri::serve {

size_t bytes_of(std::string_view type) {
  if (type == "BOOL" || type == "INT8" || type == "UINT8") return 1;
  if (type == "INT16" || type == "UINT16" || type == "FP16" || type == "BF16") return 2;
  if (type == "INT32" || type == "UINT32" || type == "FP32") return 4;
  return type == "INT64" || type == "UINT64" || type == "FP64" ? 8 : 0;
}

namespace {
template <class T>
Status put_integer(const Json& v, std::string* out) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    PERI_ASSIGN(const uint64_t n, v.as_uint());
    put(n, out);
  } else {
    PERI_ASSIGN(const int64_t n, v.as_int());
    if (n < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        n > static_cast<int64_t>(std::numeric_limits<T>::max()))
      return invalid("the value is outside its type").but_found(std::to_string(n));
    put(static_cast<T>(n), out);
  }
  return Ok{};
}

Result<double> real_of(const Json& v) {
  if (const auto text = v.as_string(); text.ok())
    for (const auto& [word, x] : {std::pair<std::string_view, double>{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                  {"Infinity", std::numeric_limits<double>::infinity()},
                                  {"-Infinity", -std::numeric_limits<double>::infinity()}})
      if (*text == word) return x;
  return v.as_double();
}

Status put_real(const Json& v, std::string_view type, std::string* out) {
  PERI_ASSIGN(const double x, real_of(v));
  const auto f = static_cast<float>(x);
  if (type == "FP64") put(x, out);
  if (type == "FP32") put(f, out);
  if (type == "FP16") put(f32_to_f16(f), out);
  if (type == "BF16") put(f32_to_bf16(f), out);
  return Ok{};
}

}  // namespace

// Recursion is bounded: the parser limits nesting.
Status put_values(const Json& v, std::string_view type, int64_t* count, std::string* out) {
  if (v.is_array()) {
    for (const Json& inner : v.items()) PERI_TRY(put_values(inner, type, count, out));
    return Ok{};
  }
  ++*count;
  if (type == "BYTES") {
    PERI_ASSIGN(const std::string_view text, v.as_string());
    put(static_cast<uint32_t>(text.size()), out);
    out->append(text);
    return Ok{};
  }
  if (const auto flag = v.as_bool(); type == "BOOL" && flag.ok()) {
    out->push_back(*flag ? '\1' : '\0');
    return Ok{};
  }
  if (type == "BOOL") {
    PERI_ASSIGN(const int64_t n, v.as_int());
    out->push_back(n != 0 ? '\1' : '\0');
    return Ok{};
  }
  if (type == "INT8") return put_integer<int8_t>(v, out);
  if (type == "UINT8") return put_integer<uint8_t>(v, out);
  if (type == "INT16") return put_integer<int16_t>(v, out);
  if (type == "UINT16") return put_integer<uint16_t>(v, out);
  if (type == "INT32") return put_integer<int32_t>(v, out);
  if (type == "UINT32") return put_integer<uint32_t>(v, out);
  if (type == "INT64") return put_integer<int64_t>(v, out);
  if (type == "UINT64") return put_integer<uint64_t>(v, out);
  return put_real(v, type, out);
}

Result<std::string> decoded_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return invalid("'b64' is not base64").but_found(std::string(1, c));
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 255));
  }
  return out;
}

}  // namespace peri::serve
