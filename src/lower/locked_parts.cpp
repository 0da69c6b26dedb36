// The cover that a lock describes.
#include <algorithm>

#include "lower/parts.hpp"

namespace peri::lower {
namespace {
bool locked(const plan::LockReader& lock, const Region& r) { return lock.has(region_key(r), region_name(r)); }

// What stands at an atom: the parts that begin there, those of the lock first, of these the largest.
struct Beginning {
  std::vector<size_t> parts;  // by number in Parts::list
  size_t locked = 0;          // so many of them are in the lock
};

std::vector<Beginning> beginnings(const Parts& parts, const plan::LockReader& lock) {
  std::vector<Beginning> out(static_cast<size_t>(parts.atoms));
  std::vector<bool> has(parts.list.size());
  for (size_t k = 0; k < parts.list.size(); ++k) {
    has[k] = locked(lock, parts.list[k].region);
    Beginning& at = out[static_cast<size_t>(parts.list[k].atoms.front())];
    at.parts.push_back(k);
    at.locked += has[k] ? 1 : 0;
  }
  for (Beginning& at : out)
    std::stable_sort(at.parts.begin(), at.parts.end(), [&](size_t a, size_t b) {
      if (has[a] != has[b]) return bool(has[a]);
      if (has[a]) return parts.list[a].atoms.size() > parts.list[b].atoms.size();
      return parts.list[a].greedy && !parts.list[b].greedy;
    });
  return out;
}

// Atoms that a cover has so far.
class Covered {
 public:
  explicit Covered(const Parts& parts) : parts_(parts), covered_(static_cast<size_t>(parts.atoms)) {}
  bool has(size_t atom) const { return covered_[atom]; }
  bool fits(size_t part) const {
    const std::vector<int>& atoms = parts_.list[part].atoms;
    return std::none_of(atoms.begin(), atoms.end(), [&](int a) { return covered_[static_cast<size_t>(a)]; });
  }
  void set(size_t part, bool to) {
    for (int a : parts_.list[part].atoms) covered_[static_cast<size_t>(a)] = to;
  }

 private:
  const Parts& parts_;
  std::vector<bool> covered_;
};

// A cover of parts of the lock alone. Several may have one name and key, such as the first of three siblings with
// either of the others: where what is left is not in the lock, the next is tried. None: there is no such cover, or none
// is found in kMaxSteps, which no cover without such a choice needs.
std::optional<std::vector<size_t>> wholly_locked(const Parts& parts, const std::vector<Beginning>& at) {
  constexpr int64_t kMaxSteps = 1000000;
  struct Level {
    size_t atom, next;  // the first atom that is free, and which of its parts is tried next
  };
  Covered covered(parts);
  std::vector<Level> levels;
  std::vector<size_t> chosen;
  const auto free_from = [&](size_t atom) {
    while (atom < at.size() && covered.has(atom)) ++atom;
    return atom;
  };
  levels.push_back({free_from(0), 0});
  for (int64_t step = 0; step < kMaxSteps; ++step) {
    Level& now = levels.back();
    if (now.atom == at.size()) return chosen;
    const Beginning& here = at[now.atom];
    while (now.next < here.locked && !covered.fits(here.parts[now.next])) ++now.next;
    if (now.next < here.locked) {
      const size_t part = here.parts[now.next++], behind = now.atom + 1;
      covered.set(part, true);
      chosen.push_back(part);
      levels.push_back({free_from(behind), 0});
      continue;
    }
    levels.pop_back();
    if (levels.empty()) return std::nullopt;
    covered.set(chosen.back(), false);
    chosen.pop_back();
  }
  return std::nullopt;
}

// At each atom the first part that fits: the lock is of another graph, and lowering says what it lacks.
std::vector<size_t> first_that_fit(const Parts& parts, const std::vector<Beginning>& at) {
  Covered covered(parts);
  std::vector<size_t> chosen;
  for (size_t atom = 0; atom < at.size(); ++atom) {
    if (covered.has(atom)) continue;
    const auto part =
        std::find_if(at[atom].parts.begin(), at[atom].parts.end(), [&](size_t k) { return covered.fits(k); });
    PERI_CHECK(part != at[atom].parts.end(), "no region is left for a part of the graph");
    covered.set(*part, true);
    chosen.push_back(*part);
  }
  return chosen;
}
}  // namespace

PartRules locked_rules(const plan::LockReader& lock) {
  return {[&](const Region& beginning, const Region& rest, const Region&) {
            const bool both = locked(lock, beginning) && locked(lock, rest);
            return both ? std::optional(std::vector<const kernels::Kernel*>()) : std::nullopt;
          },
          [&](const Region& both) { return locked(lock, both); }, true};
}

Parts locked_parts(const ir::Graph& graph, const plan::LockReader& lock, Parts parts) {
  const std::vector<Beginning> at = beginnings(parts, lock);
  std::optional<std::vector<size_t>> chosen = wholly_locked(parts, at);
  if (!chosen) chosen = first_that_fit(parts, at);
  std::vector<Region> kept;
  for (const size_t k : *chosen) kept.push_back(std::move(parts.list[k].region));
  Parts out;
  for (Region& r : in_order(graph, std::move(kept))) out.list.push_back({std::move(r), {out.atoms++}, true});
  return out;
}

}  // namespace peri::lower
