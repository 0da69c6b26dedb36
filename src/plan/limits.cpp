// Binding sizes of a run to a program's dimensions, the limits that they must be within, and the validity of those
// limits.
#include <algorithm>
#include <map>

#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "plan/program.hpp"

namespace peri::plan {

Status check_limits(const Program& p) {
  for (const auto* list : {&p.at_least, &p.at_most})
    for (const auto& [dim, value] : *list)
      if (value < 0 || std::find(p.dims.begin(), p.dims.end(), dim) == p.dims.end())
        return invalid("a limit of no dimension, or below 0").at_node(dim);
  for (const auto& [dim, value] : p.at_least)
    if (const auto most = p.at_most.find(dim); most != p.at_most.end() && most->second < value)
      return invalid("no size lies within the limits").at_node(dim);
  return Ok{};
}

std::string limits_text(const Program& p, const std::string& dim) {
  const auto least = p.at_least.find(dim), most = p.at_most.find(dim);
  const bool low = least != p.at_least.end(), high = most != p.at_most.end();
  if (low && high)
    return format("%lld to %lld", static_cast<long long>(least->second), static_cast<long long>(most->second));
  if (low) return format("at least %lld", static_cast<long long>(least->second));
  return high ? format("at most %lld", static_cast<long long>(most->second)) : "";
}

Status within_limits(const Program& p, const DimBinding& sizes) {
  for (const auto& [dim, value] : sizes) {
    const auto least = p.at_least.find(dim), most = p.at_most.find(dim);
    if ((least == p.at_least.end() || value >= least->second) && (most == p.at_most.end() || value <= most->second))
      continue;
    return refused("dimension '%s' is beyond what the engine was built for", dim.c_str())
        .expecting(limits_text(p, dim))
        .but_found(std::to_string(value))
        .advise("widen --min-shapes and --max-shapes of its build, or leave them out: then any size runs");
  }
  return Ok{};
}

namespace {
// "1x0x64": the smallest sizes of an input such that these are allowed.
std::string least_of(const Shape& shape, const std::vector<int64_t>& dims) {
  std::string out;
  for (size_t k = 0; k < dims.size(); ++k) {
    const bool from_1 = dims[k] != 0 && provably_at_least(shape[k], 1);
    out += (k ? "x" : "") + std::to_string(shape[k].is_symbol() ? int64_t{from_1} : dims[k]);
  }
  return out;
}
}  // namespace

Result<DimBinding> bind_dims(const Program& p, const std::vector<std::vector<int64_t>>& input_dims) {
  if (input_dims.size() != p.inputs.size())
    return usage("%s given, the engine has %zu", counted(std::ssize(input_dims), "input").c_str(), p.inputs.size());
  DimBinding binding;
  std::map<std::string, std::string> bound_by;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const Port& port = p.inputs[k];
    if (input_dims[k].size() != port.shape.size())
      return usage("wrong rank")
          .at_node(port.name)
          .expecting(shape_text(port.shape))
          .but_found(shape_text(Shape(input_dims[k].begin(), input_dims[k].end())));
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      const int64_t v = input_dims[k][axis];
      if (v < 0 || v > (int64_t{1} << 40)) return usage("dimension %lld", static_cast<long long>(v)).at_node(port.name);
      if (!port.shape[axis].is_symbol()) continue;
      const std::string name = port.shape[axis].symbol_name();
      if (v == 0 && provably_at_least(port.shape[axis], 1))
        return usage("dimension '%s' is 0", name.c_str())
            .at_node(port.name)
            .expecting("at least 1")
            .advise("build it for values without elements: --min-shapes " +
                    shell_word(port.name + ":" + least_of(port.shape, input_dims[k])));
      if (binding.emplace(name, v).second) bound_by[name] = port.name;
    }
  }
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const Port& port = p.inputs[k];
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      const Dim& d = port.shape[axis];
      PERI_ASSIGN(const int64_t want, d.eval(binding));
      if (want == input_dims[k][axis]) continue;
      std::string how = std::to_string(want);
      if (d.is_symbol()) how += " ('" + d.symbol_name() + "' from input '" + bound_by[d.symbol_name()] + "')";
      return usage("dimension %zu does not fit", axis)
          .at_node(port.name)
          .expecting(how)
          .but_found(std::to_string(input_dims[k][axis]));
    }
  }
  for (const auto& size : binding)
    if (Status s = within_limits(p, {size}); !s.ok()) return std::move(s).error().at_node(bound_by[size.first]);
  return binding;
}

}  // namespace peri::plan
