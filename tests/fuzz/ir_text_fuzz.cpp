// Any bytes as IR text: parsed or refused; what parses is sound and prints to a text that parses to the same print.
// links: ir
#include <cstdlib>
#include <string_view>

#include "ir/graph.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto graph = peri::ir::parse_graph(text);
  if (!graph.ok()) return 0;
  if (!peri::ir::verify_structure(*graph).ok()) std::abort();
  const std::string once = peri::ir::print(*graph);
  auto again = peri::ir::parse_graph(once);
  if (again.ok() && peri::ir::print(*again) != once) std::abort();
  return 0;
}
