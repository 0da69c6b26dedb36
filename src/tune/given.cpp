// Guarded copies and layouts of arguments.
#include "tune/given.hpp"

#include <cstring>

#include "base/hash.hpp"
#include "exec/region/region_payload.hpp"
#include "tune/layouts.hpp"

namespace peri::tune {

Result<Given> Given::make(std::vector<Tensor> row_major, std::vector<bool> weights) {
  Given g;
  g.row_major_ = std::move(row_major);
  g.guarded_.resize(g.row_major_.size());
  g.hash_.resize(g.row_major_.size());
  for (size_t k = 0; k < g.row_major_.size(); ++k) {
    if (!weights[k]) continue;
    Tensor& t = g.row_major_[k];
    PERI_ASSIGN(Guarded memory, Guarded::make(t.bytes().size()));
    auto held = std::make_shared<Guarded>(std::move(memory));
    if (held->bytes() > 0) std::memcpy(held->data(), t.data(), held->bytes());
    const Guarded& bytes = *held;
    PERI_ASSIGN(t, Tensor::view(t.dtype(), t.dims(), {bytes.data(), bytes.bytes()}, held));
    g.hash_[k] = hash_bytes(bytes.data(), bytes.bytes());
    g.guarded_[k] = std::move(held);
  }
  return g;
}

Result<Tensor> Given::in_layout(size_t k, const ir::Layout& layout) {
  if (layout.row_major()) return row_major_[k];
  const auto key = std::pair(k, exec::layout_code(layout));
  if (const auto it = made_.find(key); it != made_.end()) return it->second;
  PERI_ASSIGN(Tensor t, to_layout(row_major_[k], layout));
  return made_.emplace(key, std::move(t)).first->second;
}

Status Given::check_weights() const {
  for (size_t k = 0; k < guarded_.size(); ++k) {
    if (!guarded_[k]) continue;
    const Guarded& g = *guarded_[k];
    if (const std::string_view where = g.written(); !where.empty())
      return Error(ErrorKind::kAccuracy, format("it wrote %s input %zu", std::string(where).c_str(), k));
    if (hash_bytes(g.data(), g.bytes()) != hash_[k])
      return Error(ErrorKind::kAccuracy, format("it changed its input %zu", k));
  }
  return Ok{};
}

}  // namespace peri::tune
