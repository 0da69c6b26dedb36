// A map by name holds the tensors of a request; the thread that adds the last input of a step starts the step.
#include "serve/ensemble/ensemble.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "serve/kserve/datatype.hpp"

namespace peri::serve {

namespace {

constexpr int kSlots = 1024;

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

// Whether a tensor of shape `a` may have shape `b`: constant dims must be equal.
bool may_be(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].is_const() && b[k].is_const() && a[k].value() != b[k].value()) return false;
  return true;
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

// Repeatedly accepts the steps whose inputs are all produced; any remaining step is part of a cycle or lacks a
// producer.
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
    const ServedPtr served = find(step.model, step.version);
    if (!served)
      return refused("step '%s': there is no such model%s", step.model.c_str(),
                     step.version.empty() ? "" : (", version " + step.version).c_str());
    PERI_TRY(check_step(step, *served->model, edges));
  }
  return Ok{};
}

class Ensemble final : public Forwarding, public std::enable_shared_from_this<Ensemble> {
 public:
  Ensemble(const ModelConfig& config, FindModel find, std::vector<plan::Port> inputs, std::vector<plan::Port> outputs)
      : steps_(config.steps),
        most_(config.most_in_flight),
        find_(std::move(find)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        doors_(steps_.size()) {}
  std::span<const plan::Port> inputs() const override { return inputs_; }
  std::span<const plan::Port> outputs() const override { return outputs_; }
  int slots() const override { return kSlots; }
  bool answers_later() const override { return true; }
  runtime::Cost cost(std::span<const Tensor> tensors) const override {
    runtime::Cost out;
    for (const Tensor& t : tensors) out.bytes += static_cast<int64_t>(t.bytes().size());
    return out;
  }
  uint64_t progress() const override {
    uint64_t out = progress_.load(std::memory_order_relaxed);
    for (const EnsembleStep& s : steps_)
      if (const ServedPtr m = find_(s.model, s.version)) out += m->model->servable().progress();
    return out;
  }
  std::string trouble() const override {
    for (const EnsembleStep& s : steps_) {
      const ServedPtr m = find_(s.model, s.version);
      if (!m) return "its model '" + s.model + "' is not there";
      if (const std::string why = m->model->trouble(); !why.empty()) return "its model '" + s.model + "': " + why;
    }
    return {};
  }
  void forward(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink,
               const Manner& manner) override;
  bool cancel(uint64_t ticket) override;

 private:
  struct Run;
  void send(const std::shared_ptr<Run>& run, std::vector<size_t> steps);
  bool enter(const std::shared_ptr<Run>& run, size_t step);
  void leave(size_t step);
  void send_one(const std::shared_ptr<Run>& run, size_t step);
  void came(const std::shared_ptr<Run>& run, size_t step, const Served& served, Answer answer);
  void ended(const std::shared_ptr<Run>& run, Result<std::vector<Tensor>> outputs);

  // Admission to one step: the number of requests in it, and the queue of those waiting.
  struct Door {
    int64_t inside = 0;
    bool opening = false;  // a thread is admitting waiting requests
    std::deque<std::shared_ptr<Run>> waiting;
  };
  const std::vector<EnsembleStep> steps_;
  const int64_t most_;  // requests per step; 0: unlimited
  const FindModel find_;
  const std::vector<plan::Port> inputs_, outputs_;
  std::atomic<uint64_t> progress_{0};
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Run>> runs_;
  std::vector<Door> doors_;
};

// One request in progress.
struct Ensemble::Run {
  uint64_t ticket = 0;
  Manner manner;
  std::shared_ptr<runtime::Sink> sink;
  std::mutex mutex;
  std::map<std::string, Tensor> tensors;
  std::set<size_t> sent;
  std::map<size_t, std::pair<ServedPtr, CallPtr>> open;  // calls in progress
  size_t done = 0;
  bool over = false;

  // Steps that are ready to be sent; they are marked as sent. REQUIRES: the mutex is held.
  std::vector<size_t> due(const std::vector<EnsembleStep>& steps) {
    std::vector<size_t> out;
    for (size_t k = 0; k < steps.size(); ++k) {
      const bool there = std::all_of(steps[k].inputs.begin(), steps[k].inputs.end(),
                                     [&](const auto& i) { return tensors.count(i.second) > 0; });
      if (there && sent.insert(k).second) out.push_back(k);
    }
    return out;
  }
};

void Ensemble::forward(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink,
                       const Manner& manner) {
  const auto run = std::make_shared<Run>();
  run->ticket = ticket;
  run->manner = manner;
  run->sink = std::move(sink);
  for (size_t k = 0; k < inputs_.size(); ++k) run->tensors[inputs_[k].name] = std::move(tensors[k]);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_[ticket] = run;
  }
  std::vector<size_t> first;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    first = run->due(steps_);
  }
  send(run, std::move(first));
}

void Ensemble::send(const std::shared_ptr<Run>& run, std::vector<size_t> steps) {
  for (const size_t k : steps)
    if (enter(run, k)) send_one(run, k);
}

// Whether a request may enter a step now; otherwise it is queued there.
bool Ensemble::enter(const std::shared_ptr<Run>& run, size_t k) {
  if (most_ == 0) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (doors_[k].inside == most_) {
    doors_[k].waiting.push_back(run);
    return false;
  }
  ++doors_[k].inside;
  return true;
}

// A request has left a step, and the next one enters. Answers that arrive before send_one() returns are handled by the
// loop, which avoids deep recursion.
void Ensemble::leave(size_t k) {
  if (most_ == 0) return;
  std::unique_lock<std::mutex> lock(mutex_);
  Door& door = doors_[k];
  --door.inside;
  if (std::exchange(door.opening, true)) return;
  while (!door.waiting.empty() && door.inside < most_) {
    const std::shared_ptr<Run> next = std::move(door.waiting.front());
    door.waiting.pop_front();
    ++door.inside;
    lock.unlock();
    send_one(next, k);
    lock.lock();
  }
  door.opening = false;
}

// Passes on those of the request's properties that the model supports.
static void tell(const Manner& manner, const Model& model, Call* call) {
  if (manner.priority <= model.options().queue.priority_levels) call->priority = manner.priority;
  if (manner.deadline_ns > 0) call->timeout_ns = std::max<int64_t>(manner.deadline_ns - now_ns(), 1);
  call->tenant = manner.tenant;
  if (model.options().sequences) call->step = manner.step;
}

void Ensemble::send_one(const std::shared_ptr<Run>& run, size_t k) {
  const EnsembleStep& step = steps_[k];
  const ServedPtr served = find_(step.model, step.version);
  if (!served) {
    ended(run, refused("the ensemble's model '%s' is not there now", step.model.c_str()));
    return leave(k);
  }
  const auto call = std::make_shared<Call>();
  bool over = false;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    over = run->over;
    for (const plan::Port& p : served->model->inputs()) {
      const auto name = step.inputs.find(p.name);
      const Tensor t = name == step.inputs.end() ? Tensor() : run->tensors.at(name->second);
      Shape shape;
      for (const int64_t d : t.dims()) shape.push_back(Dim(d));
      if (t.dtype() != p.dtype || !may_be(shape, p.shape)) {
        call->inputs.clear();
        break;
      }
      call->inputs.push_back(t);
    }
    if (!call->inputs.empty() && !over) run->open[k] = {served, call};
  }
  if (call->inputs.empty())
    ended(run, invalid("a tensor does not fit the model '%s' of the ensemble", step.model.c_str()));
  if (call->inputs.empty() || over) return leave(k);
  tell(run->manner, *served->model, call.get());
  call->done = [self = shared_from_this(), run, k, model = served.get()](Answer a) {
    self->came(run, k, *model, std::move(a));
  };
  served->model->submit(call);
}

void Ensemble::came(const std::shared_ptr<Run>& run, size_t k, const Served& served, Answer answer) {
  progress_.fetch_add(1, std::memory_order_relaxed);
  leave(k);
  std::pair<ServedPtr, CallPtr> over;  // released after the locks; the call owns the run
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    over = std::move(run->open[k]);
    run->open.erase(k);
  }
  if (answer.error) {
    Error e = *answer.error;
    e.message = "model '" + steps_[k].model + "' of the ensemble: " + e.message;
    return ended(run, std::move(e));
  }
  std::vector<size_t> next;
  std::vector<Tensor> outputs;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    const auto ports = served.model->outputs();
    for (const auto& [port, tensor] : steps_[k].outputs)
      for (size_t p = 0; p < ports.size() && p < answer.outputs.size(); ++p)
        if (ports[p].name == port) run->tensors[tensor] = answer.outputs[p];
    ++run->done;
    if (run->over) return;
    next = run->due(steps_);
    if (run->done == steps_.size())
      for (const plan::Port& p : outputs_)
        if (const auto t = run->tensors.find(p.name); t != run->tensors.end()) outputs.push_back(t->second);
  }
  if (!outputs.empty() && outputs.size() == outputs_.size()) return ended(run, std::move(outputs));
  send(run, std::move(next));
}

// Only the first end counts; calls still in progress are cancelled.
void Ensemble::ended(const std::shared_ptr<Run>& run, Result<std::vector<Tensor>> outputs) {
  std::map<size_t, std::pair<ServedPtr, CallPtr>> open;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    if (std::exchange(run->over, true)) return;
    open = run->open;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_.erase(run->ticket);
  }
  if (!outputs.ok())
    for (const auto& [k, call] : open) call.first->model->cancel(call.second);
  run->sink->answer(std::move(outputs), true);
}

bool Ensemble::cancel(uint64_t ticket) {
  std::shared_ptr<Run> run;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = runs_.find(ticket);
    if (it != runs_.end()) run = it->second.lock();
  }
  if (run) ended(run, Error(ErrorKind::kCancelled, "the client cancelled the request"));
  return run != nullptr;
}
}  // namespace

Result<std::shared_ptr<runtime::Servable>> make_ensemble(const ModelConfig& config, FindModel find) {
  const bool batch = config.max_batch_size > 0;
  std::vector<plan::Port> inputs, outputs;
  Edges edges;
  if (config.inputs.empty() || config.outputs.empty())
    return invalid("the configuration of an ensemble names its inputs and outputs");
  for (const PortConfig& c : config.inputs) {
    PERI_ASSIGN(plan::Port p, port_of(c, batch));
    if (!edges.emplace(p.name, Edge{p.dtype, p.shape, "the ensemble's input '" + p.name + "'"}).second)
      return invalid("the input '%s' stands twice", p.name.c_str());
    inputs.push_back(std::move(p));
  }
  PERI_TRY(check_steps(config, find, &edges));
  for (const PortConfig& c : config.outputs) {
    PERI_ASSIGN(plan::Port p, port_of(c, batch));
    const auto made = edges.find(p.name);
    if (made == edges.end()) return invalid("the output '%s' is made by no step", p.name.c_str());
    PERI_TRY(check_edge(made->second, p, "the ensemble's output '" + p.name + "'"));
    outputs.push_back(std::move(p));
  }
  return std::shared_ptr<runtime::Servable>(
      std::make_shared<Ensemble>(config, std::move(find), std::move(inputs), std::move(outputs)));
}

void queue_ensemble(const ModelConfig& config, const FindModel& find, ModelOptions* options) {
  QueuePolicy& queue = options->queue;
  for (const EnsembleStep& s : config.steps) {
    const ServedPtr served = find(s.model, s.version);
    if (!served) continue;
    const ModelOptions& of = served->model->options();
    if (of.queue.priority_levels > queue.priority_levels) {
      queue.priority_levels = of.queue.priority_levels;
      queue.default_priority = of.queue.default_priority;
    }
    if (!of.sequences) continue;
    if (!options->sequences) options->sequences = of.sequences;
    options->sequences->slots = std::min(options->sequences->slots, of.sequences->slots);
    options->sequences->idle_ns = std::min(options->sequences->idle_ns, of.sequences->idle_ns);
  }
  if (!options->sequences) return;
  queue.level.timeout_override = true;
  queue.most_waiting = options->sequences->slots;
}

}  // namespace peri::serve
