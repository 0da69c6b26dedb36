// Sequences: the order of requests that belong together. A sequence has a slot from its first request to its last, one
// of its requests runs at a time, in order of arrival, and its state is passed from each to the next. A pure state
// machine on the times passed in.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tensor.hpp"

namespace peri::serve {

// A client's name for a sequence: a number or a text, which are never equal, and separate for each tenant.
struct SequenceId {
  std::string text;
  uint64_t number = 0;
  uint32_t tenant = 0;
  bool none() const { return text.empty() && number == 0; }
  std::string shown() const;  // for messages, truncated
  auto operator<=>(const SequenceId&) const = default;
};

// A request's position in its sequence.
struct SequenceStep {
  SequenceId id;
  bool start = false, end = false;
};

struct SequencePolicy {
  int64_t slots = 1;                // limit of active sequences
  int64_t idle_ns = 1'000'000'000;  // a sequence without requests for this long has ended
  int64_t max_waiting = 0;          // requests that are not at their turn; 0: unlimited
};

enum class SequenceVerdict : uint8_t { kTaken, kNoId, kNoStart, kFull };

struct SequenceCounts {
  int64_t active = 0, backlog = 0, slots = 0;             // current sequences
  int64_t state_bytes = 0;                                // size of their states
  uint64_t started = 0, ended = 0, idle = 0, broken = 0;  // totals: broken by a request that failed
};

class Sequences {
 public:
  explicit Sequences(SequencePolicy policy) : policy_(policy), free_(policy.slots) {}

  // Adds a request, which gets its turn now or later. `deadline_ns`: for its turn; 0: none. `request` must be new.
  SequenceVerdict submit(uint64_t request, const SequenceStep& step, int64_t deadline_ns, int64_t now);
  // Why a sequence is not active, if that is still known: "after 1000 ms without a request".
  std::string ended_why(const SequenceId& id) const;
  // Names of the sequences that may have more requests.
  std::vector<SequenceId> open() const;
  // Registers sequences that were active in another model: requests that continue one get the error `why`.
  void lost(const std::vector<SequenceId>& ids, const std::string& why);
  // Requests whose turn has come since the last call.
  std::vector<uint64_t> take_turns();
  bool waits(uint64_t request) const;  // for its turn
  // The sequence's state, for the request whose turn it is. Empty: none yet.
  const std::vector<Tensor>& state(uint64_t request) const;
  // The request was answered; `state` is for the next one.
  void done(uint64_t request, std::vector<Tensor> state, int64_t now);
  // The request failed: its sequence has ended. Returns the later requests of the sequence, which are removed.
  std::vector<uint64_t> fail(uint64_t request, const std::string& why, int64_t now);
  // Ends sequences that were idle too long. Returns requests that are late for their turn, each once: fail() must be
  // called for them.
  std::vector<uint64_t> expire(int64_t now);
  // When to call expire() again if nothing else happens.
  std::optional<int64_t> wake_ns() const;
  int64_t waiting() const { return waiting_; }
  const SequencePolicy& policy() const { return policy_; }
  SequenceCounts counts() const;

 private:
  struct Item {
    uint64_t request = 0;
    bool start = false, end = false;
    int64_t deadline_ns = 0;
  };
  struct Entry {
    std::deque<Item> queue;
    Item running;       // request 0: none
    bool slot = false;  // else in the backlog
    bool open = true;   // may have more requests without a start
    int64_t idle_since_ns = 0;
    std::string why;  // it is not open
    std::vector<Tensor> state;
  };
  using Place = std::map<SequenceId, Entry>::iterator;
  void go_on(Place at, int64_t now);
  void settle(Place at, int64_t now);
  void give_slot_up(Place at);
  void fill_slots(int64_t now);
  void forget(const Item& item);
  void remember(const SequenceId& id, std::string why);
  void unremember(const SequenceId& id);
  void wake_off(Place at);

  const SequencePolicy policy_;
  int64_t free_, waiting_ = 0;
  std::map<SequenceId, Entry> entries_;
  std::deque<SequenceId> backlog_;
  std::unordered_map<uint64_t, SequenceId> requests_;  // waiting or running ones
  std::set<std::pair<int64_t, uint64_t>> deadlines_;   // of waiting ones
  std::set<std::pair<int64_t, SequenceId>> idle_;      // by the time since when
  std::vector<uint64_t> turns_;
  std::map<SequenceId, std::string> ended_;  // recent ones
  std::deque<SequenceId> ended_order_;       // the same, oldest first
  SequenceCounts counts_;
};

}  // namespace peri::serve
