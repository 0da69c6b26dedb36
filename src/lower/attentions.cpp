// From each softmax back to the product before it and on to the one behind it.
#include "lower/attentions.hpp"

#include <algorithm>

namespace peri::lower {
namespace {
constexpr size_t kMaxChain = 3;  // regions of element-wise nodes between a product and a softmax

bool begins_with(const Region& r, std::string_view op) { return r.nodes.front()->op == op; }
bool is_product(const Region& r) { return begins_with(r, "qlinear_matmul"); }
bool reads(const ir::Node& n, const ir::Value* v) {
  return std::find(n.inputs.begin(), n.inputs.end(), v) != n.inputs.end();
}
bool is_transpose(const Region& r) { return begins_with(r, "transpose") && r.nodes.size() == 1; }

struct Cut {
  std::span<const Region* const> regions;
  std::span<const std::optional<size_t>> reader_of;
  std::vector<std::vector<size_t>> read_by;

  const Shape& shape_of(size_t k) const { return *regions[k]->outputs[0]->type.shape; }

  // The one region that makes something of the shape of `k`'s result for it alone.
  std::optional<size_t> before(size_t k) const {
    std::optional<size_t> out;
    for (const size_t r : read_by[k]) {
      if (!(shape_of(r) == shape_of(k))) continue;
      if (out) return std::nullopt;
      out = r;
    }
    return out;
  }

  // Regions from `first` on, back or forth, up to the first product; none: there is none.
  template <class Next>
  std::optional<std::vector<size_t>> up_to_product(size_t first, const Next& next) const {
    std::vector<size_t> out;
    std::optional<size_t> at = next(first);
    while (at && out.size() <= kMaxChain && !is_transpose(*regions[*at])) {
      out.push_back(*at);
      if (is_product(*regions[*at])) return out;
      at = next(*at);
    }
    return std::nullopt;
  }
};
}  // namespace

std::vector<std::vector<size_t>> attentions(std::span<const Region* const> regions,
                                            std::span<const std::optional<size_t>> reader_of) {
  Cut cut{regions, reader_of, std::vector<std::vector<size_t>>(regions.size())};
  for (size_t k = 0; k < regions.size(); ++k)
    if (reader_of[k]) cut.read_by[*reader_of[k]].push_back(k);
  std::vector<std::vector<size_t>> out;
  for (size_t softmax = 0; softmax < regions.size(); ++softmax) {
    if (!begins_with(*regions[softmax], "softmax")) continue;
    const auto scores = cut.up_to_product(softmax, [&](size_t k) { return cut.before(k); }),
               values = cut.up_to_product(softmax, [&](size_t k) { return reader_of[k]; });
    if (!scores || !values) continue;
    std::vector<size_t> group = {softmax};
    for (const auto* side : {&*scores, &*values}) {
      group.insert(group.end(), side->begin(), side->end());
      const ir::Node* const product = regions[side->back()]->nodes.front();  // and no mask of its chain
      for (const size_t k : cut.read_by[side->back()])
        if (is_transpose(*regions[k]) && reads(*product, regions[k]->outputs[0])) group.push_back(k);
    }
    if (const auto behind = reader_of[values->back()]; behind && is_transpose(*regions[*behind]))
      group.push_back(*behind);
    std::sort(group.begin(), group.end());
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace peri::lower
