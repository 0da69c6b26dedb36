// What a survey says of a graph's initializers, inputs and outputs.
#include <algorithm>

#include "base/shell_word.hpp"
#include "onnx/limits.hpp"
#include "onnx/proto_reader.hpp"
#include "onnx/surveyor.hpp"

namespace peri::onnx {

// One given again has the same type and shape, and the last one counts, as for ONNX Runtime.
Status Surveyor::describe_initializer(const TensorRecord& t, std::vector<std::string_view>* given) {
  if (t.name.empty()) return invalid("an initializer has no name");
  const auto [first, added] = constants_.try_emplace(std::string(t.name), t.data_type, t.dims);
  if (added) {
    given->push_back(t.name);
    return Ok{};
  }
  if (first->second != std::pair(t.data_type, t.dims))
    return invalid("an initializer is given twice, with another type or shape")
        .at_node(t.name)
        .advise("remove the one that is not meant");
  note("initializer '" + first->first + "' is given twice; the last one counts");
  return Ok{};
}

Status Surveyor::describe_initializers(const GraphRecord& g, std::vector<std::string_view>* given) {
  for (const Body& body : g.initializers) {
    PERI_ASSIGN(const TensorRecord t, read_tensor(body, base_));
    PERI_TRY(describe_initializer(t, given));
  }
  for (const Body& body : g.sparse_initializers) {
    PERI_ASSIGN(SparseTensorRecord t, read_sparse_tensor(body, base_));
    t.values.dims = std::move(t.dims);
    PERI_TRY(describe_initializer(t.values, given));
  }
  s_.report.weight_count = static_cast<int64_t>(constants_.size());
  return Ok{};
}

// Where the model declares no shape the options may say how many axes there are.
void Surveyor::give_rank(ValueRecord* v) const {
  constexpr int64_t kMaxRank = 32;
  const auto rank = options_.ranks.find(std::string(v->name));
  if (!v->shape && rank != options_.ranks.end())
    v->shape.emplace(static_cast<size_t>(std::clamp<int64_t>(rank->second, 0, kMaxRank)));
}

Status Surveyor::describe_ports(const GraphRecord& g, std::vector<std::string_view>* given) {
  PERI_TRY(describe_initializers(g, given));
  for (const Body& body : g.inputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(body, base_));
    if (!v.shape || constants_.contains(std::string(v.name))) continue;
    for (const DimRecord& d : *v.shape)
      if (const auto dim = Dim::parse(d.param); !d.param.empty() && dim.ok() && dim->is_symbol())
        dim_names_.insert(dim->symbol_name());
  }
  PERI_TRY(check_ports(g.inputs.size(), constants_.size(), g.outputs.size(), dim_names_.size()));
  std::set<std::string> seen;
  for (const Body& body : g.inputs) {
    PERI_ASSIGN(ValueRecord v, read_value(body, base_));
    if (v.name.empty()) return invalid("a graph input has no name");
    if (!seen.emplace(v.name).second) return invalid("graph input is given twice").at_node(v.name);
    if (constants_.contains(std::string(v.name))) {
      if (s_.model.ir_version >= 4) {  // before, every weight is declared as an input
        note(default_note(std::string(v.name)));
        PERI_TRY(add_default(v));
      }
      continue;
    }
    given->push_back(v.name);
    if (v.kind == ValueKind::kSequence || v.kind == ValueKind::kOptional) {
      PERI_TRY(describe_container(v));
      continue;
    }
    give_rank(&v);
    PERI_ASSIGN(ir::Type type, declared_type(v, dim_names_));
    s_.report.inputs.push_back({std::string(v.name), std::move(type)});
  }
  return Ok{};
}

std::string default_note(const std::string& input) {
  return "input '" + input + "' has a default value and is taken as a constant; --fix gives it another";
}

Status Surveyor::add_default(const ValueRecord& v) {
  if (v.kind != ValueKind::kTensor) return Ok{};
  PERI_ASSIGN(ir::Type type, declared_type(v, dim_names_));
  s_.defaults.push_back({std::string(v.name), std::move(type)});
  return Ok{};
}

Status Surveyor::describe_container(const ValueRecord& v) {  // an input for each element
  constexpr int64_t kMaxElements = 4096;
  const bool sequence = v.kind == ValueKind::kSequence || v.of_sequence;
  const std::string given(v.name);
  const auto it = options_.lengths.find(v.name);
  const int64_t count = it == options_.lengths.end() ? 1 : it->second;
  if (it == options_.lengths.end() && sequence)
    return unsupported("input '%s' is a sequence of unknown length", given.c_str())
        .advise("give the number of its elements: --dims " + shell_word(given + "=N"));
  if (it == options_.lengths.end())
    note("optional input '" + given + "' is taken to be given; --dims " + shell_word(given + "=0") +
         " builds for runs without it");
  if (count < 0 || count > (sequence ? kMaxElements : 1))
    return usage("'%s' cannot have %lld elements", given.c_str(), static_cast<long long>(count));
  Survey::Container& made = s_.containers[given];
  made.sequence = sequence;
  for (int64_t k = 0; k < count; ++k) {
    const std::string name = given + (sequence ? "." + std::to_string(k) : "");
    ValueRecord element = v;
    element.name = name;
    element.kind = ValueKind::kTensor;
    give_rank(&element);
    PERI_ASSIGN(ir::Type type, declared_type(element, dim_names_));
    if (!type.shape)
      return unsupported("'%s' has elements of unknown rank", given.c_str())
          .advise("give --shapes " + shell_word(name + ":AxB"));
    for (Dim& d : *type.shape)  // each element of a sequence has sizes of its own
      if (sequence && d.is_symbol()) d = Dim::symbol(d.symbol_name() + "." + std::to_string(k));
    made.elements.push_back(name);
    s_.report.inputs.push_back({name, std::move(type)});
  }
  return Ok{};
}

Status Surveyor::describe_outputs(const GraphRecord& g, std::vector<std::string_view>* outputs) {
  std::set<std::string> seen;
  for (const Body& body : g.outputs) {
    PERI_ASSIGN(const ValueRecord v, read_value(body, base_));
    if (v.name.empty()) return invalid("a graph output has no name");
    if (!seen.emplace(v.name).second) {
      note("output '" + std::string(v.name) + "' is given twice; it is one output");
      continue;
    }
    outputs->push_back(v.name);
    constexpr ValueKind kNotDeclared[] = {ValueKind::kNone, ValueKind::kSequence, ValueKind::kOptional,
                                          ValueKind::kMap};
    const bool unknown = std::find(std::begin(kNotDeclared), std::end(kNotDeclared), v.kind) != std::end(kNotDeclared);
    Result<ir::Type> type = unknown ? Result<ir::Type>(ir::Type()) : declared_type(v, dim_names_);
    if (!type.ok()) return std::move(type).error();
    s_.report.outputs.push_back({std::string(v.name), std::move(type).value()});
  }
  if (outputs->empty()) return invalid("the graph has no output");
  return Ok{};
}

// Maps from each class to its score: a tensor here, whose columns are the classes in ascending order.
void Surveyor::note_maps(const NodeRecord& zip_map) {
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> labels;
  if (const AttrRecord* a = zip_map.attr("classlabels_strings")) labels.assign(a->strings.begin(), a->strings.end());
  std::sort(labels.begin(), labels.end());
  if (const AttrRecord* a = zip_map.attr("classlabels_int64s"); a && labels.empty()) {
    std::vector<int64_t> sorted = a->ints;
    std::sort(sorted.begin(), sorted.end());
    for (const int64_t v : sorted) labels.push_back(std::to_string(v));
  }
  std::string list;
  for (size_t k = 0; k < std::min(labels.size(), kMaxNamed); ++k) list += (k ? ", " : "") + labels[k].substr(0, 40);
  if (labels.size() > kMaxNamed) list += " and " + std::to_string(labels.size() - kMaxNamed) + " more";
  const std::string name = zip_map.outputs.empty() ? "" : std::string(zip_map.outputs[0].substr(0, 200));
  if (!zip_map.outputs.empty() && !labels.empty())
    s_.report.class_names[std::string(zip_map.outputs[0])] = std::move(labels);
  note("'" + name + "' is a list of maps in the model; here it is a tensor with a column for each class: " + list);
}

}  // namespace peri::onnx
