// Extends partial covers piece by piece.
#include "lower/search.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/rng.hpp"
#include "lower/lives.hpp"

namespace peri::lower {
namespace {

struct Beginning {
  double cost = 0;
  Lives live;                // values still to be read
  int left = -1;             // the last atom behind which values were left that nobody reads any more
  std::vector<size_t> open;  // pieces begun, of which atoms are to come
  int64_t last = -1;         // in Walk::steps
  // Beginnings with the same key go on in the same ways at the same costs: of 64 bits, and where two share one by
  // chance, the cheaper of them is still a cover.
  uint64_t key() const {
    uint64_t out = live.hash();
    for (const size_t piece : open) out = Rng(out ^ piece).next();
    return out;
  }
};

struct Step {
  int64_t before;
  Picked picked;
};

struct Walk {
  const Puzzle& puzzle;
  size_t width;
  std::vector<std::vector<size_t>> starting;  // per atom: pieces that begin there
  std::vector<double> least;                  // per piece: its fastest way
  std::vector<int> last_read;                 // per value
  std::vector<std::vector<int>> read_last;    // per atom: values that nobody reads behind it
  std::vector<bool> made;                     // per value: by some piece
  std::vector<Step> steps;
  std::vector<Beginning> next;
  std::unordered_map<uint64_t, size_t> known;  // key -> place in `next`

  explicit Walk(const Puzzle& p, size_t most) : puzzle(p), width(most) {
    starting.resize(static_cast<size_t>(p.atoms));
    least.resize(p.pieces.size());
    last_read.assign(static_cast<size_t>(p.values), -1);
    made.assign(static_cast<size_t>(p.values), false);
    for (size_t k = 0; k < p.pieces.size(); ++k) {
      const Piece& piece = p.pieces[k];
      if (piece.ways.empty()) continue;
      least[k] = std::min_element(piece.ways.begin(), piece.ways.end(), [](const Way& a, const Way& b) {
                   return a.ms < b.ms;
                 })->ms;
      starting[static_cast<size_t>(piece.atoms.front())].push_back(k);
      for (int v : piece.inputs) {
        int& at = last_read[static_cast<size_t>(v)];
        at = std::max(at, piece.atoms.back());
      }
      for (int v : piece.outputs) made[static_cast<size_t>(v)] = true;
    }
    read_last.resize(static_cast<size_t>(p.atoms));
    for (size_t v = 0; v < last_read.size(); ++v)
      if (last_read[v] >= 0) read_last[static_cast<size_t>(last_read[v])].push_back(static_cast<int>(v));
  }

  void keep(Beginning b) {
    const auto [it, is_new] = known.emplace(b.key(), next.size());
    if (is_new)
      next.push_back(std::move(b));
    else if (b.cost < next[it->second].cost)
      next[it->second] = std::move(b);
  }

  // Brings value `v` to `want`; false: it does not exist yet.
  bool read(Beginning* b, int v, int want) const {
    int from = 0;
    uint64_t places = b->live.at(v, &from);
    if (places == 0 && made[static_cast<size_t>(v)]) return false;
    if (places == 0) places = 1;
    if (places >> want & 1) return true;
    b->cost += puzzle.price(v, from, want);
    b->live.put(v, from, places | uint64_t{1} << want);
    return true;
  }

  void write(Beginning* b, int v, int place, int atom) const {
    uint64_t places = uint64_t{1} << place;
    if (puzzle.wanted[static_cast<size_t>(v)] && place != 0) {
      b->cost += puzzle.price(v, place, 0);
      places |= 1;
    }
    if (last_read[static_cast<size_t>(v)] > atom) b->live.put(v, place, places);
  }

  void run(const Beginning& before, size_t k, int atom) {
    const Piece& piece = puzzle.pieces[k];
    for (size_t w = 0; w < piece.ways.size(); ++w) {
      const Way& way = piece.ways[w];
      Beginning b = before;
      b.cost += way.ms - least[k];
      bool there = true;
      for (size_t i = 0; there && i < piece.inputs.size(); ++i) there = read(&b, piece.inputs[i], way.in[i]);
      if (!there) return;
      for (size_t o = 0; o < piece.outputs.size(); ++o) write(&b, piece.outputs[o], way.out[o], atom);
      while (b.left < atom)
        for (const int v : read_last[static_cast<size_t>(++b.left)]) b.live.erase(v);
      steps.push_back({before.last, {k, w}});
      b.last = static_cast<int64_t>(steps.size()) - 1;
      keep(std::move(b));
    }
  }

  bool taken(const Beginning& b, int atom) const {
    return std::any_of(b.open.begin(), b.open.end(), [&](size_t k) {
      const std::vector<int>& atoms = puzzle.pieces[k].atoms;
      return std::binary_search(atoms.begin(), atoms.end(), atom);
    });
  }

  void begin(const Beginning& b, size_t k, int atom) {
    const Piece& piece = puzzle.pieces[k];
    if (std::any_of(piece.atoms.begin(), piece.atoms.end(), [&](int a) { return taken(b, a); })) return;
    Beginning with = b;
    with.cost += least[k];
    if (piece.atoms.back() == atom) return run(with, k, atom);
    with.open.insert(std::upper_bound(with.open.begin(), with.open.end(), k), k);
    keep(std::move(with));
  }

  void step(const Beginning& b, int atom) {
    for (size_t k : b.open) {
      const std::vector<int>& atoms = puzzle.pieces[k].atoms;
      if (!std::binary_search(atoms.begin(), atoms.end(), atom)) continue;
      if (atoms.back() != atom) return keep(b);
      Beginning closing = b;
      std::erase(closing.open, k);
      return run(closing, k, atom);
    }
    for (size_t k : starting[static_cast<size_t>(atom)]) begin(b, k, atom);
  }
};

// Beginnings that are kept in all hold at most so many blocks of values, however many values wait to be read: 256
// beginnings of 2048 values each.
constexpr size_t kMaxBlocks = 1 << 14;
constexpr size_t kMinWidth = 8;

size_t width_for(const std::vector<Beginning>& all, size_t width) {
  size_t most = 1;
  for (const Beginning& b : all) most = std::max(most, b.live.blocks());
  return std::min(width, std::max(kMinWidth, kMaxBlocks / most));
}
}  // namespace

std::optional<Solved> solve(const Puzzle& puzzle, size_t width) {
  Walk walk(puzzle, width);
  std::vector<Beginning> now(1);
  for (int atom = 0; atom < puzzle.atoms; ++atom) {
    walk.next.clear();
    walk.known.clear();
    for (const Beginning& b : now) walk.step(b, atom);
    now.swap(walk.next);
    const size_t room = width_for(now, width);
    if (now.size() <= room) continue;
    std::stable_sort(now.begin(), now.end(), [](const Beginning& a, const Beginning& b) { return a.cost < b.cost; });
    now.resize(room);
  }
  if (now.empty()) return std::nullopt;
  const Beginning& best =
      *std::min_element(now.begin(), now.end(), [](const Beginning& a, const Beginning& b) { return a.cost < b.cost; });
  Solved out;
  out.cost = best.cost;
  for (int64_t at = best.last; at >= 0; at = walk.steps[static_cast<size_t>(at)].before)
    out.picked.push_back(walk.steps[static_cast<size_t>(at)].picked);
  std::reverse(out.picked.begin(), out.picked.end());
  return out;
}

}  // namespace peri::lower
