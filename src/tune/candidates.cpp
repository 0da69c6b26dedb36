// Ids of candidates, the kernels that offer any, and the order of judged ones.
#include "tune/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/bytes.hpp"
#include "base/fault.hpp"
#include "base/plural.hpp"
#include "runtime/engine.hpp"
#include "tune/rejection.hpp"
#include "tune/resolved.hpp"

namespace peri::tune {

std::string Candidate::id() const {
  return std::string(kernel->name) + "@" + std::to_string(kernel->version) + " {" + offer.config + "}";
}

int64_t Candidate::workspace_bytes() const {
  return offer.needs ? static_cast<int64_t>(offer.needs->workspace) : evidence.workspace_bytes;
}

void plan_needs(const ir::Graph& region, const std::vector<bool>& constant, const device::Target& target,
                Candidate* candidate) {
  kernels::Offer& offer = candidate->offer;
  auto needs = contained([&] { return kernels::needs_of(*candidate->kernel, {&region, constant}, offer, target); });
  offer.needs = needs.ok() ? std::optional(*std::move(needs)) : std::nullopt;
}

namespace {
// Of a kernel of a device so many guesses are tried, the best first: each is code to be compiled. Of 110 problems the
// third to eighth was chosen in 32 (benchmarks/results/2026-11-23_nvrtc_texts.md); the first alone is 7 % above the
// best of all (benchmarks/results/2026-11-22_trials_cuda.md).
constexpr size_t kMaxGuesses = 8;
// Of these, what is guessed to take so much longer than the best guess is no rival, beyond the first few: guesses err
// by 7.7 % at the first choice (the same), far less than this. Neither number was varied.
constexpr double kFarGuess = 2;
constexpr size_t kMinGuesses = 4;
// Of a kernel of which another of its provider is expected to take less the best guess is tried first, and others only
// if that came close; where so much less, it is the last resort: of 99 candidates of cuda_conv in ResNet-50, 98 took
// more than three times the best when the number was chosen, which no committed result holds. One that is wrong leaves
// out a rival, never the right answer.
constexpr double kHopelessGuess = 3;

double best_guess(std::span<const kernels::Offer> offers) {
  double best = 0;
  for (const kernels::Offer& o : offers)
    if (o.guess_ms > 0 && (best == 0 || o.guess_ms < best)) best = o.guess_ms;
  return best;
}
}  // namespace

size_t guesses_tried(std::span<const kernels::Offer> offers) {
  size_t count = std::min(offers.size(), kMaxGuesses);
  const double best = best_guess(offers);
  while (count > kMinGuesses && offers[count - 1].guess_ms > kFarGuess * best && best > 0) --count;
  return count;
}

Turn turn_of(size_t place, double best, double best_of_provider) {
  if (best <= 0 || best_of_provider <= 0 || best <= best_of_provider) return Turn::kFirst;
  if (best > kHopelessGuess * best_of_provider) return Turn::kLastResort;
  return place == 0 ? Turn::kFirst : Turn::kIfClose;
}

namespace {
// Plans the needs of all, and refuses those that need more than a session may have. What a GPU has is known where they
// are tried: its candidates are held to a limit that was given only.
void refuse_large(const ir::Graph& region, const std::vector<bool>& constant, const device::Target& target,
                  const Options& options, Candidates* all) {
  runtime::EngineOptions engine;
  engine.memory_bytes = options.memory_bytes;
  const auto limit = static_cast<size_t>(engine.memory_limit());
  std::erase_if(all->list, [&](Candidate& c) {
    plan_needs(region, constant, target, &c);
    const auto& needs = c.offer.needs;
    const bool away = !options.own_executor.empty() && c.kernel->executor == options.own_executor;
    if (!needs || (away && options.memory_bytes == 0) || (needs->workspace <= limit && needs->scratch <= limit))
      return false;
    all->refusals.push_back(
        {c.id(), format("a run of it needs more than %s: ", mib_text(engine.memory_limit()).c_str()) +
                     kernels::needs_text(*needs)});
    return true;
  });
}
}  // namespace

Candidates collect_offers(const ir::Graph& region, const std::vector<bool>& constant, const Options& options,
                          const device::Target& target) {
  Candidates all;
  const kernels::Problem problem{&region, constant};
  std::vector<std::pair<const kernels::Kernel*, std::vector<kernels::Offer>>> offered;
  std::map<std::string_view, double> best;  // of each provider
  bool left_out = false;                    // those of other providers
  for (const kernels::Kernel* kernel : kernels::kernels()) {
    const kernels::Kernel& k = *kernel;
    if (!options.executors.empty() &&
        std::find(options.executors.begin(), options.executors.end(), k.executor) == options.executors.end())
      continue;
    // Changes of layout serve every provider.
    if (!options.provider.empty() && k.provider != options.provider && !ops::changes_layout(problem.anchor())) {
      left_out = true;
      continue;
    }
    auto offers = contained([&] { return offers_of(k, problem, target); });
    if (!offers.ok()) {
      all.refusals.push_back({std::string(k.name), offers.error().text()});
      continue;
    }
    if (const double own = best_guess(*offers); k.executor == options.own_executor && own > 0) {
      double& least = best[k.provider];
      least = least > 0 ? std::min(least, own) : own;
    }
    offered.emplace_back(kernel, *std::move(offers));
  }
  if (left_out)
    all.refusals.push_back({"other providers' kernels", std::string(kLeftOut) + "--provider " + options.provider});
  for (auto& [kernel, offers] : offered) {
    const kernels::Kernel& k = *kernel;
    const bool guessed = options.measure && k.executor == options.own_executor;
    const double own = best_guess(offers);
    if (const size_t tried = guesses_tried(offers); guessed && offers.size() > tried) {
      all.refusals.push_back(
          {std::string(k.name), format("not tried: %s beyond the first %zu",
                                       counted(static_cast<int64_t>(offers.size() - tried), "guess").c_str(), tried)});
      offers.resize(tried);
    }
    for (size_t place = 0; kernels::Offer & o : offers) {
      if (!target.has(o.requires_isa)) {
        all.refusals.push_back({std::string(k.name), "the target has no " + o.requires_isa});
        continue;
      }
      o.inputs.resize(region.inputs.size());
      o.outputs.resize(region.outputs.size());
      all.list.push_back({kernel, std::move(o)});
      if (guessed) all.list.back().turn = turn_of(place++, own, best[k.provider]);
    }
  }
  const auto own = [&](const Candidate& c) { return c.kernel->executor == options.own_executor; };
  if (std::any_of(all.list.begin(), all.list.end(), own)) std::erase_if(all.list, std::not_fn(own));
  refuse_large(region, constant, target, options, &all);
  // A build may end in the middle of a problem, or take the first that is right (first_right): what is expected to be
  // fast is tried first, what nobody expects, last.
  const auto expected = [](const Candidate& c) { return c.offer.guess_ms > 0 ? c.offer.guess_ms : HUGE_VAL; };
  if (!options.own_executor.empty())
    std::stable_sort(all.list.begin(), all.list.end(),
                     [&](const Candidate& a, const Candidate& b) { return expected(a) < expected(b); });
  return all;
}

void put_fastest_first(std::vector<Candidate>* list) {
  std::stable_sort(list->begin(), list->end(), [](const Candidate& a, const Candidate& b) {
    if (a.evidence.right() != b.evidence.right()) return a.evidence.right();
    if (a.evidence.timed() != b.evidence.timed()) return a.evidence.timed();
    return a.evidence.time_ms < b.evidence.time_ms;
  });
}

}  // namespace peri::tune
