// The key is the engine with its judge and terms; the value is what the cache holds under it.
#include "build/known_verdict.hpp"

#include "base/hash.hpp"
#include "exec/entry.hpp"
#include "judge/judge_key.hpp"
#include "judge/kept.hpp"
#include "judge/sizes.hpp"
#include "plan/engine_file.hpp"
#include "tune/wire.hpp"

namespace peri::build {

namespace {
std::string terms_text(const compile::Compilation& compilation, uint64_t seed, int64_t max_iterations) {
  std::string out = format("seed %llu, loops of %lld, %d threads, tuned for %s", static_cast<unsigned long long>(seed),
                           static_cast<long long>(max_iterations), compilation.options().tune.threads,
                           judge::sizes_text(compilation.tuned_for()).c_str());
  for (const DimBinding& bound : compilation.bounds()) out += ", within " + judge::sizes_text(bound);
  return out;
}
}  // namespace

KnownVerdicts::KnownVerdicts(const compile::Compilation& compilation, uint64_t seed, int64_t max_iterations)
    : compilation_(compilation), terms_(terms_text(compilation, seed, max_iterations)) {
  const tune::Options& tune = compilation.options().tune;
  if (tune.cache_path.empty()) return;
  const device::Target target = tune.target ? *tune.target : device::cpu_target(tune.threads, exec::libraries());
  cache_ = tune::Cache::open(tune.cache_path, tune::machine_key(target), tune.retune);
}

// The hash of an engine covers its program, the hash of every weight, the graph that was lowered and the identity of
// the model before any pass; the signature covers the sources of all kernels and definitions.
std::string KnownVerdicts::subject_of(const compile::Compiled& compiled) const {
  const auto draft = plan::draft_engine(compiled.program, compiled.weights);
  if (!draft.ok()) return "";
  return "engine " + hex64(draft->hash) + " judge " + std::string(judge::judge_key()) + " of " + tune::signature() +
         ": " + terms_;
}

// Sizes may be left out behind the tuned one, not added or changed.
bool KnownVerdicts::fits(const judge::EngineVerdict& verdict) const {
  const auto sizes = judge::sizes_to_judge(compilation_.graph(), compilation_.tuned_for(), compilation_.bounds());
  size_t at = 0;
  for (const judge::SizeEvidence& e : verdict.sizes) {
    while (at < sizes.size() && sizes[at] != e.sizes) ++at;
    if (at++ >= sizes.size()) return false;
  }
  return verdict.sizes[0].sizes == sizes[0] && (verdict.sizes.size() == sizes.size() || !verdict.incomplete.empty());
}

std::optional<judge::EngineVerdict> KnownVerdicts::find(const compile::Compiled& compiled) {
  if (!cache_) return std::nullopt;
  subject_ = subject_of(compiled);
  const auto text = subject_.empty() ? std::nullopt : cache_->find_verdict(subject_);
  if (!text) return std::nullopt;
  const auto json = parse_json(*text);
  auto verdict = json.ok() ? judge::read_verdict(*json) : Result<judge::EngineVerdict>(json.error());
  nonsense_ = !verdict.ok() || !fits(*verdict);
  if (nonsense_) return std::nullopt;
  return std::move(*verdict);
}

void KnownVerdicts::keep(const judge::EngineVerdict& verdict) {
  if (!cache_ || subject_.empty() || !judge::is_lasting(verdict)) return;
  cache_->store_verdict(subject_, judge::verdict_text(verdict));
}

std::string KnownVerdicts::trouble() const {
  if (nonsense_) return "the timing cache's verdict about the whole engine is invalid; it was judged again";
  return cache_ ? cache_->trouble() : "";
}

}  // namespace peri::build
