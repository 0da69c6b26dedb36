// What a load counted.
#include "serve/load/load.hpp"

namespace peri::serve {

uint64_t LoadResult::failed() const {
  uint64_t n = 0;
  for (const auto& [name, count] : errors) n += count;
  return n;
}

uint64_t LoadResult::wrong() const {
  const auto it = errors.find(kWrong);
  return it == errors.end() ? 0 : it->second;
}

std::string LoadResult::error_text(const std::string& name) const {
  const auto words = said.find(name);
  return words == said.end() ? name : name + ": " + words->second;
}

}  // namespace peri::serve
