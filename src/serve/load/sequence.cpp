// A sequence belongs to no connection for a server: it goes on over another one.
#include "serve/load/sequence.hpp"

#include <cmath>

namespace peri::serve {

LoadSequences::LoadSequences(const SequenceTerms& terms, const std::vector<LoadRequest>& requests)
    : terms_(terms), rng_(terms.seed), next_(terms.first_id) {
  for (size_t k = 0; k < requests.size(); ++k) {
    if (requests[k].first || lists_.empty()) lists_.emplace_back(k, 0);
    ++lists_.back().second;
  }
}

int64_t LoadSequences::length() const {
  if (terms_.length > 0) return terms_.length;
  const size_t requests = lists_.back().first + lists_.back().second;
  return std::llround(static_cast<double>(requests) / static_cast<double>(lists_.size()));
}

LoadSequences::Begun LoadSequences::begin() {
  const auto after = [&](uint64_t id) { return id == terms_.last_id ? terms_.first_id : id + 1; };
  while (live_.contains(next_)) next_ = after(next_);  // REQUIRES: as many ids as connections
  const uint64_t id = next_;
  next_ = after(id);
  live_.insert(id);
  const auto [first, count] = lists_[at_];
  at_ = (at_ + 1) % lists_.size();
  if (terms_.length == 0) return {id, static_cast<int64_t>(count), first, count};
  const double share = 1 + terms_.variation * (2 * rng_.uniform() - 1);
  return {id, std::max<int64_t>(1, std::llround(share * static_cast<double>(terms_.length))), first, count};
}

LoadStep LoadSequence::next() {
  if (asked_) leave();
  asked_ = true;
  LoadStep out;
  out.start = !id_;
  if (out.start) {
    begun_ = all_->begin();
    id_ = begun_.id;
    left_ = begun_.length;
    sent_ = 0;
  }
  out.id = *id_;
  out.request = begun_.first + sent_ % begun_.count;
  out.repeated = sent_++ >= begun_.count;
  out.end = --left_ <= 0;
  return out;
}

void LoadSequence::answered(bool well) {
  asked_ = false;
  if (!well || left_ <= 0) leave();
}

namespace {
class InSequence final : public Wire {
 public:
  InSequence(std::unique_ptr<Wire> inner, std::shared_ptr<LoadSequence> sequence)
      : inner_(std::move(inner)), sequence_(std::move(sequence)) {}
  void begin() override { inner_->begin(); }
  std::string_view ask() override { return inner_->ask(); }
  Heard hear(std::string_view bytes) override { return heard(inner_->hear(bytes)); }
  std::string_view more() override { return inner_->more(); }
  Heard closed() override { return heard(inner_->closed()); }
  std::string failure() const override { return inner_->failure(); }
  std::string said() const override { return inner_->said(); }
  std::string wrong() const override { return inner_->wrong(); }
  std::string trouble() const override { return inner_->trouble(); }
  bool keep_open() const override { return inner_->keep_open(); }
  bool in_sequence() const override { return sequence_->open(); }
  void end_sequence() override { sequence_->last(); }

 private:
  Heard heard(Heard out) {
    if (out == Heard::kAnswer) sequence_->answered(inner_->failure().empty());
    return out;
  }
  const std::unique_ptr<Wire> inner_;
  const std::shared_ptr<LoadSequence> sequence_;
};
}  // namespace

std::shared_ptr<LoadSequences> sequences_of(const LoadSubject& subject, const std::vector<LoadRequest>& requests,
                                            LoadFacts* facts) {
  SequenceTerms terms = subject.sequence;
  const bool listed = terms.length == 0 && !subject.data_path.empty();
  if (terms.length == 0 && !listed) terms.length = SequenceTerms::kDefaultLength;
  auto out = std::make_shared<LoadSequences>(terms, requests);
  if (facts) {
    facts->sequence = out->length();
    facts->listed = listed;
  }
  return out;
}

std::unique_ptr<Wire> in_sequence(std::unique_ptr<Wire> inner, std::shared_ptr<LoadSequence> sequence) {
  return std::make_unique<InSequence>(std::move(inner), std::move(sequence));
}

}  // namespace peri::serve
