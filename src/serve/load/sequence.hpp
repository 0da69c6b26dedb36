// The sequences of a load: each connection goes through one after another, with one request of it at a time.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {

// What a request says of its sequence.
struct LoadStep {
  uint64_t id = 0;
  bool start = false, end = false;
  size_t request = 0;     // whose values it has
  bool repeated = false;  // its sequence had all of them before: no answer is known
};

// Ids and lengths of the sequences of all connections. Used by one thread.
class LoadSequences {
 public:
  // `requests`: those of the sequences, which take them in turn, each from the first of one on.
  LoadSequences(const SequenceTerms& terms, const std::vector<LoadRequest>& requests);
  struct Begun {
    uint64_t id = 0;  // which no live one has
    int64_t length = 0;
    size_t first = 0, count = 0;  // its requests; a longer one repeats them
  };
  Begun begin();
  // Requests of a sequence, about.
  int64_t length() const;
  void end(uint64_t id) { live_.erase(id); }

 private:
  const SequenceTerms terms_;
  std::vector<std::pair<size_t, size_t>> lists_;  // first request and number of them
  size_t at_ = 0;                                 // the next one's
  Rng rng_;
  uint64_t next_;
  std::set<uint64_t> live_;
};

// The sequence of a connection.
class LoadSequence {
 public:
  explicit LoadSequence(std::shared_ptr<LoadSequences> all) : all_(std::move(all)) {}
  ~LoadSequence() { leave(); }
  LoadSequence(const LoadSequence&) = delete;
  LoadSequence& operator=(const LoadSequence&) = delete;
  // Of the next request. One whose last request failed, or was not answered, is given up for a new one.
  LoadStep next();
  void answered(bool well);
  // Whether it has begun, goes on, and every request of it is answered.
  bool open() const { return id_ && !asked_; }
  // The next request is its last.
  void last() { left_ = std::min<int64_t>(left_, 1); }

 private:
  void leave() {
    if (id_) all_->end(*id_);
    id_.reset();
  }
  const std::shared_ptr<LoadSequences> all_;
  std::optional<uint64_t> id_;
  LoadSequences::Begun begun_;
  size_t sent_ = 0;
  int64_t left_ = 0;  // requests of it to be sent
  bool asked_ = false;
};

// Those of a load whose requests are of sequences, and what there is to know of them.
std::shared_ptr<LoadSequences> sequences_of(const LoadSubject& subject, const std::vector<LoadRequest>& requests,
                                            LoadFacts* facts);

// A wire whose requests are of this sequence.
std::unique_ptr<Wire> in_sequence(std::unique_ptr<Wire> inner, std::shared_ptr<LoadSequence> sequence);

}  // namespace peri::serve
