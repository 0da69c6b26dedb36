// Compiling and binding a program's sizes; where they do not fit, bind_dims(), which knows names, reports the error.
#include "plan/sizes.hpp"

#include <algorithm>

namespace peri::plan {

ProgramSizes compile_sizes(const Program& p) {
  ProgramSizes out;
  out.table = SizeTable(p.dims);
  for (const Buffer& b : p.buffers) out.buffers.push_back({out.table.add(b.bytes), out.table.add(b.alias_offset)});
  for (const Port& port : p.inputs) {
    out.inputs.push_back(out.table.add(port.shape));
    std::vector<int32_t>& bare = out.symbols.emplace_back();
    std::vector<int64_t>& least = out.least.emplace_back();
    for (const Dim& d : port.shape) {
      bare.push_back(d.is_symbol() ? out.table.find(d.symbol_name()) : -1);
      least.push_back(provably_at_least(d, 1) ? 1 : 0);
    }
  }
  for (const std::string& dim : p.dims) {
    const auto least = p.at_least.find(dim), most = p.at_most.find(dim);
    if (least == p.at_least.end() && most == p.at_most.end()) continue;
    out.limits.push_back({out.table.find(dim), least == p.at_least.end() ? 0 : least->second,
                          most == p.at_most.end() ? INT64_MAX : most->second});
  }
  for (const Port& port : p.outputs) out.outputs.push_back(out.table.add(port.shape));
  for (const Step& s : p.steps) {
    auto& variants = out.holds.emplace_back();
    for (const Variant& v : s.variants) {
      std::vector<int32_t>& expressions = variants.emplace_back();
      for (const auto& [expression, value] : v.holds_for) expressions.push_back(out.table.add(expression));
    }
  }
  out.lifetimes = lifetimes(p);
  if (p.devices.size() > 1) out.spans = Spans(p);
  return out;
}

namespace {
bool fits(const ProgramSizes& sizes, const std::vector<std::vector<int64_t>>& dims, std::vector<int64_t>* values) {
  constexpr int64_t kMaxDim = int64_t{1} << 40;
  if (dims.size() != sizes.inputs.size()) return false;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k].size() != sizes.inputs[k].size()) return false;
    for (size_t axis = 0; axis < dims[k].size(); ++axis) {
      const int64_t v = dims[k][axis];
      if (v < 0 || v > kMaxDim) return false;
      const int32_t symbol = sizes.symbols[k][axis];
      if (symbol < 0) continue;
      if (v < sizes.least[k][axis]) return false;
      if (int64_t& bound = (*values)[static_cast<size_t>(symbol)]; bound == kNoSize) bound = v;
    }
  }
  for (size_t k = 0; k < dims.size(); ++k)
    for (size_t axis = 0; axis < dims[k].size(); ++axis)
      if (const auto want = sizes.table.eval(sizes.inputs[k][axis], *values); !want.ok() || *want != dims[k][axis])
        return false;
  return std::all_of(sizes.limits.begin(), sizes.limits.end(), [&](const ProgramSizes::Limit& limit) {
    const int64_t v = (*values)[static_cast<size_t>(limit.dim)];
    return v == kNoSize || (v >= limit.least && v <= limit.most);
  });
}
}  // namespace

Status bind_sizes(const Program& p, const ProgramSizes& sizes, const std::vector<std::vector<int64_t>>& input_dims,
                  std::vector<int64_t>* values) {
  values->assign(sizes.table.names().size(), kNoSize);
  if (fits(sizes, input_dims, values)) return Ok{};
  PERI_TRY(bind_dims(p, input_dims));
  return internal_error("the compiled sizes refuse what the program's expressions take");
}

bool fits(const Variant& variant, const Capabilities& machine) {
  const auto has = [](const std::vector<std::string>& list, const std::string& item) {
    return item.empty() || std::find(list.begin(), list.end(), item) != list.end();
  };
  return has(machine.isas, variant.requires_isa) && has(machine.libraries, variant.library);
}

Error no_variant(const Step& step) {
  std::string needs;
  for (const Variant& v : step.variants)
    needs += (needs.empty() ? "" : ", or ") + (v.requires_isa.empty() ? "any CPU" : v.requires_isa) +
             (v.library.empty() ? "" : " with " + v.library);
  return refused("no variant of this step fits the machine")
      .at_node(step.name)
      .expecting(needs)
      .advise("build the engine again on this machine");
}

namespace {
template <class Holds>  // bool(variant)
Result<size_t> choose(const Step& step, const Capabilities& machine, const Holds& holds) {
  for (size_t k = 0; k < step.variants.size(); ++k)
    if (holds(k) && fits(step.variants[k], machine)) return k;
  return no_variant(step);
}
}  // namespace

Result<size_t> choose_variant(const Program& p, const ProgramSizes& sizes, size_t step, const Capabilities& machine,
                              std::span<const int64_t> values) {
  const Step& s = p.steps[step];
  return choose(s, machine, [&](size_t k) {
    for (size_t i = 0; i < s.variants[k].holds_for.size(); ++i)
      if (const auto now = sizes.table.eval(sizes.holds[step][k][i], values);
          !now.ok() || *now != s.variants[k].holds_for[i].second)
        return false;
    return true;
  });
}

Result<size_t> choose_variant(const Step& step, const Capabilities& machine, const DimBinding& binding) {
  return choose(step, machine, [&](size_t k) {
    for (const auto& [expression, value] : step.variants[k].holds_for)
      if (const auto now = expression.eval(binding); !now.ok() || *now != value) return false;
    return true;
  });
}

Result<ArenaPlan> plan_arena(const Program& p, const DimBinding& binding) {
  const ProgramSizes sizes = compile_sizes(p);
  return plan_arena(p, sizes, sizes.table.values_of(binding));
}

}  // namespace peri::plan
