// Packing weights once per step: into memory, or through a store that keeps them across processes.
#pragma once

#include "base/thread_pool.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {

// Sets *c.packed to a Tensor of `bytes` bytes written by `make`, unless it is set. `form` distinguishes the forms of
// one step, where it has more than one. Errors: kMemory.
Status pack_bytes_once(const InstantiateContext& c, std::string_view form, int64_t bytes,
                       FunctionRef<void(std::byte*)> make);
// A single form, without setting *c.packed.
Result<Tensor> pack_bytes(const InstantiateContext& c, std::string_view form, int64_t bytes,
                          FunctionRef<void(std::byte*)> make);

// The same for `count` elements of a type: `make` is called with a T*.
template <class T = float, class F>
Status pack_once(const InstantiateContext& c, std::string_view form, int64_t count, F make) {
  return pack_bytes_once(c, form, count * static_cast<int64_t>(sizeof(T)),
                         [&](std::byte* to) { make(reinterpret_cast<T*>(to)); });
}

template <class T = float>
const T* packed_as(const Packed& packed) {
  return reinterpret_cast<const T*>(static_cast<const Tensor*>(packed.get())->data());
}
inline const float* packed_floats(const Packed& packed) { return packed_as<float>(packed); }

}  // namespace peri::kernels
