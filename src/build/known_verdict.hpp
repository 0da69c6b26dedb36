// An engine that an earlier build found correct is not judged again: its verdict is stored in the timing cache under
// everything that it depends on. An entry is used only if it is valid and fits the engine; else the engine is judged.
#pragma once

#include "build/build.hpp"
#include "tune/cache.hpp"

namespace peri::build {

class KnownVerdicts {
 public:
  // For engines of this compilation, whose loops run at most `max_iterations` where they are judged.
  KnownVerdicts(const compile::Compilation& compilation, uint64_t seed, int64_t max_iterations);
  // An earlier build's verdict about this engine; none: unknown. Sets the engine for keep().
  std::optional<judge::EngineVerdict> find(const compile::Compiled& compiled);
  // Stores a verdict about the engine of the last find(), if it is lasting (judge/kept.hpp).
  void keep(const judge::EngineVerdict& verdict);
  // "", or why the cache is not used: a whole sentence.
  std::string trouble() const;

 private:
  std::string subject_of(const compile::Compiled& compiled) const;
  bool fits(const judge::EngineVerdict& verdict) const;

  const compile::Compilation& compilation_;
  const std::string terms_;
  std::unique_ptr<tune::Cache> cache_;
  std::string subject_;  // of the last engine; "": none
  bool nonsense_ = false;
};

}  // namespace peri::build
