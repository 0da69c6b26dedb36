// Any bytes as an ONNX file: refused with a typed error that is not a fault of ours, or a graph that is sound.
// links: onnx
#include <cstdlib>
#include <string_view>

#include "onnx/import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto model = peri::onnx::import_bytes(bytes, nullptr, "model.onnx", "/nonexistent");
  if (!model.ok() && model.error().kind == peri::ErrorKind::kInternal) std::abort();
  if (model.ok() && !peri::ir::verify_structure(model->graph).ok()) std::abort();
  return 0;
}
