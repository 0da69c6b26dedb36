// A slot is taken under the mutex and released when its last answer has arrived; done() is called without a mutex.
#include "serve/queue/model_batch.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "serve/queue/rows.hpp"

namespace peri::serve {

constexpr int64_t kUnknownRunNs = 5'000'000'000;  // assumed duration of a run of sizes without measurements
constexpr int64_t kRetryNs = 1'000'000'000;       // hint for requests refused by a worker

// The model whose worker thread this is: it polls for more work after each run.
static thread_local const Model* t_working_for = nullptr;

static uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Model::Model(std::string name, int64_t version, std::shared_ptr<runtime::Servable> servable, ModelOptions options)
    : name_(std::move(name)),
      version_(version),
      version_text_(std::to_string(version)),
      servable_(std::move(servable)),
      options_(std::move(options)),
      forwards_(dynamic_cast<Forwarding*>(servable_.get())),
      later_(servable_->answers_later()),
      serial_(next_serial()),
      share_(options_.turns && !options_.share ? options_.turns->join() : options_.share),
      scheduler_(options_.queue) {
  if (options_.sequences) sequences_.emplace(*options_.sequences);
  // one more than slots, so that expired requests are refused while all slots are in use
  const int threads = later_ ? 1 : servable_->slots() + 1;
  for (int k = 0; k < threads; ++k) threads_.emplace_back([this] { work(); });
  const auto wake = [this] {
    { const std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  };
  servable_->on_room(wake);
  if (share_) share_->on_turn(wake);
}

Model::~Model() { end(); }

void Model::end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  servable_->on_room(nullptr);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
  if (share_) options_.turns->pass(*share_);
  std::unordered_map<uint64_t, CallPtr> left;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    left.swap(waiting_);
  }
  for (const auto& [id, call] : left) refuse(call, FailureReason::kCanceled, not_served());
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait(lock, [&] { return batches_ == 0; });
  lock.unlock();
  if (share_) options_.turns->leave(share_);
}

Waiting Model::waiting_of(const Call& call) const {
  Waiting out;
  const runtime::Cost cost = servable_->cost(call.inputs);
  out.id = call.id;
  out.rows = call.rows;
  out.bytes = cost.bytes;
  out.expected_ns = cost.expected_ns;
  out.priority = call.priority;
  out.timeout_ns = call.timeout_ns;
  out.tenant = call.tenant;
  out.probe = call.probe;
  const Form* form = options_.form.get();
  if (!options_.queue.sizes.empty()) out.key = form && !call.probe ? form->key(call.inputs) : shape_key(call.inputs);
  return out;
}

void Model::submit(const CallPtr& call) {
  call->rows = !call->inputs.empty() && call->inputs[0].rank() > 0 ? call->inputs[0].dims()[0] : 1;
  call->arrived_ns = now_ns();
  if (call->priority > options_.queue.priority_levels) call->priority = 0;  // not a level of this model
  set_limits(call.get());
  if (sequences_ && !call->probe) return submit_step(call);
  if (options_.preserve_order) {
    const std::lock_guard<std::mutex> lock(order_mutex_);
    order_.push_back({call, std::nullopt});
  }
  if (options_.form && !call->probe) {
    auto rows = options_.form->rows_of(std::move(call->inputs), nullptr, {});
    if (!rows.ok()) return refuse(call, FailureReason::kRejected, rows.error());
    call->inputs = std::move(*rows);
  }
  Waiting request = waiting_of(*call);
  const int64_t expected = request.expected_ns;
  request.expected_ns = std::max<int64_t>(expected, 0);
  if (answered_before(call)) return;
  Admission admission = Admission::kAccepted;
  Turns::Run turn;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    call->id = next_id_++;
    if (stopping_) {
      lock.unlock();
      return refuse(call, FailureReason::kCanceled, not_served());
    }
    const bool at_once = later_ || (expected >= 0 && expected <= options_.inline_ns);
    const bool here =
        at_once && scheduler_.passes_through() && busy_ < servable_->slots() && my_turn(call->arrived_ns, false);
    if (here) {
      turn = take_slot(call->arrived_ns, expected);
    } else {
      request.id = call->id;
      admission = scheduler_.submit(request, call->arrived_ns);
      if (admission == Admission::kAccepted) waiting_.emplace(call->id, call);
    }
    const bool watched = busy_ < servable_->slots() || scheduler_.expiry_ns();
    if (!here && admission == Admission::kAccepted && watched) wake_.notify_one();
    if (!here && admission == Admission::kAccepted) return;
  }
  if (admission == Admission::kAccepted)
    return run({call}, options_.queue.sizes.empty() ? CutReason::kAlone : CutReason::kDelay, turn);
  const int64_t wait = request.expected_ns * (pending() / std::max(1, servable_->slots()) + 1);
  refuse(call, FailureReason::kRejected, refused("Exceeds maximum queue size"), std::max<int64_t>(wait, 1));
}

// Refuses expired requests or runs a due batch; false: there is neither.
bool Model::step(std::unique_lock<std::mutex>& lock) {
  if (stopping_) return false;
  const int64_t now = now_ns();
  const std::vector<CallPtr> late = take_expired(now);
  const Faults faults = sequences_ ? begin_turns() : Faults();
  const std::vector<uint64_t> back = late_beginnings(now), ending = late_runs(now);
  if (!late.empty() || !faults.empty() || !back.empty() || !ending.empty()) {
    lock.unlock();
    for (const uint64_t ticket : back) servable_->withdraw(ticket);
    for (const uint64_t ticket : ending) servable_->cancel(ticket);
    for (const CallPtr& c : late) refuse(c, FailureReason::kTimeout, time_over());
    for (const auto& [c, error] : faults) refuse(c, FailureReason::kRejected, error);
    lock.lock();
    return true;
  }
  if (busy_ >= servable_->slots() || !my_turn(now, true)) return false;
  const std::optional<Cut> cut = scheduler_.poll(now);
  if (!cut) return no_turn_needed(lock);
  int64_t expected = 0;
  std::vector<CallPtr> calls;
  for (const Waiting& w : cut->requests) {
    expected += w.expected_ns;
    calls.push_back(std::move(waiting_.at(w.id)));
    waiting_.erase(w.id);
  }
  const Turns::Run turn = take_slot(now, expected);
  lock.unlock();
  run(std::move(calls), cut->reason, turn);
  lock.lock();
  return true;
}

void Model::expect_no_more() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    scheduler_.end_delay();
  }
  wake_.notify_all();
}

void Model::work() {
  t_working_for = this;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (step(lock)) continue;
    const int64_t now = now_ns();
    const std::optional<int64_t> until = next_time(now);
    sleeps_until_ns_ = until.value_or(INT64_MAX);
    if (until)
      wake_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(*until - now, 1000)));
    else
      wake_.wait(lock);
    sleeps_until_ns_ = 0;
  }
}

// Sends due batches on this thread, which has just delivered an answer.
void Model::pump() {
  const Model* const outer = std::exchange(t_working_for, this);
  bool more = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (step(lock)) {}
    more = scheduler_.waiting() > 0 && busy_ < servable_->slots();  // until a time that the model's thread waits for
  }
  t_working_for = outer;
  if (more) wake_.notify_one();
}

// REQUIRES: a slot was taken for this run.
void Model::run(std::vector<CallPtr> calls, CutReason reason, Turns::Run turn) {
  const Status done = contained([&]() -> Status {
    run_batch(calls, reason, turn);
    return Ok{};
  });
  if (done.ok()) return;
  leave_slot(turn);
  for (const CallPtr& c : calls) refuse(c, FailureReason::kBackend, done.error());
}

static Manner manner_of(const Call& call) {
  const int64_t deadline = call.timeout_ns > 0 ? call.arrived_ns + call.timeout_ns : 0;
  return {call.priority, deadline, call.tenant, call.step};
}

void Model::run_batch(std::vector<CallPtr> calls, CutReason reason, Turns::Run turn) {
  const auto batch = std::make_shared<Batch>(this, std::move(calls), reason, turn);
  batch->began_ns = batch->joined_ns = now_ns();
  for (const CallPtr& c : batch->calls) {
    c->began_ns = batch->began_ns;
    batch->rows += c->rows;
  }
  const uint64_t ticket = batch->calls.front()->id;
  const auto expect = [this](const std::vector<Tensor>& inputs) {
    const int64_t expected = servable_->cost(inputs).expected_ns;
    const std::lock_guard<std::mutex> lock(mutex_);
    longest_ns_ = std::max(longest_ns_, expected >= 0 ? expected : kUnknownRunNs);
  };
  const bool alone = batch->calls.size() == 1;
  if (begin_run(*batch)) return finish(*batch, client_left());
  auto inputs = joined(batch->calls);
  batch->joined_ns = alone ? batch->began_ns : now_ns();
  if (!inputs.ok()) return finish(*batch, std::move(inputs).error());
  expect(*inputs);
  if (forwards_ && alone)
    return forwards_->forward(ticket, std::move(*inputs), batch, manner_of(*batch->calls.front()));
  servable_->submit(ticket, std::move(*inputs), batch);
}

void Model::leave_slot(const Turns::Run& turn) {
  bool more = false, wants = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--busy_ == 0) longest_ns_ = 0;
    wants = scheduler_.waiting() > 0 && !stopping_;
    more = wants && t_working_for != this;
  }
  if (share_) options_.turns->end(*share_, turn, now_ns(), wants);
  if (more && later_)
    pump();
  else if (more)
    wake_.notify_one();
}

// What a failed run counts as: a request may be at fault for it, by its sizes or its values.
static FailureReason reason_of(const Error& of_run) {
  if (of_run.kind == ErrorKind::kCancelled) return FailureReason::kCanceled;
  const bool of_request = of_run.kind == ErrorKind::kUsage || of_run.kind == ErrorKind::kInvalid;
  return of_request ? FailureReason::kRejected : FailureReason::kBackend;
}

// A failed batch may have failed because of a single request: each request is run alone, so that the others get their
// answers.
void Model::finish(Batch& batch, Result<std::vector<Tensor>> outputs) {
  const int64_t ended = now_ns();
  count(batch, outputs.ok(), ended);
  // kRefused, as from a worker that ended, may be caused by one of the requests: none is repeated.
  const bool ended_early = end_run(batch) && !outputs.ok() && outputs.error().kind == ErrorKind::kCancelled;
  if (!outputs.ok() && batch.calls.size() > 1 && outputs.error().kind != ErrorKind::kRefused && !ended_early) {
    {
      const std::lock_guard<std::mutex> lock(statistics_mutex_);
      statistics_.rerun_alone += batch.calls.size();
    }
    if (outputs.error().kind == ErrorKind::kMemory) {
      const std::lock_guard<std::mutex> lock(mutex_);
      scheduler_.limit_rows(batch.rows / 2);
      good_batches_ = 0;
    }
    for (const CallPtr& c : batch.calls) {
      if (c->gone) {
        refuse(c, FailureReason::kCanceled, client_left());
        continue;
      }
      Turns::Run turn;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        turn = take_slot(now_ns(), 0);  // in addition to the slot of the batch, which is released below
      }
      run({c}, CutReason::kAlone, turn);
    }
    leave_slot(batch.turn);
    return;
  }
  const bool ran = outputs.ok();
  if (ran && batch.calls.size() > 1) grow_batches();
  leave_slot(batch.turn);
  Result<std::vector<Form::Part>> parts = std::vector<Form::Part>();
  if (ran)
    parts = parted(batch, std::move(*outputs));
  else
    parts = outputs.error();
  for (size_t k = 0; k < batch.calls.size(); ++k) {
    const CallPtr& c = batch.calls[k];
    Answer a;
    a.arrived_ns = c->arrived_ns;
    a.began_ns = c->began_ns;
    a.joined_ns = batch.joined_ns;
    a.ended_ns = ended;
    a.batch_rows = batch.rows;
    a.cut = batch.reason;
    if (parts.ok()) {
      a.outputs = std::move((*parts)[k].outputs);
      c->next_states = std::move((*parts)[k].states);
    } else {
      a.error = parts.error();
    }
    if (a.error && ended_early && !c->gone) {
      refuse(c, FailureReason::kCutRun, time_over());
      continue;
    }
    if (a.error) {
      const bool later = a.error->kind == ErrorKind::kRefused || a.error->kind == ErrorKind::kMemory;
      const int64_t again = later ? kRetryNs : 0;
      refuse(c, ran ? FailureReason::kBackend : reason_of(*a.error), *a.error, again);
      continue;
    }
    if (options_.cache && !c->probe) keep_answer(*c, a.outputs);
    answer(c, std::move(a));
  }
}

void Model::refuse(const CallPtr& call, FailureReason reason, Error error, int64_t retry_after_ns) {
  answer(call, refusal(call, reason, std::move(error), retry_after_ns));
}

// The answer of a refused call; counts it.
Answer Model::refusal(const CallPtr& call, FailureReason reason, Error error, int64_t retry_after_ns) {
  Answer a;
  a.error = std::move(error);
  a.failure = reason;
  a.retry_after_ns = retry_after_ns;
  a.arrived_ns = call->arrived_ns;
  a.ended_ns = now_ns();
  a.began_ns = call->began_ns > 0 ? call->began_ns : a.ended_ns;
  if (!call->probe) {
    const std::lock_guard<std::mutex> lock(statistics_mutex_);
    statistics_.fail.add(a.ended_ns - a.arrived_ns);
    ++statistics_.failures[static_cast<size_t>(reason)];
  }
  return a;
}

void Model::answer(const CallPtr& call, Answer answer) {
  if (sequences_ && !call->probe) return answer_steps(call, std::move(answer));
  if (!options_.preserve_order) return call->done(std::move(answer));
  std::unique_lock<std::mutex> lock(order_mutex_);
  const auto its = std::ranges::find(order_, call, &Ordered::call);
  if (its != order_.end()) its->answer = std::move(answer);
  if (releasing_) return;
  releasing_ = true;
  while (!order_.empty() && order_.front().answer) {
    Ordered next = std::move(order_.front());
    order_.pop_front();
    lock.unlock();
    next.call->done(std::move(*next.answer));
    lock.lock();
  }
  releasing_ = false;
}

}  // namespace peri::serve
