// Assumed sizes, and the executor for the steps that produce them.
#include "lower/data_sizes.hpp"

#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "exec/sized/selection.hpp"

namespace peri::lower {

Options with_data_sizes(const ir::Graph& graph, const Backend& backend, Options options) {
  std::set<std::string> symbols;
  for (const auto& v : graph.values())
    for (const Dim& d : v->type.shape ? *v->type.shape : Shape()) d.collect_symbols(symbols);
  std::erase_if(symbols, [](const std::string& s) { return !s.starts_with(kDataDim); });
  if (!backend.placement.device.empty()) symbols.clear();
  for (const std::string& s : symbols) {
    options.tuned_for.emplace(s, exec::kAssumedSize);
    for (DimBinding& also : options.also) also.emplace(s, exec::kAssumedSize);
  }
  if (symbols.empty()) return options;
  options.tuned_for = fit_data_sizes(graph, std::move(options.tuned_for));
  for (DimBinding& also : options.also) also = fit_data_sizes(graph, std::move(also));
  return options;
}

namespace {
std::set<std::string> data_dims(const std::vector<ir::Value*>& values) {
  std::set<std::string> symbols;
  for (const ir::Value* v : values)
    for (const Dim& d : *v->type.shape) d.collect_symbols(symbols);
  std::erase_if(symbols, [](const std::string& s) { return !s.starts_with(kDataDim); });
  return symbols;
}
}  // namespace

DimBinding assumed_sizes(const DimBinding& dims, const Region& region) {
  DimBinding out;
  for (const auto* values : {&region.inputs, &region.outputs})
    for (const std::string& name : data_dims(*values))
      if (const auto at = dims.find(name); at != dims.end()) out.insert(*at);
  return out;
}

bool has_data_size(const std::vector<ir::Value*>& values) { return !data_dims(values).empty(); }

bool sized_by_data(const Region& region, const plan::Step& step, const ir::Graph& g, const Backend& backend,
                   std::string_view provider) {
  if (!provider.empty() && provider != "peri") return false;  // its kernels are ours
  const Placement& place = backend.placement;
  if (!place.device.empty() && !place.own_only) return false;  // steps without a kernel go there, too
  if (ops::states_sizes(*region.nodes.front())) return true;   // a few numbers: no definition is needed for them
  const bool selects = exec::selection_of(g) != nullptr;
  if (step.binds.empty() && !has_data_size(region.outputs) && !has_data_size(region.inputs)) return false;
  const auto whole_bytes = [](const ir::Value* v) {
    return v->type.dtype != DType::kString && dtype_bits(v->type.dtype) % 8 == 0 && !stored_narrow(v);
  };
  const auto told = [](const ir::Value* v) { return v->type.dtype == DType::kI64 || v->type.dtype == DType::kI32; };
  return std::all_of(region.inputs.begin(), region.inputs.end(), whole_bytes) &&
         std::all_of(region.outputs.begin(), region.outputs.end(), whole_bytes) &&
         (place.own_only || selects || std::any_of(region.inputs.begin(), region.inputs.end(), told));
}

}  // namespace peri::lower
