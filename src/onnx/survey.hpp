// The requirements of a model, determined before anything is built: names and order checked, functions resolved and
// their expansion bounded, every operator looked up.
#pragma once

#include <set>

#include "onnx/import.hpp"
#include "onnx/model.hpp"

namespace peri::onnx {

struct Function {
  FunctionRecord record;
  std::vector<uint32_t> order;  // of its nodes
};

struct Survey {
  ModelRecord model;
  std::vector<uint32_t> order;                             // of the graph's nodes
  std::map<std::string, Function, std::less<>> functions;  // by function_key
  ImportReport report;
  std::map<std::string, Tensor> fixed = {};  // inputs that become constants
  // Inputs with a default value (an initializer of their name), which they keep unless they are fixed to another.
  std::vector<PortInfo> defaults = {};
  // Inputs that are sequences or optionals: the names of their elements. An optional tensor has one or none.
  struct Container {
    bool sequence = false;
    std::vector<std::string> elements;
  };
  std::map<std::string, Container> containers = {};
};

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload);

// Errors: kInvalid as of the readers and check_scope, opsets missing or out of range (kUnsupported), recursive
// functions or ones nested deeper than 100, more than options.max_nodes nodes. Unsupported operators are in the report,
// not an error.
Result<Survey> survey_bytes(std::string_view bytes, const std::string& path, const ImportOptions& options);

// The note of a survey that an input with a default value is a constant.
std::string default_note(const std::string& input);

// Declared type of a graph input or output. Dimensions: numbers; names as symbols; an expression over `names` ("2*n")
// as such, any other text as a separate symbol; unnamed ones, "?" and "-1" as "<name>_dim_<axis>". kUnsupported for
// anything but a tensor.
Result<ir::Type> declared_type(const ValueRecord& v, const std::set<std::string>& names);

}  // namespace peri::onnx
