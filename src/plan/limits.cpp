// Binding sizes of a run to a program's dimensions, the limits that they must be within, and the validity of those
// limits.
#include <algorithm>
#include <charconv>
#include <map>

#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "plan/pinned.hpp"

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

std::vector<std::pair<std::string, int64_t>> pinned_sizes(std::string_view text) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t equal = line.rfind('=');
    if (equal == std::string_view::npos) continue;
    int64_t value = 0;
    std::from_chars(line.data() + equal + 1, line.data() + line.size(), value);
    out.emplace_back(line.substr(0, equal), value);
  }
  return out;
}

namespace {
// How a run of another size is had: its structure follows from the size that the engine was built for.
std::string remedy_of_pinned(const Program& p, const std::string& axis, int64_t size) {
  const Section* const pinned = p.section(kPinnedSection);
  for (const auto& [name, value] : pinned_sizes(pinned ? std::string_view(pinned->bytes) : std::string_view()))
    if (name == axis)
      return "the structure of the model depends on this size, which is fixed in the engine; build one for the other "
             "size: peri build MODEL -o ENGINE --dims " +
             shell_word(axis + "=" + std::to_string(size));
  return "";
}

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
          .but_found(std::to_string(input_dims[k][axis]))
          .advise(d.is_const() ? remedy_of_pinned(p, port.name + "." + std::to_string(axis), input_dims[k][axis]) : "");
    }
  }
  for (const auto& size : binding)
    if (Status s = within_limits(p, {size}); !s.ok()) return std::move(s).error().at_node(bound_by[size.first]);
  return binding;
}

}  // namespace peri::plan
