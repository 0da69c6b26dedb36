// Tensors of strings through the C interface.
#include "api/strings.hpp"

#include "base/dim.hpp"
#include "base/plural.hpp"
#include "base/utf8.hpp"

namespace peri::api {

Result<Tensor> strings_of(const peri_tensor& given, std::vector<int64_t> dims) {
  PERI_ASSIGN(const int64_t numel, checked_numel(dims));
  const auto count = static_cast<size_t>(numel);
  if (given.bytes % sizeof(peri_string) != 0 || given.bytes / sizeof(peri_string) != count)
    return usage("memory of another size")
        .expecting(format("%s: %zu for each of %s",
                          counted(numel * static_cast<int64_t>(sizeof(peri_string)), "byte").c_str(),
                          sizeof(peri_string), counted(numel, "string").c_str()))
        .but_found(format("%zu", given.bytes));
  std::vector<std::string> texts(count);
  const auto* const first = static_cast<const std::byte*>(given.data);
  for (size_t k = 0; k < count; ++k) {
    peri_string text;
    __builtin_memcpy(&text, first + k * sizeof(text), sizeof(text));  // of any alignment
    if (!text.bytes) continue;
    if (!text.data) return usage("string %zu is NULL and has %zu bytes", k, text.bytes);
    if (text.bytes > texts[k].max_size()) return usage("string %zu has %zu bytes", k, text.bytes);
    texts[k].assign(text.data, text.bytes);
    if (!utf8_valid(texts[k])) return invalid("string %zu is not UTF-8", k);
  }
  return Tensor::strings(std::move(dims), std::move(texts));
}

std::vector<peri_string> described_strings(const Tensor& made) {
  std::vector<peri_string> out;
  out.reserve(made.string_values().size());
  for (const std::string& text : made.string_values()) out.push_back({text.c_str(), text.size()});
  return out;
}

}  // namespace peri::api
