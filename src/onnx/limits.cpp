// One refusal for each limit.
#include "onnx/limits.hpp"

#include <algorithm>

namespace peri::onnx {

namespace {
constexpr size_t kMaxNodeValues = 16384, kMaxPorts = 8192, kMaxNames = 1024;

Status at_most(size_t limit, size_t found, const char* what, const char* remedy) {
  if (found <= limit) return Ok{};
  return unsupported("%s", what)
      .expecting(format("at most %zu", limit))
      .but_found(std::to_string(found))
      .advise(remedy);
}
}  // namespace

Status check_node_size(const NodeRecord& node) {
  Status reads =
      at_most(kMaxNodeValues, node.inputs.size(), "a node reads too many values", "let several nodes read them");
  if (!reads.ok()) return std::move(reads).error().at_node(node.label());
  Status makes =
      at_most(kMaxNodeValues, node.outputs.size(), "a node makes too many values", "let several nodes make them");
  if (!makes.ok()) return std::move(makes).error().at_node(node.label());
  return Ok{};
}

Status check_ports(size_t inputs, size_t constants, size_t outputs, size_t named_dimensions) {
  PERI_TRY(at_most(kMaxPorts, inputs - std::min(inputs, constants), "the model has too many inputs", "join them"));
  PERI_TRY(at_most(kMaxPorts, outputs, "the model has too many outputs", "join them"));
  return at_most(kMaxNames, named_dimensions, "the model's inputs have too many named dimensions",
                 "give equal dimensions one name, and fixed ones a number");
}

}  // namespace peri::onnx
