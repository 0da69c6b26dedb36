// The possible parts of a cover: the regions of the greedy cut; prefixes of their chains and the rests; neighbours
// joined to one region, of which the first may be a rest and the second a prefix, up to four in a row; siblings over
// one input, each whole or by a prefix; a region with an element-wise one behind it where others read its result too,
// which is then a result of both; and attentions that no op states (attentions.hpp).
#pragma once

#include "lower/region.hpp"
#include "plan/lock_file.hpp"

namespace peri::lower {

struct Part {
  Region region;
  std::vector<int> atoms;  // ascending
  bool greedy = false;     // a region of the cut: other parts must be better by more than noise
  // For a prefix of a chain: the parts for the whole chain and for its rest, whether the rest may be joined as well,
  // and the kernels for which it may be used alone (empty: all).
  std::optional<size_t> whole = {}, rest = {};
  bool joined = false;
  std::vector<const kernels::Kernel*> kernels = {};
};

struct Parts {
  int atoms = 0;  // the finest pieces, in an order in which they may run
  std::vector<Part> list;
};

// Conditions for a region to become a part.
struct PartRules {
  // The kernels for which the chain is split after the prefix; none: it is not split.
  std::function<std::optional<std::vector<const kernels::Kernel*>>(const Region& beginning, const Region& rest,
                                                                   const Region& whole)>
      splits;
  // Whether a region made of two or more of the cut's, or of a part of one, may be used.
  std::function<bool(const Region&)> joins;
  // Whether a part of a region may be joined with a neighbour, or with a part of it, where all of the two may be: a
  // kernel that supports all of it is assumed to be as fast on it as on a part plus a separate pass over memory.
  bool every = false;
};

// Parts of the regions of a cut, in their order, except that siblings, and stem and prong of a fork, are adjacent (see
// siblings.hpp, forks.hpp). Two regions are neighbours where the only result of one is read by the other and by nothing
// else. Of up to kMaxAnySiblings siblings any two or more are an option, of more only adjacent ones: all of each, and
// where that is not allowed, as much of each as may run with the others, with its rest separate. Whatever parts cover
// the atoms, there is no cycle among them.
Parts parts_of(const ir::Graph& graph, std::vector<Region> cut, const PartRules& rules);

// The rules under a lock: exactly the parts that it contains.
PartRules locked_rules(const plan::LockReader& lock);
// The parts in the lock, and those of the cut where it has none: one cover, in execution order.
Parts locked_parts(const ir::Graph& graph, const plan::LockReader& lock, Parts parts);

}  // namespace peri::lower
