// Any bytes as an ONNX file: refused with a typed error that is not a fault of ours, or a graph that is sound, is built
// into an engine and runs, within a budget.
// links: backends/cpu backends/null passes onnx
#include <string_view>

#include "onnx/import.hpp"
#include "tests/fuzz/graph_run.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto model = peri::onnx::import_bytes(bytes, nullptr, "model.onnx", "/nonexistent");
  if (!model.ok()) {
    peri::fuzz::stop_at_fault(model.error());
    return 0;
  }
  if (!peri::ir::verify_structure(model->graph).ok()) std::abort();
  peri::fuzz::build_and_run(std::move(model->graph));
  return 0;
}
