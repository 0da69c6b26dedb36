// The small problems of tier 1: every sample of every op; the regions that kernels for several nodes define themselves;
// and anchors with every activation and every order of steps that an epilogue may have.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "device/target.hpp"
#include "tune/expected.hpp"
#include "tune/given.hpp"

namespace peri::kernels {
struct Kernel;
}

namespace peri::tune {

struct SampleProblem {
  ir::Graph region;
  std::vector<bool> constant;
  // Created when a kernel first supports it.
  std::optional<Given> given = std::nullopt;
  std::optional<Expected> expected = std::nullopt;
  bool refused = false;  // the reference rejects such data
  // A sample of all ops and anchors; one stated by the kernel; or that with a chain after it.
  enum class From : uint8_t { kOps, kStated, kChain };
  From from = From::kOps;
};

// Those of all ops and anchors: the same for every kernel, created once per process.
std::vector<SampleProblem>& common_problems();
// The problem with its float32 values, weights and constants in another float type, with nothing created yet; none
// where an op does not support that, or nothing in it is float32.
std::optional<SampleProblem> in_type(const SampleProblem& problem, DType type);
// How many of the samples of an op, as stated and in float16 and bfloat16, kernels of an executor support.
struct Coverage {
  int taken = 0, all = 0;
};
Coverage coverage(const ops::OpDef& op, std::string_view executor, const device::Target& target);
// Those of the kernel's own samples.
std::vector<SampleProblem> own_problems(const kernels::Kernel& kernel);

}  // namespace peri::tune
