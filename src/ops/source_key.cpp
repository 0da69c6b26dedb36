// Look-up by entry.
#include "ops/source_key.hpp"

namespace peri::ops {

std::string_view source_key(std::string_view ir_name) {
  const auto all = entries();
  for (size_t k = 0; k < all.size(); ++k)
    for (const OpDef& op : all[k]->ops)
      if (op.name == ir_name) return source_keys()[k];
  return "";
}

}  // namespace peri::ops
