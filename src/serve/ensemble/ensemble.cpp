// A map by name holds the tensors of a request; the thread that adds the last input of a step starts the step.
#include "serve/ensemble/ensemble.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/hash.hpp"
#include "serve/ensemble/fit.hpp"

namespace peri::serve {

namespace {

constexpr int kSlots = 1024;

class Ensemble final : public Forwarding, public std::enable_shared_from_this<Ensemble> {
 public:
  Ensemble(const ModelConfig& config, FindModel find, EnsemblePorts ports)
      : config_(config),
        steps_(config_.steps),
        most_(config_.most_in_flight),
        find_(std::move(find)),
        inputs_(std::move(ports.inputs)),
        outputs_(std::move(ports.outputs)),
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
      if (const ServedPtr m = find_(s.model, s.version, nullptr)) out += m->model->servable().progress();
    return out;
  }
  uint64_t passes_to() const override {
    Hasher out;
    for (const EnsembleStep& s : steps_) {
      const ServedPtr m = find_(s.model, s.version, nullptr);
      out.add_i64(m ? static_cast<int64_t>(m->model->answered_by()) : 0);
    }
    return out.digest();
  }
  std::string trouble() const override {
    for (const EnsembleStep& s : steps_) {
      std::string why;
      const ServedPtr m = find_(s.model, s.version, &why);
      if (m) why = m->model->trouble();
      if (!why.empty()) return "its model '" + s.model + "': " + why;
    }
    const auto fits = fit(config_, find_);
    return fits.ok() ? "" : "its models no longer fit: " + fits.error().text();
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
  Error misfit(Error of_client) const;
  void came(const std::shared_ptr<Run>& run, size_t step, const Served& served, Answer answer);
  void ended(const std::shared_ptr<Run>& run, Result<std::vector<Tensor>> outputs);

  // Admission to one step: the number of requests in it, and the queue of those waiting.
  struct Door {
    int64_t inside = 0;
    bool opening = false;  // a thread is admitting waiting requests
    std::deque<std::shared_ptr<Run>> waiting;
  };
  const ModelConfig config_;
  const std::vector<EnsembleStep>& steps_;
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

// The error of a request whose tensors do not fit the model of a step: the server's if that model was replaced by one
// of other ports, else the client's.
Error Ensemble::misfit(Error of_client) const {
  if (const auto fits = fit(config_, find_); !fits.ok()) {
    Error e = refused("the ensemble's models no longer fit: %s", fits.error().message.c_str());
    e.expected = fits.error().expected;
    e.found = fits.error().found;
    return e;
  }
  return of_client;
}

void Ensemble::send_one(const std::shared_ptr<Run>& run, size_t k) {
  const EnsembleStep& step = steps_[k];
  std::string why;
  const ServedPtr served = find_(step.model, step.version, &why);
  if (!served) {
    ended(run, refused("the ensemble's model '%s': %s", step.model.c_str(), why.c_str()));
    return leave(k);
  }
  const auto call = std::make_shared<Call>();
  bool over = false;
  std::optional<Error> wrong;
  const int64_t most = served->config.max_batch_size;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    over = run->over;
    for (const plan::Port& p : served->model->inputs()) {
      const auto name = step.inputs.find(p.name);
      const Tensor t = name == step.inputs.end() ? Tensor() : run->tensors.at(name->second);
      Shape shape;
      for (const int64_t d : t.dims()) shape.push_back(Dim(d));
      if (!wrong && (t.dtype() != p.dtype || !may_be(shape, p.shape)))
        wrong = invalid("the tensor '%s' does not fit the input '%s' of the ensemble's model '%s'",
                        name == step.inputs.end() ? "" : name->second.c_str(), p.name.c_str(), step.model.c_str())
                    .expecting(std::string(dtype_name(p.dtype)) + shape_text(p.shape))
                    .but_found(tensor_type_text(t));
      if (!wrong && most > 0 && t.rank() > 0 && t.dims()[0] > most)
        wrong = invalid("the tensor '%s' has %lld rows, and the ensemble's model '%s' takes at most %lld",
                        name->second.c_str(), static_cast<long long>(t.dims()[0]), step.model.c_str(),
                        static_cast<long long>(most));
      call->inputs.push_back(t);
    }
    if (!wrong && !over) run->open[k] = {served, call};
  }
  if (wrong) ended(run, misfit(*wrong));
  if (wrong || over) return leave(k);
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
  bool fits = true;
  {
    const std::lock_guard<std::mutex> lock(run->mutex);
    const auto ports = served.model->outputs();
    for (const auto& [port, tensor] : steps_[k].outputs) {
      const auto at = std::ranges::find(ports, port, &plan::Port::name);
      const auto p = static_cast<size_t>(at - ports.begin());
      fits = fits && p < answer.outputs.size();
      if (p < answer.outputs.size()) run->tensors[tensor] = answer.outputs[p];
    }
    ++run->done;
    if (run->over) return;
    next = run->due(steps_);
    if (run->done == steps_.size())
      for (const plan::Port& p : outputs_)
        if (const auto t = run->tensors.find(p.name); t != run->tensors.end()) outputs.push_back(t->second);
  }
  if (!fits)
    return ended(run, misfit(invalid("the ensemble's model '%s' gives other outputs", steps_[k].model.c_str())));
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
  PERI_ASSIGN(EnsemblePorts ports, fit(config, find));
  return std::shared_ptr<runtime::Servable>(std::make_shared<Ensemble>(config, std::move(find), std::move(ports)));
}

// Whether one of the steps, or of theirs, is the model of this name. `seen`: those that were looked into.
static bool leads_to(const std::string& name, const EnsembleStep& step, const StepsOf& steps_of,
                     std::set<std::pair<std::string, std::string>>* seen) {
  if (step.model == name) return true;
  if (!seen->emplace(step.model, step.version).second) return false;
  const std::vector<EnsembleStep> steps = steps_of(step);
  return std::any_of(steps.begin(), steps.end(),
                     [&](const EnsembleStep& s) { return leads_to(name, s, steps_of, seen); });
}

Status check_no_circle(const std::string& name, const ModelConfig& config, const StepsOf& steps_of) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const EnsembleStep& s : config.steps)
    if (leads_to(name, s, steps_of, &seen))
      return refused("step '%s' leads back to the ensemble itself: its models go in a circle", s.model.c_str());
  return Ok{};
}

void queue_ensemble(const ModelConfig& config, const FindModel& find, ModelOptions* options) {
  QueuePolicy& queue = options->queue;
  for (const EnsembleStep& s : config.steps) {
    const ServedPtr served = find(s.model, s.version, nullptr);
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
