// First with all sizes open, then with all sizes given, then one dimension after the other is opened again.
#include "compile/pinned.hpp"

#include <algorithm>
#include <charconv>

namespace peri::compile {

namespace {
// Numbers of elements that sequences may have: sizes that are given by name, and what inputs at hand are numbered.
DimBinding lengths_of(const ImportSizes& sizes) {
  DimBinding out;
  for (const InputShape& input : sizes.at_hand) {
    const size_t dot = input.name.rfind('.');
    if (dot == std::string::npos) continue;
    int32_t number = -1;
    const char* const stop = input.name.data() + input.name.size();
    const auto [end, code] = std::from_chars(input.name.data() + dot + 1, stop, number);
    if (code == std::errc() && end == stop && number >= 0)
      out[input.name.substr(0, dot)] = std::max(out[input.name.substr(0, dot)], int64_t{number} + 1);
  }
  for (const auto& [key, value] : sizes.dims)
    if (value >= 0) out[key] = value;
  return out;
}

// Numbers of axes of inputs that are at hand, or of which a shape is given.
DimBinding ranks_of(const ImportSizes& sizes) {
  DimBinding out;
  for (const InputShape& input : sizes.at_hand) out[input.name] = static_cast<int64_t>(input.dims.size());
  for (const auto& [key, value] : sizes.dims) {
    const size_t dot = key.rfind('.');
    int64_t axes = 0;
    if (value == kShapeEnds && dot != std::string::npos &&
        std::from_chars(key.data() + dot + 1, key.data() + key.size(), axes).ec == std::errc())
      out[key.substr(0, dot)] = axes;
  }
  return out;
}

// The model's inputs alone, as they are declared.
Result<ir::Graph> declared_inputs(const std::string& model, const DimBinding& lengths, const DimBinding& ranks) {
  PERI_ASSIGN(const onnx::ImportReport report, onnx::survey_model(model, {.lengths = lengths, .ranks = ranks}));
  ir::Graph g;
  if (!report.supported()) return g;
  for (const onnx::PortInfo& p : report.inputs)
    if (p.type.known()) g.add_input(p.name, p.type);
  return g;
}

// The dimensions of `inputs` that are given as 0, or are so in an input at hand. What is given and names none is told
// when sizes are resolved.
std::set<std::string, std::less<>> given_as_zero(const ir::Graph& inputs, const ImportSizes& sizes) {
  std::set<std::string, std::less<>> out;
  for (const auto* const list : {&sizes.dims, &sizes.least})
    for (const auto& [key, value] : *list)
      if (value == 0)
        if (const std::optional<std::string> dimension = dimension_of(inputs, key)) out.insert(*dimension);
  for (const InputShape& input : sizes.at_hand)
    for (size_t axis = 0; axis < input.dims.size(); ++axis)
      if (input.dims[axis] == 0)
        if (const auto dimension = dimension_of(inputs, input.name + "." + std::to_string(axis)))
          out.insert(*dimension);
  return out;
}

bool any_zero(const ImportSizes& sizes) {
  const auto zero = [](const auto& size) { return size.second == 0; };
  return std::any_of(sizes.dims.begin(), sizes.dims.end(), zero) ||
         std::any_of(sizes.least.begin(), sizes.least.end(), zero) ||
         std::any_of(sizes.at_hand.begin(), sizes.at_hand.end(),
                     [](const InputShape& s) { return std::count(s.dims.begin(), s.dims.end(), 0) > 0; });
}
}  // namespace

Result<onnx::ImportedModel> import_pinned(const std::string& model, const std::map<std::string, std::string>& fixed,
                                          const ImportSizes& sizes, Pinned* pinned) {
  const DimBinding lengths = lengths_of(sizes), ranks = ranks_of(sizes);
  std::set<std::string, std::less<>> zero;
  if (any_zero(sizes))
    if (const auto inputs = declared_inputs(model, lengths, ranks); inputs.ok()) zero = given_as_zero(*inputs, sizes);
  const auto import_at = [&](const DimBinding& fixed_sizes) {
    return onnx::import_model(model, {.fixed = fixed,
                                      .sizes = fixed_sizes,
                                      .from_zero = zero,
                                      .lengths = lengths,
                                      .ranks = ranks,
                                      .remember = true});
  };
  auto at_every_size = import_at({});
  if (at_every_size.ok()) {  // names of sequences say how many elements they have, and of no dimension
    for (const auto& [key, value] : sizes.dims)
      if (at_every_size->lengths.contains(key)) pinned->also.emplace(key, value);
    return at_every_size;
  }
  if (at_every_size.error().kind != ErrorKind::kUnsupported) return at_every_size;
  PERI_ASSIGN(const ir::Graph inputs, declared_inputs(model, lengths, ranks));
  const DimBinding at_hand = sizes_of(inputs, sizes.at_hand);
  std::map<std::string, int64_t> dims = sizes.dims;
  for (const auto& length : lengths) {
    const std::string first = length.first + ".";
    if (std::any_of(inputs.inputs.begin(), inputs.inputs.end(),
                    [&](const ir::Value* v) { return v->name.starts_with(first); }))
      dims.erase(length.first);
  }
  auto asked = resolve_dims(inputs, dims, at_hand);
  if (!asked.ok() || asked->empty()) return at_every_size;
  auto best = import_at(*asked);
  if (!best.ok()) {  // what nobody gave may have to be as small as it can
    DimBinding small = at_hand;
    for (const auto& [name, value] : *asked) small.emplace(name, 1);
    asked = resolve_dims(inputs, dims, small);
    PERI_CHECK(asked.ok());
    best = import_at(*asked);
  }
  if (!best.ok()) {
    Error e = std::move(at_every_size).error();
    // What is refused alike at every size is not a matter of sizes.
    if (best.error().text() != e.text() && e.remedy.find("--dims") == std::string::npos)
      e.remedy += (e.remedy.empty() ? "" : ", or ") + std::string("give the sizes that it has: --dims NAME=N");
    return e;
  }
  DimBinding kept = *asked;
  for (const auto& [name, value] : *asked) {
    DimBinding fewer = kept;
    fewer.erase(name);
    auto freer = import_at(fewer);
    if (!freer.ok()) continue;
    best = std::move(freer);
    kept = std::move(fewer);
  }
  for (const auto& [key, value] : sizes.dims)
    if (value != kShapeEnds && !kept.contains(key) && !best->same.contains(key) &&
        !resolve_dims(best->graph, {{key, value}}).ok())
      pinned->also.emplace(key, value);
  for (const ir::Value* v : inputs.inputs)
    for (size_t axis = 0; axis < v->type.rank(); ++axis)
      if (const Dim& d = (*v->type.shape)[axis]; d.is_symbol() && kept.contains(d.symbol_name()))
        pinned->axes.emplace(v->name + "." + std::to_string(axis), kept.at(d.symbol_name()));
  pinned->sizes = std::move(kept);
  return best;
}

onnx::ImportOptions declared_with(const ImportSizes& sizes) {
  return {.lengths = lengths_of(sizes), .ranks = ranks_of(sizes)};
}

std::string pinned_text(const Pinned& pinned) {
  std::string out;
  for (const auto& [name, value] : pinned.also) out += name + "=" + std::to_string(value) + "\n";
  for (const auto& [name, value] : pinned.axes) out += name + "=" + std::to_string(value) + "\n";
  for (const auto& [name, value] : pinned.sizes) out += name + "=" + std::to_string(value) + "\n";
  return out;
}

std::string fixed_note(const DimBinding& sizes) {
  std::string out;
  for (const auto& [name, value] : sizes) out += (out.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return "sizes that the structure of the model depends on are fixed: " + out;
}

Status leave_out_pinned(const std::string& section, std::map<std::string, int64_t>* dims) {
  for (const auto& [name, value] : plan::pinned_sizes(section)) {
    const auto it = dims->find(name);
    if (it == dims->end()) continue;
    if (it->second != value)
      return usage("dimension '%s' is fixed, since the structure of the model depends on it", it->first.c_str())
          .expecting(std::to_string(value))
          .but_found(std::to_string(it->second))
          .advise("build an engine for that size");
    dims->erase(it);
  }
  return Ok{};
}

}  // namespace peri::compile
