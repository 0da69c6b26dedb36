// Packing weights once for a step: into memory, or through a store that keeps them from process to process.
#pragma once

#include "base/thread_pool.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {

// Sets *c.packed to a Tensor of `floats` floats that `make` writes, unless it is set. `form` tells the forms of one
// step apart, where it has more than one. Errors: kMemory.
Status pack_once(const InstantiateContext& c, std::string_view form, int64_t floats, FunctionRef<void(float*)> make);
// A form by itself, not put into *c.packed.
Result<Tensor> pack(const InstantiateContext& c, std::string_view form, int64_t floats, FunctionRef<void(float*)> make);

inline const float* packed_floats(const Packed& packed) {
  return static_cast<const Tensor*>(packed.get())->as<float>().data();
}

}  // namespace peri::kernels
