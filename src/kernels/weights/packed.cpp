// Packing with and without a store.
#include "kernels/weights/packed.hpp"

#include <algorithm>

namespace peri::kernels {

std::vector<Tensor> Constants::all_but(const std::vector<int>& packed) const {
  std::vector<Tensor> out(size());
  for (size_t k = 0; k < size(); ++k)
    if (std::find(packed.begin(), packed.end(), static_cast<int>(k)) == packed.end()) out[k] = (*this)[k];
  return out;
}

Result<Tensor> pack_bytes(const InstantiateContext& c, std::string_view form, int64_t bytes,
                          FunctionRef<void(std::byte*)> make) {
  if (c.store) return c.store->get(form, bytes, make);
  PERI_ASSIGN(Tensor t, Tensor::uninitialized(DType::kU8, {bytes}));
  make(t.mutable_data());
  return t;
}

Status pack_bytes_once(const InstantiateContext& c, std::string_view form, int64_t bytes,
                       FunctionRef<void(std::byte*)> make) {
  if (*c.packed) return Ok{};
  PERI_ASSIGN(Tensor t, pack_bytes(c, form, bytes, make));
  *c.packed = std::make_shared<const Tensor>(std::move(t));
  return Ok{};
}

}  // namespace peri::kernels
