// Repeatedly accepts the steps whose inputs are all produced; any remaining step is part of a cycle or lacks a
// producer.
#include "serve/ensemble/fit.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "serve/kserve/datatype.hpp"

namespace peri::serve {

namespace {

struct Edge {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::string from;  // for messages
};
using Edges = std::map<std::string, Edge>;

Result<plan::Port> port_of(const PortConfig& config, bool batch) {
  plan::Port out;
  out.name = config.name;
  if (config.data_type.rfind("TYPE_", 0) != 0) return invalid("'%s' has no data_type", config.name.c_str());
  const std::string name = config.data_type.substr(5);
  PERI_ASSIGN(out.dtype, parse_datatype(name == "STRING" ? "BYTES" : name));
  if (batch) out.shape.push_back(Dim::symbol("batch"));
  for (size_t k = 0; k < config.dims.size(); ++k)
    out.shape.push_back(config.dims[k] < 0 ? Dim::symbol(config.name + "." + std::to_string(k)) : Dim(config.dims[k]));
  return out;
}

Status check_edge(const Edge& edge, const plan::Port& port, const std::string& what) {
  if (edge.dtype == port.dtype && may_be(edge.shape, port.shape)) return Ok{};
  const auto text = [](DType dtype, const Shape& shape) { return std::string(dtype_name(dtype)) + shape_text(shape); };
  return invalid("%s is another tensor than that of %s", what.c_str(), edge.from.c_str())
      .expecting(text(port.dtype, port.shape))
      .but_found(text(edge.dtype, edge.shape));
}

const plan::Port* port_named(std::span<const plan::Port> ports, const std::string& name) {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const plan::Port& p) { return p.name == name; });
  return it == ports.end() ? nullptr : &*it;
}

// Checks a step's inputs and outputs against its model and adds its outputs to the edges.
Status check_step(const EnsembleStep& step, const Model& model, Edges* edges) {
  const std::string of = "of step '" + step.model + "'";
  for (const auto& [port, tensor] : step.inputs)
    if (!port_named(model.inputs(), port))
      return invalid("input '%s' %s is none of the model's", port.c_str(), of.c_str());
  for (const plan::Port& p : model.inputs()) {
    const auto tensor = step.inputs.find(p.name);
    if (tensor == step.inputs.end()) return invalid("input '%s' %s is given no tensor", p.name.c_str(), of.c_str());
    PERI_TRY(check_edge(edges->at(tensor->second), p, "input '" + p.name + "' " + of));
  }
  for (const auto& [port, tensor] : step.outputs) {
    const plan::Port* p = port_named(model.outputs(), port);
    if (!p) return invalid("output '%s' %s is none of the model's", port.c_str(), of.c_str());
    const Edge edge{p->dtype, p->shape, "output '" + port + "' " + of};
    if (!edges->emplace(tensor, edge).second)
      return invalid("tensor '%s' is made twice", tensor.c_str()).at_node(step.model);
  }
  return Ok{};
}

// 0: the dims of that configuration have no batch of their own.
Status check_batch(const EnsembleStep& step, int64_t most, int64_t of_ensemble) {
  if (most == 0 || of_ensemble <= most) return Ok{};
  return invalid("the ensemble's max_batch_size is above that of step '%s'", step.model.c_str())
      .expecting("at most " + std::to_string(most))
      .but_found(std::to_string(of_ensemble));
}

Status check_steps(const ModelConfig& config, const FindModel& find, Edges* edges) {
  std::vector<const EnsembleStep*> left;
  for (const EnsembleStep& s : config.steps) left.push_back(&s);
  while (!left.empty()) {
    const auto there = std::find_if(left.begin(), left.end(), [&](const EnsembleStep* s) {
      return std::all_of(s->inputs.begin(), s->inputs.end(), [&](const auto& i) { return edges->count(i.second) > 0; });
    });
    if (there == left.end()) {
      for (const auto& [port, tensor] : left.front()->inputs)
        if (edges->count(tensor) == 0)
          return invalid(
              "tensor '%s', input '%s' of step '%s', is made by no step before it: none makes it, or the steps "
              "go in a circle",
              tensor.c_str(), port.c_str(), left.front()->model.c_str());
    }
    const EnsembleStep& step = **there;
    left.erase(there);
    std::string why;
    const ServedPtr served = find(step.model, step.version, &why);
    if (!served) return refused("step '%s': %s", step.model.c_str(), why.c_str());
    PERI_TRY(check_batch(step, served->config.max_batch_size, config.max_batch_size));
    PERI_TRY(check_step(step, *served->model, edges));
  }
  return Ok{};
}

// As Triton, which takes no ensemble with a tensor that is sent or made for nothing.
Status check_used(const ModelConfig& config) {
  std::set<std::string_view> used;
  for (const EnsembleStep& s : config.steps)
    for (const auto& [port, tensor] : s.inputs) used.insert(tensor);
  for (const PortConfig& p : config.outputs) used.insert(p.name);
  for (const PortConfig& p : config.inputs)
    if (!used.contains(p.name))
      return invalid("the ensemble's input '%s' is used by no step", p.name.c_str())
          .advise("take it out of the configuration, or name it in a step's input_map");
  for (const EnsembleStep& s : config.steps)
    for (const auto& [port, tensor] : s.outputs)
      if (!used.contains(tensor))
        return invalid("tensor '%s', output '%s' of step '%s', is used by no step and no output of the ensemble",
                       tensor.c_str(), port.c_str(), s.model.c_str())
            .advise("take it out of the step's output_map, or use it");
  return Ok{};
}

}  // namespace

bool may_be(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].is_const() && b[k].is_const() && a[k].value() != b[k].value()) return false;
  return true;
}

Result<EnsemblePorts> fit(const ModelConfig& config, const FindModel& find) {
  const bool batch = config.max_batch_size > 0;
  EnsemblePorts out;
  Edges edges;
  if (config.inputs.empty() || config.outputs.empty())
    return invalid("the configuration of an ensemble names its inputs and outputs");
  for (const PortConfig& c : config.inputs) {
    PERI_ASSIGN(plan::Port p, port_of(c, batch));
    if (!edges.emplace(p.name, Edge{p.dtype, p.shape, "the ensemble's input '" + p.name + "'"}).second)
      return invalid("the input '%s' stands twice", p.name.c_str());
    out.inputs.push_back(std::move(p));
  }
  PERI_TRY(check_steps(config, find, &edges));
  for (const PortConfig& c : config.outputs) {
    PERI_ASSIGN(plan::Port p, port_of(c, batch));
    const auto made = edges.find(p.name);
    if (made == edges.end()) return invalid("the output '%s' is made by no step", p.name.c_str());
    PERI_TRY(check_edge(made->second, p, "the ensemble's output '" + p.name + "'"));
    out.outputs.push_back(std::move(p));
  }
  PERI_TRY(check_used(config));
  return out;
}

}  // namespace peri::serve
