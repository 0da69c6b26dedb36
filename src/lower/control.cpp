// The sizes that bodies are tuned for, and the steps that run them.
#include "lower/control.hpp"

#include <algorithm>

#include "exec/control/loop_run.hpp"
#include "ir/bodies.hpp"
#include "lower/region.hpp"

namespace peri::lower {

int32_t WeightList::add(const std::string& name, const Tensor& tensor) {
  const auto next = static_cast<int32_t>(tensors.size());
  if (!tensor.bytes().empty()) {
    const auto [it, fresh] = known_.try_emplace({tensor.data(), tensor.dtype(), tensor.dims()}, next);
    if (!fresh) return it->second;
  }
  plan::Weight w;
  w.name = name;
  w.dtype = tensor.dtype();
  w.dims = tensor.dims();
  w.bytes = tensor.bytes().size();
  table.push_back(std::move(w));
  tensors.push_back(tensor);
  return next;
}

std::vector<const StepReport*> all_reports(const std::vector<StepReport>& steps) {
  std::vector<const StepReport*> out;
  for (const StepReport& s : steps) {
    out.push_back(&s);
    for (const auto& body : s.bodies) {
      const std::vector<const StepReport*> inner = all_reports(body);
      out.insert(out.end(), inner.begin(), inner.end());
    }
  }
  return out;
}

Status store_arguments(ir::Graph* graph) {
  const auto needs = [](const ir::Value* v) {
    return (v->constant && v->constant->dtype() == DType::kString) || stored_narrow(v);
  };
  const auto copy_of = [&](ir::Value* v) {
    ir::Value* copy = graph->add("identity", {v})->out();
    copy->type = v->type;
    return copy;
  };
  for (ir::Value*& v : graph->outputs)
    if (needs(v)) v = copy_of(v);
  for (ir::Node* n : std::vector<ir::Node*>(graph->nodes))
    for (size_t k = 0; ir::has_bodies(*n) && k < n->inputs.size(); ++k)
      if (n->inputs[k] && needs(n->inputs[k])) graph->set_input(n, k, copy_of(n->inputs[k]));
  return graph->sort();
}

double weight_bytes_of(const ir::Graph& graph) {
  double bytes = 0;
  for (const ir::Value* v : graph.constants())
    bytes += static_cast<double>(v->constant->bytes().size()) *
             (std::any_of(v->users.begin(), v->users.end(), [](auto* u) { return stored_narrow(u->out()); }) ? 2 : 1);
  for (const ir::Node* n : graph.nodes)
    for (const auto& [key, body] : ir::bodies_of(*n)) bytes += weight_bytes_of(*body);
  return bytes;
}

namespace {
// A size that only a run tells, and one that changes from iteration to iteration: some are met on the way.
constexpr int64_t kUnknownSize = 8;

// The body's dimensions where those around it are bound so.
DimBinding inner_dims(const ir::Node& node, const ir::Graph& body, const DimBinding& around) {
  const size_t first = ops::control_of(node) == ops::Control::kBranch ? 1 : 0;
  DimBinding out;
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    const ir::Value* outside = node.in(k + first);
    const Shape& inside = *body.inputs[k]->type.shape;
    for (size_t a = 0; a < inside.size(); ++a) {
      if (!inside[a].is_symbol()) continue;
      const auto size = outside && outside->type.rank() == inside.size() ? (*outside->type.shape)[a].eval(around)
                                                                         : Result<int64_t>(kUnknownSize);
      const bool changes =
          !outside || !(outside->type.rank() == inside.size()) || inside[a].symbol_name().starts_with(kDataDim);
      const int64_t value = size.ok() ? *size : kUnknownSize;
      out.emplace(inside[a].symbol_name(), changes ? std::max(value, kUnknownSize) : value);
    }
  }
  return out;
}

// Of the host alone.
Backend host_of(const Backend& backend) {
  Backend out = backend;
  if (!backend.placement.device.empty()) std::erase(out.executors, std::string(backend.placement.executor));
  out.placement = {};
  out.narrow_values = false;
  return out;
}

std::string payload_of(const ir::Node& n) {
  if (ops::control_of(n) != ops::Control::kLoop) return "";
  const auto carried = static_cast<size_t>(n.i("carried"));
  std::vector<int64_t> axes = n.ints("axes"), reversed = n.ints("reversed");
  axes.resize(n.outputs.size() - carried);
  reversed.resize(axes.size());
  for (size_t s = 0; s < axes.size(); ++s)
    if (axes[s] < 0) axes[s] += static_cast<int64_t>(n.outputs[carried + s]->type.rank());
  return exec::loop_payload(carried, axes, reversed);
}
}  // namespace

Status lower_bodies(const ir::Node& node, const Backend& backend, tune::Tuner& tuner, const Options& options,
                    Whole* whole, plan::Step* step, StepReport* report) {
  step->executor = node.op;
  step->variants.push_back({"", "", {}, payload_of(node)});
  report->chosen = node.op;
  report->problem.clear();
  report->work = {};
  const Backend host = host_of(backend);
  tune::Tuner* chooser = &tuner;
  if (host.executors != backend.executors) {
    if (!whole->of_host) {
      tune::Options of_host = tuner.options();
      of_host.executors = host.executors;
      of_host.own_executor.clear();
      whole->of_host = std::make_unique<tune::Tuner>(std::move(of_host));
    }
    chooser = whole->of_host.get();
  }
  auto bodies = ir::bodies_of(node);
  if (ops::control_of(node) == ops::Control::kBranch) {
    std::reverse(bodies.begin(), bodies.end());  // then, else
    // A branch that a constant condition rules out may give other types: the one that is taken stands for both.
    if (const ir::Value* c = node.in(0); c && c->constant && c->constant->numel() == 1) {
      const size_t taken = c->constant->f64(0) != 0 ? 0 : 1;
      bodies[1 - taken] = bodies[taken];
    }
  }
  for (const auto& [key, body] : bodies) {
    Options inner;
    inner.tuned_for = inner_dims(node, *body, options.tuned_for);
    for (const DimBinding& also : options.also) inner.also.push_back(inner_dims(node, *body, also));
    inner.refused = options.refused;
    inner.progress = options.progress;
    PERI_ASSIGN(Lowered lowered, lower_part(*body, host, *chooser, inner, whole));
    lowered.program.name = node.name + "/" + key;
    step->bodies.push_back(std::make_shared<plan::Program>(std::move(lowered.program)));
    report->bodies.push_back(std::move(lowered.steps));
  }
  return Ok{};
}

}  // namespace peri::lower
