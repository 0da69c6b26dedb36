// Some models have different structures for different sizes: an axis of 1 is squeezed, a branch taken. Such a model is
// imported at the requested sizes, with as few dimensions fixed as possible.
#pragma once

#include "compile/compile.hpp"
#include "onnx/import.hpp"
#include "plan/pinned.hpp"

namespace peri::compile {

struct Pinned {
  DimBinding sizes;
  std::map<std::string, int64_t> also;  // other names of the given ones: "batch"
  std::map<std::string, int64_t> axes;  // of inputs, INPUT.AXIS, that are of these sizes
};

// The model unchanged, if it can be imported at every size; else with `pinned` sizes. Where these sizes do not help,
// the error is that for every size.
Result<onnx::ImportedModel> import_pinned(const std::string& model, const std::map<std::string, std::string>& fixed,
                                          const ImportSizes& sizes, Pinned* pinned);
// What the inputs are read with: how many elements sequences have, and how many axes those have that declare no shape.
onnx::ImportOptions declared_with(const ImportSizes& sizes);
std::string pinned_text(const Pinned& pinned);    // the section plan::kPinnedSection
std::string fixed_note(const DimBinding& sizes);  // "sizes ... are fixed: batch=1, sequence=512"
// Removes the sizes in the section from `dims`. kUsage: another size is requested.
Status leave_out_pinned(const std::string& section, std::map<std::string, int64_t>* dims);

}  // namespace peri::compile
