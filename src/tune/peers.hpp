// Positions detect an error that is everywhere; another candidate's whole result detects a local one. Each result is
// compared with one of another provider, or of its own if no other has one, and the reference decides which is wrong.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tune/expected.hpp"
#include "tune/judge.hpp"

namespace peri::tune {

// The verdicts of a problem's candidates, and the results that later ones are compared with.
class Peers {
 public:
  Peers(const ir::Graph& region, size_t candidates, const Told& told);
  // The latest verdict of each.
  const std::vector<Verdict>& known() const { return known_; }
  void tell(size_t index, const Verdict& verdict);

  // Compares a result, whole or in large parts, that was correct at the positions of `expected` with another's. Where
  // the two differ by more than their bounds, the reference decides; an earlier verdict may be revoked.
  void compare(size_t index, const Candidate& c, const Expected& expected, std::span<const Tensor> arguments,
               int threads, Answers answers, Verdict* verdict);
  // Where there is no reference, for the reason `why`: a result is correct if two providers agree on it.
  void compare_alone(size_t index, const Candidate& c, const std::string& why, Answers answers, Verdict* verdict);

 private:
  // The result of the first correct candidate of a provider.
  struct Answer {
    size_t index = 0;
    const Candidate* candidate = nullptr;
    Answers answers;
    bool apart = false;                                  // one of another provider agreed
    std::vector<std::pair<size_t, Verdict>> alike = {};  // of the same provider, waiting for its confirmation
  };
  Answer* find(const Candidate& c, bool same_provider);
  Result<bool> agrees(Answer* peer, const Expected& whole, std::span<const Tensor> arguments, int threads,
                      const Answers& answers);
  void confirm(Answer* answer, const std::string& by, double far);
  void revoke(Answer* answer, const std::string& why);

  const ir::Graph& region_;
  const Told& told_;
  std::vector<Verdict> known_;
  std::vector<Answer> answers_;
};

}  // namespace peri::tune
