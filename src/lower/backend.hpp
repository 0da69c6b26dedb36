// Everything that differs between backends, as a value: lowering for another backend means passing another
// value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lower/place.hpp"
#include "tune/tuner.hpp"

namespace peri::lower {

struct Backend {
  std::string_view name;               // stands in programs and locks
  std::vector<std::string> executors;  // it may use the kernels that these run
  // What it costs, in ms, to bring a value of these dims from one place to another.
  double (*change_ms)(tune::Tuner& tuner, DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from,
                      const ir::Layout& to) = nullptr;
  // The same for a value that crosses between host and device, per copy; null: such copies are not priced.
  double (*cross_ms)(tune::Tuner& tuner, double bytes) = nullptr;
  Placement placement = {};  // of the emitted steps; no device: they stay on the host
  // What it plans for, with so many threads of the host; null: this CPU. kUnsupported: why there is none here.
  Result<device::Target> (*target)(int threads, std::vector<std::string> libraries,
                                   const std::string& device) = nullptr;
  // Its kernels take and give float16 and bfloat16, with sums in float32: values are kept so where a model or --dtype
  // asks for it. False: it computes in float32 and stores weights narrow.
  bool narrow_values = false;
  bool measured = true;  // false: its kernels are not tried one by one, the first offer is taken; the engine is judged
};

}  // namespace peri::lower
