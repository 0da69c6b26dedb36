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
  std::string_view name;               // recorded in programs and locks
  std::vector<std::string> executors;  // it may use the kernels of these executors
  // Time, in ms, to convert a value of these dims between two layouts.
  double (*change_ms)(tune::Tuner& tuner, DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from,
                      const ir::Layout& to) = nullptr;
  // The same for a value that crosses between host and device, per copy; null: such copies are not priced.
  double (*cross_ms)(tune::Tuner& tuner, double bytes) = nullptr;
  Placement placement = {};  // of the emitted steps; no device: they stay on the host
  // The target, with this many threads of the host; null: this CPU. kUnsupported: why there is none on this machine.
  Result<device::Target> (*target)(int threads, std::vector<std::string> libraries,
                                   const std::string& device) = nullptr;
  // Its kernels have inputs and outputs in float16 and bfloat16, with sums in float32: values are stored so where a
  // model or --dtype requests it. False: it computes in float32 and stores weights narrow.
  bool narrow_values = false;
  bool measured = true;  // false: kernels are not tried one by one, the first offer is chosen; the engine is judged
};

}  // namespace peri::lower
