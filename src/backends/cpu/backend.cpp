// The value.
#include "backends/cpu/backend.hpp"

namespace peri::backends::cpu {

const lower::Backend& backend() {
  static const lower::Backend kBackend = {
      .name = "cpu",
      .executors = {"cpu"},
      .change_ms = [](tune::Tuner& tuner, DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from,
                      const ir::Layout& to) { return tuner.convert_ms(dtype, dims, from, to); },
  };
  return kBackend;
}

}  // namespace peri::backends::cpu
