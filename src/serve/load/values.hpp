// Elements of KServe v2's types: their bytes, from JSON, as requests and answers have them.
#pragma once

#include <string>

#include "base/json.hpp"

namespace peri::serve {

// Bytes of an element; 0: BYTES or an unknown type.
size_t bytes_of(std::string_view type);

template <class T>
void put(T v, std::string* out) {
  out->append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Adds a value, or the values of nested lists in their order, and their number to `count`. Errors: kInvalid: a value of
// another type.
Status put_values(const Json& values, std::string_view type, int64_t* count, std::string* out);
Result<std::string> decoded_base64(std::string_view text);

}  // namespace peri::serve
