// Every GPU kernel on every sample of every op, and on anchors with every activation after them: all cases of which
// tune/cuda_text and tune/cuda_types run a part, one type or a part of the kernels per file, since each text is
// compiled for the host and all of them take longer than a test may.
#pragma once

#include <gtest/gtest.h>

#include "tests/tune/cuda_cases.hpp"

namespace peri::tune {

inline constexpr uint64_t kWholeParts = 3;  // of the kernels in float32

inline void run_whole(DType type, Share share = {}) {
  const bool wide = type == DType::kF32;
  std::vector<SampleProblem> narrow;
  if (!wide) narrow = narrow_problems(type);
  const std::vector<Case> cases = cuda_cases(wide ? common_problems() : narrow, wide, share);
  expect_cases(cases, wide, wide ? 4 : 2, share);
  run_cases(cases);
}

}  // namespace peri::tune
