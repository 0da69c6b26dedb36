// Loads are sequential, since the results of the first shorten the others. Runs in progress are counted here, so that
// choosing a worker needs no call except for its number of slots.
#include "serve/worker/workers.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace peri::serve {
namespace {

class Spread final : public runtime::Servable {
 public:
  explicit Spread(std::vector<std::shared_ptr<runtime::Servable>> over)
      : over_(std::move(over)), under_way_(over_.size()) {}
  ~Spread() override { Spread::on_room(nullptr); }

  std::span<const plan::Port> inputs() const override { return over_[0]->inputs(); }
  std::span<const plan::Port> outputs() const override { return over_[0]->outputs(); }
  int slots() const override {
    int sum = 0, broken = 0;
    for (const auto& s : over_) (s->trouble().empty() ? sum : broken) += s->slots();
    return sum > 0 ? sum : broken;
  }
  void on_room(std::function<void()> called) override {
    for (const auto& s : over_) s->on_room(called);
  }
  bool answers_later() const override { return true; }
  // Healthy while one works; the workers report which is not.
  std::string trouble() const override {
    std::string first;
    for (const auto& s : over_) {
      const std::string why = s->trouble();
      if (why.empty()) return why;
      if (first.empty()) first = why;
    }
    return first;
  }
  void submit(uint64_t ticket, std::vector<Tensor> tensors, std::shared_ptr<runtime::Sink> sink) override {
    size_t to = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      to = choose();
      ++under_way_[to];
      tickets_[ticket] = to;
    }
    over_[to]->submit(ticket, std::move(tensors), std::make_shared<Counted>(*this, ticket, to, std::move(sink)));
  }
  bool cancel(uint64_t ticket) override {
    const std::optional<size_t> at = worker_of(ticket);
    return at && over_[*at]->cancel(ticket);
  }
  bool withdraw(uint64_t ticket) override {
    const std::optional<size_t> at = worker_of(ticket);
    return at && over_[*at]->withdraw(ticket);
  }
  // The first known cost of these sizes.
  runtime::Cost cost(std::span<const Tensor> tensors) const override {
    runtime::Cost out;
    for (const auto& s : over_)
      if ((out = s->cost(tensors)).expected_ns >= 0) break;
    return out;
  }
  uint64_t progress() const override {
    uint64_t sum = 0;
    for (const auto& s : over_) sum += s->progress();
    return sum;
  }

 private:
  class Counted final : public runtime::Sink {
   public:
    Counted(Spread& of, uint64_t ticket, size_t to, std::shared_ptr<runtime::Sink> sink)
        : of_(of), ticket_(ticket), to_(to), sink_(std::move(sink)) {}
    void answer(Result<std::vector<Tensor>> outputs, bool last) override {
      if (last) left();
      sink_->answer(std::move(outputs), last);
    }
    size_t clients() const override { return sink_->clients(); }
    void withdrawn() override {
      left();
      sink_->withdrawn();
    }

   private:
    void left() {
      const std::lock_guard<std::mutex> lock(of_.mutex_);
      --of_.under_way_[to_];
      of_.tickets_.erase(ticket_);
    }

    Spread& of_;  // outlives this answer, since the model waits for it
    const uint64_t ticket_;
    const size_t to_;
    const std::shared_ptr<runtime::Sink> sink_;
  };

  std::optional<size_t> worker_of(uint64_t ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = tickets_.find(ticket);
    return it == tickets_.end() ? std::nullopt : std::optional(it->second);
  }

  // The worker with the fewest runs per slot, round-robin among equal ones. Unhealthy workers are chosen only if all
  // are.
  size_t choose() {
    size_t best = 0;
    double least = 0;
    bool found = false;
    for (const bool ill : {false, true}) {
      for (size_t n = 0; n < over_.size(); ++n) {
        const size_t k = (last_ + 1 + n) % over_.size();
        if (over_[k]->trouble().empty() == ill) continue;
        const double load = static_cast<double>(under_way_[k]) / std::max(over_[k]->slots(), 1);
        if (found && load >= least) continue;
        best = k;
        least = load;
        found = true;
      }
      if (found) break;
    }
    return last_ = best;
  }

  const std::vector<std::shared_ptr<runtime::Servable>> over_;
  std::mutex mutex_;
  std::vector<int64_t> under_way_;
  std::unordered_map<uint64_t, size_t> tickets_;
  size_t last_ = 0;
};

// The guests of several workers as one.
class Guests final : public LoopGuest {
 public:
  explicit Guests(std::vector<std::unique_ptr<LoopGuest>> all) : all_(std::move(all)) {}
  void awake(bool on) override {
    for (const auto& g : all_) g->awake(on);
  }
  size_t take() override {
    size_t sum = 0;
    for (const auto& g : all_) sum += g->take();
    return sum;
  }
  bool soon() const override {
    return std::any_of(all_.begin(), all_.end(), [](const auto& g) { return g->soon(); });
  }

 private:
  const std::vector<std::unique_ptr<LoopGuest>> all_;
};

Status same_answers(const Loaded& first, const Loaded& other, const std::string& name) {
  for (size_t k = 0; k < first.canary.outputs.size() && k < other.canary.outputs.size(); ++k)
    if (!first.canary.outputs[k].same_content(other.canary.outputs[k]))
      return refused("%s answers otherwise than the first worker: output %zu of the canary differs", name.c_str(), k)
          .advise("serve devices of one kind by one server");
  return Ok{};
}
}  // namespace

Status check_gpus(const ModelConfig& config, const std::vector<int64_t>& devices) {
  std::string there, wanted;
  for (const int64_t d : devices) {
    there += there.empty() ? "" : ", ";
    there += d < 0 ? "the CPU" : format("GPU %lld", static_cast<long long>(d));
  }
  for (const int64_t gpu : config.gpus())
    wanted += format(wanted.empty() ? "cuda:%lld" : ",cuda:%lld", static_cast<long long>(gpu));
  for (const int64_t gpu : config.gpus())
    if (std::find(devices.begin(), devices.end(), gpu) == devices.end())
      return invalid("instance_group names GPU %lld", static_cast<long long>(gpu))
          .expecting("where this server runs its models: " + there)
          .advise("start it with --worker-devices " + wanted + ", or take 'gpus' out");
  return Ok{};
}

std::shared_ptr<runtime::Servable> spread(std::vector<std::shared_ptr<runtime::Servable>> over) {
  return std::make_shared<Spread>(std::move(over));
}

Result<std::unique_ptr<Workers>> Workers::start(std::vector<WorkerOptions> options) {
  auto out = std::make_unique<Workers>();
  for (WorkerOptions& o : options) {
    PERI_ASSIGN(auto made, Worker::start(std::move(o)));
    out->all_.push_back(std::move(made));
  }
  return out;
}

Result<Loaded> Workers::load(const LoadOrder& order, const std::function<void(const std::string&)>& say) {
  std::vector<int64_t> devices;
  for (const auto& w : all_) devices.push_back(w->gpu());
  PERI_TRY(check_gpus(order.config, devices));
  LoadOrder here = order;
  Loaded out;
  std::vector<std::shared_ptr<runtime::Servable>> over;
  for (const auto& w : all_) {
    if (w->gpu() >= 0 && !order.config.groups.empty()) here.instances = order.config.instances_on(w->gpu());
    if (here.instances == 0) continue;
    const auto tell = [&](const std::string& progress) { say(over.empty() ? progress : w->name() + ": " + progress); };
    PERI_ASSIGN(Loaded made, w->load(here, tell));
    over.push_back(made.servable);
    if (over.size() == 1) {
      out = std::move(made);
      here.known_sizes = out.batch_sizes;
      continue;
    }
    PERI_TRY(same_answers(out, made, w->name()));
    out.memory_bytes += made.memory_bytes;
  }
  if (over.size() > 1) out.servable = spread(std::move(over));
  return out;
}

std::vector<std::pair<std::string, WorkerCounts>> Workers::counts() const {
  std::vector<std::pair<std::string, WorkerCounts>> out;
  for (const auto& w : all_) out.emplace_back(w->name(), w->counts());
  return out;
}

void Workers::stop() {
  for (const auto& w : all_) w->stop();
}

std::unique_ptr<LoopGuest> Workers::guest() {
  if (all_.size() == 1) return all_[0]->guest();
  std::vector<std::unique_ptr<LoopGuest>> each;
  for (const auto& w : all_) each.push_back(w->guest());
  return std::make_unique<Guests>(std::move(each));
}

}  // namespace peri::serve
