// Model: one loaded version of a model that answers calls. It queues them by its policy, runs batches on a thread for
// each slot of its Servable, or on the caller's where that is cheaper than waking another, and keeps statistics.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/servable.hpp"
#include "serve/queue/form.hpp"
#include "serve/queue/forwarding.hpp"
#include "serve/queue/response_cache.hpp"
#include "serve/queue/scheduler.hpp"
#include "serve/queue/statistics.hpp"
#include "serve/queue/turns.hpp"

namespace peri::serve {

// The result of a call: outputs by port, or an error.
struct Answer {
  std::vector<Tensor> outputs;
  std::optional<Error> error;
  FailureReason failure = FailureReason::kBackend;  // if there is an error
  int64_t retry_after_ns = 0;                       // kRejected: when the queue should have space again
  int64_t arrived_ns = 0, began_ns = 0, joined_ns = 0, ended_ns = 0;
  int64_t batch_rows = 0;
  CutReason cut = CutReason::kAlone;
  bool cached = false;  // given before: nothing ran
};

struct Call {
  std::vector<Tensor> inputs;  // by Model::inputs(), each of its port's type, rank and constant dims
  int priority = 0;            // 0: the model's default
  int64_t timeout_ns = 0;      // 0: the model's
  // Called once, from any thread, also the submitting one before submit() returns; must not wait for the model.
  std::function<void(Answer)> done;
  uint32_t tenant = 0;  // tenants share a queue fairly
  // A call of the server itself: runs alone, is not counted, and uses the servable's ports.
  bool probe = false;
  SequenceStep step;  // for a model with sequences

  std::atomic<bool> gone{false};  // set by Model::cancel()
  uint64_t id = 0;                // set by Model::submit(), as all below
  int64_t rows = 1, arrived_ns = 0, began_ns = 0;
  int64_t limit_ns = 0;             // when its run is to end; 0: never
  int64_t begin_by_ns = 0;          // when it is refused if it has not begun; 0: never
  uint64_t answered_by = 0;         // Model::answered_by() as it came, where the model has a cache
  std::vector<Tensor> next_states;  // the states for the sequence's next call
};
using CallPtr = std::shared_ptr<Call>;

struct ModelOptions {
  QueuePolicy queue;
  bool preserve_order = false;
  std::shared_ptr<ResponseCache> cache;  // of responses; null: none
  std::shared_ptr<Turns> turns;          // shared with the other models of the device; null: it runs at any time
  std::shared_ptr<Turns::Share> share;   // its own share of `turns`; null: one without resources
  std::shared_ptr<const Form> form;      // null: clients see the servable's ports
  std::optional<SequencePolicy> sequences;
  // A call that is expected to take at most this long runs on the thread that submits it, if a slot is free and no call
  // or batch is waiting. Waking a thread takes about 5 us and its caches.
  int64_t inline_ns = 40000;
};

// Thread-safe. REQUIRES: destroyed on a thread that is not its own, or after end().
class Model {
 public:
  Model(std::string name, int64_t version, std::shared_ptr<runtime::Servable> servable, ModelOptions options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  // Refuses all calls from here on, waiting ones included; running ones are answered before it returns, and its threads
  // have ended. REQUIRES: called on a thread that is not its own; so is the destructor.
  void end();

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }
  const std::string& version_text() const { return version_text_; }
  runtime::Servable& servable() const { return *servable_; }
  // As seen by clients.
  std::span<const plan::Port> inputs() const { return options_.form ? options_.form->inputs() : servable_->inputs(); }
  std::span<const plan::Port> outputs() const {
    return options_.form ? options_.form->outputs() : servable_->outputs();
  }
  const ModelOptions& options() const { return options_; }

  void submit(const CallPtr& call);
  // Drops a call that has not begun, which is answered with kCanceled. One that waits where the servable runs it is
  // taken back when its time is over, and answered with kTimeout, as one that waits here. A run is asked to end once
  // each of its calls is cancelled or over its own time limit; that of one over it is answered with kCutRun.
  void cancel(const CallPtr& call);

  ModelStatistics statistics() const;
  std::optional<SequenceCounts> sequences() const;  // none: it has no sequences
  // Called once this model replaces `before`: requests that continue a sequence of that one get an error about it.
  void follow(const Model& before);
  // Who answers: another number for each model, and once what it passes requests to was replaced.
  uint64_t answered_by() const;
  int64_t pending() const;  // calls that wait
  int64_t open() const;     // and those that run
  // Whether work is in progress and none was completed for this long, and for longer than the runs should take
  // together. Must be called often, since each result depends on the previous call.
  bool stuck(int64_t now, int64_t for_ns) const;
  // The requests that wait are the last ones: none waits for others to join its batch any more.
  void expect_no_more();
  // For lack of memory: halves the largest batch size. It grows back with successful batches.
  void make_batches_smaller();
  // Why it should not be used now; empty: no fault.
  void set_trouble(std::string why);
  std::string trouble() const;

 private:
  struct Batch;
  void work();
  void pump();
  bool step(std::unique_lock<std::mutex>& lock);
  void run(std::vector<CallPtr> calls, CutReason reason, Turns::Run turn);
  void run_batch(std::vector<CallPtr> calls, CutReason reason, Turns::Run turn);
  void finish(Batch& batch, Result<std::vector<Tensor>> outputs);
  void count(const Batch& batch, bool ok, int64_t ended_ns);
  void answer(const CallPtr& call, Answer answer);
  void refuse(const CallPtr& call, FailureReason reason, Error error, int64_t retry_after_ns = 0);
  Answer refusal(const CallPtr& call, FailureReason reason, Error error, int64_t retry_after_ns);
  void leave_slot(const Turns::Run& turn);
  bool my_turn(int64_t now, bool wants);
  Turns::Run take_slot(int64_t now, int64_t expected_ns);
  bool no_turn_needed(std::unique_lock<std::mutex>& lock);
  std::optional<int64_t> wake_at(int64_t now) const;
  void grow_batches();
  bool answered_before(const CallPtr& call);
  void keep_answer(const Call& call, std::span<const Tensor> outputs);
  Waiting waiting_of(const Call& call) const;
  Result<std::vector<Tensor>> joined(const std::vector<CallPtr>& calls) const;
  Result<std::vector<Form::Part>> parted(const Batch& batch, std::vector<Tensor> outputs) const;
  std::optional<int64_t> next_time(int64_t now) const;
  using Faults = std::vector<std::pair<CallPtr, Error>>;
  void submit_step(const CallPtr& call);
  Faults begin_turns();
  void answer_steps(const CallPtr& call, Answer answer);
  std::vector<std::pair<CallPtr, Answer>> step_over(const CallPtr& call, const Answer& answer);
  std::vector<CallPtr> take_expired(int64_t now);
  void set_limits(Call* call) const;
  std::vector<uint64_t> late_runs(int64_t now);
  std::vector<uint64_t> late_beginnings(int64_t now);
  void begin_again(Batch& batch);
  std::optional<int64_t> next_ask() const;
  bool begin_run(Batch& batch);
  bool end_run(Batch& batch);

  const std::string name_;
  const int64_t version_;
  const std::string version_text_;
  const std::shared_ptr<runtime::Servable> servable_;
  const ModelOptions options_;
  Forwarding* const forwards_;                 // the servable, if it is one; else null
  const bool later_;                           // submit() of the servable returns at once
  const uint64_t serial_;                      // of this object in the process
  const std::shared_ptr<Turns::Share> share_;  // null: no turns

  mutable std::mutex mutex_;  // of all below but the statistics
  std::condition_variable wake_;
  Scheduler scheduler_;
  std::optional<Sequences> sequences_;
  std::unordered_map<uint64_t, CallPtr> waiting_;
  std::vector<Batch*> running_;
  uint64_t next_id_ = 1;
  int busy_ = 0, batches_ = 0;
  bool stopping_ = false, ended_ = false;
  bool held_ = false;            // waits for its turn
  int64_t sleeps_until_ns_ = 0;  // of the thread, if there is one: it need not be woken for what is later; 0: awake
  mutable uint64_t seen_progress_ = 0;
  mutable int64_t seen_at_ns_ = 0;
  int good_batches_ = 0;    // since batches were reduced
  int64_t longest_ns_ = 0;  // expected for what has run since it was last idle

  std::mutex order_mutex_;  // for preserve_order
  struct Ordered {
    CallPtr call;
    std::optional<Answer> answer;
  };
  std::deque<Ordered> order_;
  bool releasing_ = false;

  mutable std::mutex statistics_mutex_;
  ModelStatistics statistics_;
  std::string trouble_;
  std::vector<std::thread> threads_;
};

}  // namespace peri::serve
