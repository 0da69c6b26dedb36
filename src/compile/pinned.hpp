// Some models have different structures for different sizes: an axis of 1 is squeezed, a branch taken. Such a model is
// imported at the sizes asked for, with as few dimensions fixed as possible.
#pragma once

#include "compile/compile.hpp"
#include "onnx/import.hpp"

namespace peri::compile {

// A line NAME=VALUE for each dimension of the model that is a number in its engine.
constexpr std::string_view kPinnedSection = "pinned";

struct Pinned {
  DimBinding sizes;
  std::map<std::string, int64_t> also;  // other names by which they were given: "batch"
};

// The model as it stands, if it can be imported at every size; else with `pinned` sizes. The error is that of every
// size, where these sizes do not help.
Result<onnx::ImportedModel> import_pinned(const std::string& model, const std::map<std::string, std::string>& fixed,
                                          const ImportSizes& sizes, Pinned* pinned);
std::string pinned_text(const Pinned& pinned);  // the section
std::string pinned_list(const Pinned& pinned);  // for people: "batch=1, sequence=512"
// Takes the sizes that the section names out of `dims`. kUsage: another size is asked for.
Status leave_out_pinned(const std::string& section, std::map<std::string, int64_t>* dims);

}  // namespace peri::compile
