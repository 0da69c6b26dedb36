// Inputs that a caller fixes: they become constants, and what depends on them is folded.
#pragma once

#include "onnx/survey.hpp"

namespace peri::onnx {

// Removes the inputs named in options.fixed from the survey's report and puts their values into Survey::fixed. kUsage:
// no such input, a shape that is not constant, a value that is not valid for its type.
Status fix_inputs(const ImportOptions& options, Survey* survey);
// Replaces dimensions of inputs named in options.sizes by numbers; of outputs too, those named in options.same by the
// name that stays, and those named in options.from_zero by ones that may be 0.
void fix_sizes(const ImportOptions& options, Survey* survey);

}  // namespace peri::onnx
