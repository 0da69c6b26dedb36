// Compares whole results with each other.
#include "tune/peers.hpp"

#include <algorithm>

#include "tune/layouts.hpp"

namespace peri::tune {

namespace {
// What a library chose is no setting: another algorithm may round otherwise.
bool is_setting_of(const Candidate& a, const Candidate& b) {
  return a.kernel == b.kernel && a.kernel->resolved.empty() && a.offer.config != b.offer.config &&
         a.offer.inputs == b.offer.inputs &&
         kernels::derived_config(*a.kernel, a.offer.config) == kernels::derived_config(*b.kernel, b.offer.config);
}
// Of what was read of both.
bool same_bits(const Answers& a, const Answers& b) {
  for (size_t k = 0; k < a.out.size(); ++k) {
    const std::vector<int64_t>& parts = a.parts[k].empty() ? b.parts[k] : a.parts[k];
    if (a.parts[k] == b.parts[k]) {
      if (first_difference(a.out[k], b.out[k])) return false;
      continue;
    }
    const auto size = static_cast<size_t>(dtype_size(a.out[k].dtype()));
    const auto element = [&](const Answers& of, int64_t at) {
      return of.out[k].bytes().subspan(static_cast<size_t>(at) * size, size);
    };
    for (const int64_t at : parts)
      if (!std::ranges::equal(element(a, at), element(b, at))) return false;
  }
  return true;
}
}  // namespace

Peers::Peers(const ir::Graph& region, size_t candidates, const Told& told)
    : region_(region), told_(told), known_(candidates) {}

void Peers::tell(size_t index, const Verdict& verdict) {
  known_[index] = verdict;
  told_(index, &verdict);
}

Peers::Answer* Peers::find(const Candidate& c, bool same_provider) {
  const auto answer = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& a) {
    return (a.candidate->kernel->provider == c.kernel->provider) == same_provider;
  });
  return answer == answers_.end() ? nullptr : &*answer;
}

// False: the peer was wrong, and is gone. An error: this answer is wrong.
Result<bool> Peers::agrees(Answer* peer, const Expected& whole, std::span<const Tensor> arguments, int threads,
                           const Answers& answers) {
  const std::span<const Tensor> out = answers.out, other = peer->answers.out;
  for (size_t k = 0; k < out.size(); ++k) {
    const Expected& e = expected_of(whole, k);
    if (e.positions.empty()) continue;
    const std::vector<int64_t>& parts = answers.parts[k].empty() ? peer->answers.parts[k] : answers.parts[k];
    const std::vector<int64_t> disputed = disputed_positions(e, other[k], out[k], parts);
    if (disputed.empty()) continue;
    auto exact = expected_at(e.region ? *e.region : region_, arguments, threads, disputed);
    if (!exact.ok()) return refused("cannot be judged: %s", exact.error().text().c_str());
    const auto mine = tune::compare(*exact, out.subspan(k, 1));
    const auto theirs = tune::compare(*exact, other.subspan(k, 1));
    if (!theirs.ok()) revoke(peer, theirs.error().text());
    if (!mine.ok()) return mine.error();
    if (!theirs.ok()) return false;
  }
  return true;
}

void Peers::compare(size_t index, const Candidate& c, const Expected& expected, std::span<const Tensor> arguments,
                    int threads, Answers answers, Verdict* v) {
  for (const Answer& a : answers_)
    if (is_setting_of(c, *a.candidate) && !same_bits(a.answers, answers)) {
      v->evidence.rejected = "a setting changes bits: its answer is not that of " + a.candidate->id();
      return;
    }
  for (const bool same_provider : {false, true})
    while (v->evidence.compared_with.empty()) {
      Answer* peer = find(c, same_provider);
      if (!peer) break;
      const Result<bool> same = agrees(peer, expected, arguments, threads, answers);
      if (!same.ok()) {
        v->evidence.rejected = same.error().text();
        return;
      }
      if (!*same) continue;
      v->evidence.compared_with = peer->candidate->id();
      Verdict theirs = known_[peer->index];
      if (!theirs.evidence.compared_with.empty() && (same_provider || peer->apart)) break;
      peer->apart = !same_provider;
      theirs.evidence.compared_with = c.id();
      tell(peer->index, theirs);
    }
  if (!find(c, true)) answers_.push_back({index, &c, std::move(answers)});
}

void Peers::compare_alone(size_t index, const Candidate& c, const std::string& why, Answers answers, Verdict* v) {
  const std::vector<Tensor>& out = answers.out;
  v->evidence.rejected = "cannot be judged: " + why + ", and no other provider gives the same answer";
  v->lasting = false;  // another provider may come, in a build that asks for more than this one
  for (Answer& a : answers_) {
    if (a.candidate->kernel->provider == c.kernel->provider) continue;
    const Result<double> far = agree(region_, a.answers.out, out);
    if (!far.ok()) continue;
    v->evidence.rejected.clear();
    v->lasting = true;
    v->evidence.compared_with = a.candidate->id();
    v->evidence.max_error = *far;
    confirm(&a, c.id(), *far);
    break;
  }
  Answer* own = find(c, true);
  if (!own) {
    answers_.push_back({index, &c, std::move(answers)});
    return;
  }
  const Evidence& known = known_[own->index].evidence;
  if (v->evidence.right()) {
    if (!known.right() && agree(region_, own->answers.out, out).ok())
      confirm(own, v->evidence.compared_with, v->evidence.max_error);
    return;
  }
  const Result<double> far = agree(region_, own->answers.out, out);
  if (!far.ok()) return;
  v->evidence.max_error = *far;
  if (known.right()) {
    v->evidence.rejected.clear();
    v->lasting = true;
    v->evidence.compared_with = known.compared_with;
  } else {
    own->alike.emplace_back(index, *v);
  }
}

// Tells that an answer and those like it are right after all.
void Peers::confirm(Answer* a, const std::string& by, double far) {
  if (known_[a->index].evidence.right()) return;
  Verdict own = known_[a->index];
  own.evidence.max_error = far;
  a->alike.emplace_back(a->index, std::move(own));
  for (auto& [index, v] : a->alike) {
    v.evidence.rejected.clear();
    v.lasting = true;
    v.evidence.compared_with = by;
    tell(index, v);
  }
  a->alike.clear();
}

void Peers::revoke(Answer* a, const std::string& why) {
  Verdict v;
  v.evidence.rejected = why;
  tell(a->index, v);
  answers_.erase(answers_.begin() + (a - answers_.data()));
}

}  // namespace peri::tune
