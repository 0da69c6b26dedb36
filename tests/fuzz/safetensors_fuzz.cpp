// Any bytes as a safetensors file: refused, or every tensor it lists lies inside the file.
// links: hf
#include <cstdlib>
#include <span>

#include "hf/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto tensors = peri::hf::parse_safetensors(std::as_bytes(std::span(data, size)));
  if (!tensors.ok()) return 0;
  for (const peri::hf::TensorInfo& t : *tensors)
    if (t.offset > size || t.size > size - t.offset) std::abort();
  return 0;
}
