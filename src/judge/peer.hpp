// Outputs of ONNX Runtime in a Python interpreter: PERI_PYTHON, else the project's own environment, else `python3`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// Runs `model` (an ONNX file) in ONNX Runtime with `threads` threads on every set of inputs; inputs and outputs by the
// names and in the order of the program's ports. One process for all sets, in a temporary folder. kUnsupported if
// Python or the package onnxruntime is missing, or a port has a type that its Python interface lacks; kInvalid with
// ONNX Runtime's message if it refuses the model.
Result<std::vector<std::vector<Tensor>>> onnxruntime_outputs(const std::string& model, const plan::Program& program,
                                                             std::span<const std::vector<Tensor>> sets, int threads);

// How far ONNX Runtime's own outputs move when every float of the inputs is perturbed by one rounding, at random: for
// each output the largest difference of its elements, INFINITY where its shape changes. Where round-off decides a
// rounding or a choice, these differ as much as those of two programs. Errors: as above.
Result<std::vector<double>> onnxruntime_moves(const std::string& model, const plan::Program& program,
                                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& answers,
                                              int threads);

}  // namespace peri::judge
