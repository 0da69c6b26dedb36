// The names of the classes that the model gives for the last axis of an output, as a classifier of scikit-learn does:
// the section "class_names", an object of JSON with a list of names for each output.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "plan/program.hpp"

namespace peri::plan {

constexpr std::string_view kClassNamesSection = "class_names";
using ClassNames = std::map<std::string, std::vector<std::string>>;  // by output

// The section's bytes; "": there are no names, or more than an engine should carry.
std::string class_names_text(const ClassNames& names);
// Errors: kInvalid: not such an object.
Result<ClassNames> read_class_names(std::string_view text);
// Of a program's outputs; empty: it has none. Errors: as above.
Result<ClassNames> class_names_of(const Program& program);
// The member "class_names" of a description of the engine; nothing where there are none.
void write_class_names(const Program& program, JsonWriter* w);

}  // namespace peri::plan
