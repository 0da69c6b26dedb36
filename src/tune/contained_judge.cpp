// Repeats judging for the candidates that have no verdict yet.
#include "tune/contained_judge.hpp"

#include <algorithm>
#include <optional>

#include "base/fault.hpp"
#include "tune/rejection.hpp"

namespace peri::tune {

void judge_contained(Judge& judge, const ir::Graph& region, const std::vector<bool>& constant,
                     std::span<const Candidate* const> candidates, const Terms& terms, const Told& told) {
  std::vector<size_t> left;
  for (size_t k = 0; k < candidates.size(); ++k) left.push_back(k);
  while (!left.empty()) {
    const std::vector<size_t> asked = left;
    std::vector<const Candidate*> list;
    for (const size_t k : asked) list.push_back(candidates[k]);
    std::optional<size_t> at;  // the one that is being tried
    const Status done = contained([&]() -> Status {
      judge.judge(region, constant, list, terms, [&](size_t k, const Verdict* v) {
        if (v) {
          std::erase(left, asked[k]);
          at.reset();
        } else
          at = asked[k];
        told(asked[k], v);
      });
      return Ok{};
    });
    if (done.ok()) return;
    Verdict refused;
    refused.evidence.rejected = rejection(done.error());
    refused.lasting = done.error().kind == ErrorKind::kInternal;
    const std::vector<size_t> now = at ? std::vector<size_t>{*at} : left;  // before any was tried: it holds for all
    for (const size_t k : now) {
      std::erase(left, k);
      told(k, &refused);
    }
  }
}

SampleVerdict samples_contained(Judge& judge, const kernels::Kernel& kernel, const std::function<void()>& before) {
  Result<SampleVerdict> made = contained([&]() -> Result<SampleVerdict> { return judge.samples(kernel, before); });
  if (made.ok()) return std::move(made).value();
  return {0, rejection(made.error()), made.error().kind == ErrorKind::kInternal};
}

}  // namespace peri::tune
