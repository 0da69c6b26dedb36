// Converts a model's calls to runs and answers: joined and split by its form, in order within a sequence. The states of
// sequences are kept in this process and therefore outlive the worker that runs the model.
#include <algorithm>

#include "base/clock.hpp"
#include "serve/queue/model_batch.hpp"
#include "serve/queue/rows.hpp"

namespace peri::serve {

// The servable's inputs for these calls.
Result<std::vector<Tensor>> Model::joined(const std::vector<CallPtr>& calls) const {
  const Call& first = *calls.front();
  const Form* form = first.probe ? nullptr : options_.form.get();
  if (calls.size() == 1 && !(form && form->ragged())) return first.inputs;
  std::vector<const std::vector<Tensor>*> parts;
  for (const CallPtr& c : calls) parts.push_back(&c->inputs);
  return form ? form->join(parts) : join_rows(parts);
}

// The part of the outputs for each call.
Result<std::vector<Form::Part>> Model::parted(const Batch& batch, std::vector<Tensor> outputs) const {
  const Call& first = *batch.calls.front();
  if (options_.form && !first.probe) {
    std::vector<const std::vector<Tensor>*> parts;
    std::vector<int64_t> rows;
    for (const CallPtr& c : batch.calls) {
      parts.push_back(&c->inputs);
      rows.push_back(c->rows);
    }
    return options_.form->take(outputs, parts, rows);
  }
  std::vector<Form::Part> out(batch.calls.size());
  if (batch.calls.size() == 1) {
    out[0].outputs = std::move(outputs);
    return out;
  }
  int64_t row = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    PERI_ASSIGN(out[k].outputs, take_rows(outputs, batch.rows, row, batch.calls[k]->rows));
    row += batch.calls[k]->rows;
  }
  return out;
}

// When a thread of this model must poll again. REQUIRES: the mutex is held, as for begin_turns().
std::optional<int64_t> Model::next_time(int64_t now) const {
  auto until = wake_at(now);
  if (const auto ask = next_ask(); ask && (!until || *ask < *until)) until = ask;
  if (!sequences_) return until;
  const auto turn = sequences_->wake_ns();
  return turn && (!until || *turn < *until) ? turn : until;
}

void Model::submit_step(const CallPtr& call) {
  const auto no = [&](Error e) { refuse(call, FailureReason::kRejected, std::move(e)); };
  const std::string model = "model '" + name_ + "'", of = call->step.id.shown();
  if (options_.form && options_.form->batches() && call->rows != 1)
    return no(invalid("inference request to %s must specify batch-size 1 due to requirements of sequence batcher",
                      model.c_str()));
  SequenceVerdict verdict = SequenceVerdict::kTaken;
  std::string why;
  Faults faults;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    call->id = next_id_++;
    if (stopping_) {
      lock.unlock();
      return refuse(call, FailureReason::kCanceled, not_served());
    }
    const int64_t deadline = call->timeout_ns > 0 ? call->arrived_ns + call->timeout_ns : 0;
    why = sequences_->ended_why(call->step.id);
    verdict = sequences_->submit(call->id, call->step, deadline, call->arrived_ns);
    if (verdict == SequenceVerdict::kTaken) waiting_.emplace(call->id, call);
    faults = begin_turns();
    wake_.notify_one();
  }
  for (const auto& [c, error] : faults) refuse(c, FailureReason::kRejected, error);
  switch (verdict) {
    case SequenceVerdict::kTaken: return;
    case SequenceVerdict::kFull: return no(refused("Exceeds maximum queue size"));
    case SequenceVerdict::kNoId:
      return no(invalid("inference request to %s must specify a non-zero or non-empty correlation ID", model.c_str()));
    case SequenceVerdict::kNoStart:
      return no(
          invalid("inference request for sequence %s to %s must specify the START flag on the first request of "
                  "the sequence%s",
                  of.c_str(), model.c_str(), why.empty() ? "" : (": " + why).c_str()));
  }
}

// Queues the calls whose turn in their sequence has come. Returns those to be refused, for which the mutex must be
// released.
Model::Faults Model::begin_turns() {
  Faults out;
  for (const uint64_t id : sequences_->take_turns()) {
    const auto at = waiting_.find(id);
    if (at == waiting_.end()) continue;  // the model is ending
    const CallPtr call = at->second;
    if (options_.form) {
      auto rows = options_.form->rows_of(std::move(call->inputs), &call->step, sequences_->state(id));
      if (!rows.ok()) {
        waiting_.erase(at);
        out.emplace_back(call, std::move(rows).error());
        continue;
      }
      call->inputs = std::move(*rows);
    }
    Waiting request = waiting_of(*call);
    request.expected_ns = std::max<int64_t>(request.expected_ns, 0);
    const int64_t now = now_ns();
    if (call->timeout_ns > 0) request.timeout_ns = std::max<int64_t>(call->arrived_ns + call->timeout_ns - now, 1);
    (void)scheduler_.submit(request, now);  // cannot fail: there is space for each slot, and the level was checked
  }
  return out;
}

// A loop instead of recursion: the end of a sequence may start others that fail at once, which end theirs.
void Model::answer_steps(const CallPtr& call, Answer answer) {
  std::deque<std::pair<CallPtr, Answer>> open;
  open.emplace_back(call, std::move(answer));
  while (!open.empty()) {
    auto [c, a] = std::move(open.front());
    open.pop_front();
    for (auto& refused : step_over(c, a)) open.push_back(std::move(refused));
    c->done(std::move(a));
  }
}

// Completes a call in its sequence, before its answer is delivered; returns the calls to be refused.
std::vector<std::pair<CallPtr, Answer>> Model::step_over(const CallPtr& call, const Answer& answer) {
  std::vector<CallPtr> in_vain;
  Faults faults;
  const std::string why = answer.error ? "its sequence ended with a request that failed: " + answer.error->message : "";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!answer.error) sequences_->done(call->id, std::move(call->next_states), now_ns());
    if (answer.error)
      for (const uint64_t id : sequences_->fail(call->id, why, now_ns()))
        if (const auto at = waiting_.find(id); at != waiting_.end()) {
          in_vain.push_back(std::move(at->second));
          waiting_.erase(at);
        }
    faults = begin_turns();
    wake_.notify_one();
  }
  std::vector<std::pair<CallPtr, Answer>> out;
  for (const CallPtr& c : in_vain)
    out.emplace_back(c, refusal(c, FailureReason::kCanceled, invalid("%s", why.c_str()), 0));
  for (const auto& [c, error] : faults) out.emplace_back(c, refusal(c, FailureReason::kRejected, error, 0));
  return out;
}

void Model::follow(const Model& before) {
  if (!options_.sequences || !before.options_.sequences) return;
  std::vector<SequenceId> open;
  {
    const std::lock_guard<std::mutex> lock(before.mutex_);
    open = before.sequences_->open();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  sequences_->lost(open, "the model was loaded anew, as version " + version_text() +
                             ", while the sequence was under way, which ended it");
}

std::optional<SequenceCounts> Model::sequences() const {
  if (!options_.sequences) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  return sequences_->counts();
}

}  // namespace peri::serve
