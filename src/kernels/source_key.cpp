// Look-up by entry.
#include "kernels/source_key.hpp"

namespace peri::kernels {

std::string_view source_key(const Kernel& kernel) {
  const auto all = entries();
  for (size_t k = 0; k < all.size(); ++k)
    if (&all[k]->kernel == &kernel) return source_keys()[k];
  return "";
}

}  // namespace peri::kernels
