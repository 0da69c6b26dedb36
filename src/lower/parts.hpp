// The possible parts of a cover: the regions of the greedy cut; beginnings of its chains with their rests apart; as one
// region neighbours, of which the first may be a rest and the second a beginning, up to four in a row; and siblings
// over one input, each whole or by a beginning.
#pragma once

#include "lower/region.hpp"
#include "plan/lock_file.hpp"

namespace peri::lower {

struct Part {
  Region region;
  std::vector<int> atoms;  // ascending
  bool greedy = false;     // a region of the cut: another part must be better by more than noise
  // Of the beginning of a chain: the parts for all of the chain and for its rest, whether the rest may be joined, too,
  // and the kernels for whose sake it may stand apart (none: all).
  std::optional<size_t> whole = {}, rest = {};
  bool joined = false;
  std::vector<const kernels::Kernel*> kernels = {};
};

struct Parts {
  int atoms = 0;  // the finest pieces, in an order in which they may run
  std::vector<Part> list;
};

// What is asked before a region becomes a part.
struct PartRules {
  // The kernels for whose sake the chain is cut behind the beginning; none: it is not.
  std::function<std::optional<std::vector<const kernels::Kernel*>>(const Region& beginning, const Region& rest,
                                                                   const Region& whole)>
      splits;
  // Whether a region made of two or more of the cut's, or of a part of one, may stand.
  std::function<bool(const Region&)> joins;
  // Whether a part of a region may be joined with a neighbour, or one of its, where all of the two may be: what takes
  // all of it is taken to be as fast on it as on a part with a pass over memory beside it.
  bool every = false;
};

// Parts of the regions of a cut, in their order but for siblings, which stand together (see siblings.hpp). Two regions
// are neighbours where the only result of one is read by the other and nobody else. Of up to kMaxAnySiblings siblings
// any two or more are an option, of more those side by side: all of each, and where that may not stand, of each as much
// as may beside the others, with its rest apart. Whatever parts cover the atoms, there is no cycle among
// them.
Parts parts_of(const ir::Graph& graph, std::vector<Region> cut, const PartRules& rules);

// The rules under a lock: what it has, and nothing else.
PartRules locked_rules(const plan::LockReader& lock);
// The parts that the lock has, and where it has none those of the cut: one cover, in the order in which it runs.
Parts locked_parts(const ir::Graph& graph, const plan::LockReader& lock, Parts parts);

}  // namespace peri::lower
