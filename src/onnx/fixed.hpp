// Inputs that a caller fixes: they become constants, and what depends on them is folded.
#pragma once

#include "onnx/survey.hpp"

namespace peri::onnx {

// Takes the inputs named in options.fixed from the survey's report and puts their values into Survey::fixed. kUsage: no
// such input, a shape that is not fixed itself, a value that is none of its type.
Status fix_inputs(const ImportOptions& options, Survey* survey);
// Dimensions of inputs that options.sizes names become numbers.
void fix_sizes(const ImportOptions& options, Survey* survey);

}  // namespace peri::onnx
