// Sizes are given by names that a model's engine has no more: of dimensions that are constants in it (pinned.hpp), and
// of those that are one with another (onnx/equal_sizes.hpp).
#pragma once

#include "base/json.hpp"
#include "compile/compile.hpp"
#include "onnx/import.hpp"

namespace peri::compile {

// A line "NAME<tab>NAME THAT STAYS" for each name of a dimension that is one with another.
constexpr std::string_view kSameSection = "same";
std::string same_text(const onnx::SameSizes& same);
// Leaves the names that the engine with these sections has. kUsage: another size of a constant, two sizes of one
// dimension.
Status to_own_names(const std::vector<plan::Section>& sections, std::map<std::string, int64_t>* dims);
// Names that are one with another, each with the one that stays.
std::map<std::string, std::string> own_names(const std::vector<plan::Section>& sections);
// The dimensions of the model that are constants in its engine, by name.
std::map<std::string, int64_t> fixed_dims(const plan::Program& program);
// Members "fixed_dims" and "same_dims" of a description of the engine: what the two above give; nothing where there is
// none.
void write_own_names(const plan::Program& program, JsonWriter* w);
// What the import noted of both.
std::vector<std::string> dims_notes(const plan::Program& program);
// The name that the engine has for this one.
std::string own_name(const std::vector<plan::Section>& sections, const std::string& name);

}  // namespace peri::compile
