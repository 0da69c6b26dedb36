// Any bytes as IR text: parsed or refused; what parses is sound, prints to a text that parses to the same print, and
// goes through inference without a fault of ours. links: ops
#include <cstdlib>
#include <string_view>

#include "ir/graph.hpp"
#include "ops/entry.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto graph = peri::ir::parse_graph(text);
  if (!graph.ok()) return 0;
  if (!peri::ir::verify_structure(*graph).ok()) std::abort();
  const std::string once = peri::ir::print(*graph);
  auto again = peri::ir::parse_graph(once);
  if (again.ok() && peri::ir::print(*again) != once) std::abort();
  const peri::Status inferred = peri::ops::infer_graph(*graph);
  if (!inferred.ok() && inferred.error().kind == peri::ErrorKind::kInternal) std::abort();
  return 0;
}
