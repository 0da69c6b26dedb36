// An engine that an earlier build found right is not judged again: its verdict is stored in the timing cache under
// everything it depends on. An entry is used only if it is intact and fits the engine; else the engine is judged.
#pragma once

#include "build/build.hpp"
#include "tune/cache.hpp"

namespace peri::build {

class KnownVerdicts {
 public:
  // Of engines of this compilation, whose loops run no longer than `max_iterations` where they are judged.
  KnownVerdicts(const compile::Compilation& compilation, uint64_t seed, int64_t max_iterations);
  // What an earlier build found of the engine that these are; none: it is not known. Says for which one keep() keeps.
  std::optional<judge::EngineVerdict> find(const compile::Compiled& compiled);
  // Keeps a verdict about the engine that was last looked for, where it is lasting (judge/kept.hpp).
  void keep(const judge::EngineVerdict& verdict);
  // "", or why the cache gives or takes nothing: a whole sentence.
  std::string trouble() const;

 private:
  std::string subject_of(const compile::Compiled& compiled) const;
  bool fits(const judge::EngineVerdict& verdict) const;

  const compile::Compilation& compilation_;
  const std::string terms_;
  std::unique_ptr<tune::Cache> cache_;
  std::string subject_;  // of the last engine; "": it has none
  bool nonsense_ = false;
};

}  // namespace peri::build
