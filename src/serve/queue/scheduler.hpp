// Scheduler: which waiting requests run together and when. A pure state machine on the times passed in: the same calls
// give the same batches, and each batch has the reason for its end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace peri::serve {

// Why a batch was ended.
enum class CutReason : uint8_t {
  kFull,       // no more rows fit, or a preferred size is reached
  kDelay,      // the oldest request waited for the maximum delay; at a delay of 0: nothing else was waiting
  kDeadline,   // waiting longer would have missed a request's deadline
  kShape,      // the next request has other dims
  kPriority,   // the next request is of a lower level, and the first may not wait for it
  kMemory,     // the next request's bytes do not fit
  kAlone,      // the model, or this request, is not batched
  kSequences,  // it contains every sequence that has a slot: no other request can join
};
constexpr int kCutReasons = static_cast<int>(CutReason::kSequences) + 1;
std::string_view cut_reason_name(CutReason reason);

enum class Admission : uint8_t { kAccepted, kQueueFull, kNoSuchPriority };

struct LevelPolicy {
  int64_t max_queue = 0;          // requests; 0: unlimited
  int64_t timeout_ns = 0;         // limit of a request's waiting time; 0: unlimited
  bool timeout_override = false;  // a request may have a shorter one
  bool delay_expired = false;     // a request whose time is over is moved behind all others instead of being refused
  // The limit for a request that states its own, `asked_ns`, or none (0); 0: unlimited.
  int64_t limit_ns(int64_t asked_ns) const;
};

struct QueuePolicy {
  // Row counts that a batch may have, ascending; empty: no batches. A request whose own number of rows is not among
  // them runs alone.
  std::vector<int64_t> sizes;
  std::vector<int64_t> preferred;     // of them: a batch is ended as soon as it reaches one
  int64_t max_delay_ns = 0;           // limit of the oldest request's waiting time for others
  int64_t max_batch_bytes = 1 << 30;  // inputs of a batch
  int64_t most_waiting = 0;           // limit of requests waiting at once; 0: unlimited
  int priority_levels = 1;            // 1 is the most urgent
  int default_priority = 1;
  LevelPolicy level;                       // for every level that is not in `levels`
  std::map<int, LevelPolicy> levels = {};  // by priority
  const LevelPolicy& of(int priority) const;
};

struct Waiting {
  uint64_t id = 0;
  int64_t rows = 1;
  uint64_t key = 0;  // requests of one key may run together
  int64_t bytes = 0;
  int priority = 0;         // 0: the default
  int64_t timeout_ns = 0;   // the client's; 0: none
  int64_t expected_ns = 0;  // of its run
  uint32_t tenant = 0;
  bool probe = false;  // the server's own: it runs alone and next, so that no batch ends or waits because of it
  // Set by the scheduler.
  int64_t arrival_ns = 0;
  int64_t deadline_ns = 0;  // 0: none
  uint64_t turn = 0;        // order within its level, lowest first
};

struct Cut {
  std::vector<Waiting> requests;
  CutReason reason = CutReason::kAlone;
};

class Scheduler {
 public:
  explicit Scheduler(QueuePolicy policy);

  // Adds a request to the queue.
  Admission submit(Waiting request, int64_t now);
  // Whether a request that arrives now and finds a free slot would form a batch alone at once: nothing is waiting, and
  // there is no delay.
  bool passes_through() const { return waiting_ == 0 && policy_.max_delay_ns == 0; }
  // Removes a request; false if it is not waiting (any more).
  bool cancel(uint64_t id);
  // The next batch, if one is due. REQUIRES: a slot is free.
  std::optional<Cut> poll(int64_t now);
  // Removes and returns requests whose time is over. Call before poll().
  std::vector<Waiting> expire(int64_t now);
  // When to poll again if nothing else happens; none: not before the next request.
  std::optional<int64_t> wake_ns(int64_t now) const;
  // The same while no slot is free: when the next request's time is over.
  std::optional<int64_t> expiry_ns() const;
  // Limits the rows of batches from now on, for lack of memory; 0, or all that the policy allows: no limit.
  void limit_rows(int64_t rows);
  // From now on no request waits for others: a batch is what is there.
  void end_delay() { policy_.max_delay_ns = 0; }
  int64_t row_limit() const { return row_limit_; }
  int64_t waiting() const { return waiting_; }
  const QueuePolicy& policy() const { return policy_; }

 private:
  struct Level {
    std::deque<Waiting> requests;  // by turn, those of one turn as they came
    std::deque<Waiting> delayed;   // after all levels
    uint64_t turn = 0;             // of the last request taken
    struct Share {
      uint64_t turn = 0;    // of the tenant's last request
      int64_t waiting = 0;  // of its requests
    };
    std::map<uint32_t, Share> shares;  // of tenants with waiting requests
  };
  struct Draft {
    std::vector<const Waiting*> requests;
    int64_t rows = 0;
    std::optional<CutReason> due;  // none: it should wait longer
  };
  bool batches(const Waiting& request) const;
  std::vector<const Waiting*> in_order() const;
  Draft draft() const;
  void take(const Waiting& request);
  static void queue_fairly(Level& level, Waiting request);
  static void left(Level& level, const Waiting& request);
  static bool over_share(const Level& level, uint32_t tenant, int64_t max_queue);

  QueuePolicy policy_;
  std::map<int, Level> levels_;
  int64_t waiting_ = 0, row_limit_ = 0;
};

}  // namespace peri::serve
