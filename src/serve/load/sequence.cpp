// A sequence belongs to no connection for a server: it goes on over another one.
#include "serve/load/sequence.hpp"

#include <cmath>
#include <tuple>

namespace peri::serve {

LoadSequences::LoadSequences(const SequenceTerms& terms) : terms_(terms), rng_(terms.seed), next_(terms.first_id) {}

std::pair<uint64_t, int64_t> LoadSequences::begin() {
  const auto after = [&](uint64_t id) { return id == terms_.last_id ? terms_.first_id : id + 1; };
  while (live_.contains(next_)) next_ = after(next_);  // REQUIRES: as many ids as connections
  const uint64_t id = next_;
  next_ = after(id);
  live_.insert(id);
  const double share = 1 + terms_.variation * (2 * rng_.uniform() - 1);
  return {id, std::max<int64_t>(1, std::llround(share * static_cast<double>(terms_.length)))};
}

LoadStep LoadSequence::next() {
  if (asked_) leave();
  asked_ = true;
  LoadStep out;
  out.start = !id_;
  if (out.start) std::tie(id_.emplace(), left_) = all_->begin();
  out.id = *id_;
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

std::unique_ptr<Wire> in_sequence(std::unique_ptr<Wire> inner, std::shared_ptr<LoadSequence> sequence) {
  return std::make_unique<InSequence>(std::move(inner), std::move(sequence));
}

}  // namespace peri::serve
