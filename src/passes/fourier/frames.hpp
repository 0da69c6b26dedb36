// The overlapping frames of a signal, as slices of its blocks.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// So many slices are joined at most: frames that share no longer block with their step are left to others.
constexpr int64_t kMaxFrameSlices = 32;

// `count` frames of `length` elements that begin `step` apart, of signals [batch, samples, 1], as
// [batch, count, length]. REQUIRES: the last frame ends within the samples; count >= 1; length, divided by its greatest
// common divisor with step, is at most kMaxFrameSlices.
Result<ir::Value*> frames_of(Rewriter& w, ir::Value* signal, int64_t length, int64_t step, const Dim& count,
                             const ir::Value* like);

}  // namespace peri::passes
