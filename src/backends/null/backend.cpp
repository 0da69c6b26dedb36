// The value.
#include "backends/null/backend.hpp"

namespace peri::backends::null {

const lower::Backend& backend() {
  static const lower::Backend kBackend = {
      .name = "null",
      .executors = {"cpu"},
      .change_ms = [](tune::Tuner& tuner, DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from,
                      const ir::Layout& to) { return tuner.convert_ms(dtype, dims, from, to); },
      .placement = {"null", "null", 3, false, true},
      .narrow_values = true,
  };
  return kBackend;
}

}  // namespace peri::backends::null
