// A few words, and rules for names that end with a number of bits.
#include "base/dtype_names.hpp"

namespace peri {

Result<DType> dtype_of_any_name(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"float", "f32"}, {"double", "f64"}, {"half", "f16"}, {"bfloat16", "bf16"}};
  for (const auto& [word, own] : kWords)
    if (name == word) return parse_dtype(own);
  // The rest is a number of bits: "float8e4m3fn" keeps its name.
  static constexpr std::pair<std::string_view, std::string_view> kStems[] = {
      {"float", "f"}, {"fp", "f"}, {"uint", "u"}, {"int", "i"}};
  for (const auto& [stem, own] : kStems)
    if (name.starts_with(stem) && name.find_first_not_of("0123456789", stem.size()) == std::string_view::npos)
      if (auto found = parse_dtype(std::string(own) + std::string(name.substr(stem.size()))); found.ok()) return found;
  return parse_dtype(name);
}

}  // namespace peri
