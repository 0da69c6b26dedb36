// States the search problem of a graph's parts, and interprets its solution.
#include "lower/cover.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/fault.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/able.hpp"
#include "lower/beside.hpp"
#include "lower/prices.hpp"
#include "lower/search.hpp"
#include "lower/sides.hpp"
#include "tune/rivals.hpp"

namespace peri::lower {

namespace {
constexpr double kReferenceMs = 1e3;  // worse than any kernel
constexpr int kMaxChoices = 3;        // the first, and those after visits to what it hangs on

// At the tuned dims or at others.
bool calls_library(const tune::Candidate& c) {
  return !c.offer.library.empty() || (c.fallback && calls_library(*c.fallback));
}

struct Chooser {
  const Terms& terms;
  Parts parts;
  plan::LockReader* lock;
  std::vector<Able> able;
  Puzzle puzzle;
  Prices prices{terms, kReferenceMs};
  bool hoping = false;    // parts that are not of the cut count what further visits may find
  bool own_only = false;  // no candidate that calls a library stands

  bool by_guess() const { return chosen_by_guess(terms, lock->locked()); }
  void foresee(size_t k) {
    const Region& r = parts.list[k].region;
    if (const auto here = exec::bind_region(region_graph(r), terms.tuned_for); here.ok())
      terms.tuner.foresee(*here, constant_inputs(r), parts.list[k].kernels);
  }
  Status find_candidates(size_t k) {
    const Region& r = parts.list[k].region;
    Able& a = able[k];
    a.tried = a.tried || !by_guess();
    find_able(terms, parts.list[k], &a);
    if (!host_only(terms.backend, a.usable))
      std::erase_if(a.usable, [&](const tune::Candidate& c) { return stays_home(terms.backend, c); });
    if (lock->locked()) {
      const std::vector<tune::Candidate> home = those_beside(terms, parts.list[k], &a.refusals);
      a.usable.insert(a.usable.end(), home.begin(), home.end());
      PERI_TRY(keep_locked(r, terms.tuner, lock, &a.usable));
    }
    if (!parts.list[k].greedy) {
      std::erase_if(a.usable, [&](const tune::Candidate& c) { return !may_stand(terms, lock->locked(), c); });
      a.stands = !a.usable.empty();
    }
    return Ok{};
  }
  // What it costs at most to bring those `values` that are among the `others` from the places there to these, or back.
  double between(const std::vector<ir::Value*>& values, const std::vector<ir::Layout>& layouts,
                 const std::vector<ir::Value*>& others, const std::vector<ir::Layout>& there, bool back = false) {
    double ms = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      const auto at = std::find(others.begin(), others.end(), values[k]);
      if (at == others.end() || values[k]->constant) continue;
      int from = prices.place_of(there[static_cast<size_t>(at - others.begin())]), to = prices.place_of(layouts[k]);
      if (back) std::swap(from, to);
      ms += prices.between(prices.value_of(values[k]), from, to);
    }
    return ms;
  }
  // What the whole costs at most in the stead of this beginning and this rest, values lying where these have them.
  double whole_instead(const Part& p, const kernels::Offer& beginning, const kernels::Offer& rest) {
    const Region &whole = parts.list[*p.whole].region, &behind = parts.list[*p.rest].region;
    double least = -1;
    for (const tune::Candidate& c : able[*p.whole].usable) {
      if (!c.evidence.timed()) continue;
      const double ms = c.evidence.time_ms + between(whole.inputs, c.offer.inputs, p.region.inputs, beginning.inputs) +
                        between(whole.inputs, c.offer.inputs, behind.inputs, rest.inputs) +
                        between(whole.outputs, c.offer.outputs, behind.outputs, rest.outputs, true);
      if (least < 0 || ms < least) least = ms;
    }
    return least;
  }
  // A beginning that nobody measured yet takes some time: where its rest alone counts as much as the whole with all
  // changes of place that it would need, whichever offers run both, it cannot be part of the least cover.
  bool hopeless(const Part& p) {
    if (!p.whole || !p.rest || p.joined) return false;
    if (!able[*p.rest].stands) return true;
    const auto here = exec::bind_region(region_graph(p.region), terms.tuned_for);
    if (!here.ok() || !able[*p.whole].best()) return false;
    for (const tune::Candidate& b : terms.tuner.offers(*here, constant_inputs(p.region)).list) {
      if (!p.kernels.empty() && std::find(p.kernels.begin(), p.kernels.end(), b.kernel) == p.kernels.end()) continue;
      for (const tune::Candidate& r : able[*p.rest].usable)
        if (counted_ms(r.evidence, false) < whole_instead(p, b.offer, r.offer)) return false;
    }
    return true;
  }

  Status gather(const PartProgress& progress) {
    able.resize(parts.list.size());
    // Those of the cut first: once the build is interrupted nothing else is measured.
    std::vector<size_t> order;
    for (const bool greedy : {true, false})
      for (size_t k = 0; k < parts.list.size(); ++k)
        if (parts.list[k].greedy == greedy) order.push_back(k);
    for (const size_t k : order)
      if (!lock->locked() && !by_guess()) foresee(k);
    for (size_t n = 0; n < order.size(); ++n) {
      if (n == order.size() / 4) terms.tuner.foresee_samples();  // while the code of the first is tried
      const size_t k = order[n];
      const Part& p = parts.list[k];
      const auto& stop = terms.tuner.options().stop;
      able[k].stands = p.greedy || !(hopeless(p) || (stop && stop()));
      if (!able[k].stands) continue;
      if (progress && !by_guess()) progress(n, order.size(), p.region);
      Status found = contained([&] { return find_candidates(k); });
      if (!found.ok()) return std::move(found).error().at_node(region_name(p.region));
    }
    return Ok{};
  }

  // The build had no time left to try the parts of a chain: they stand by what their kernels expect.
  void stand_by_guesses() {
    const tune::Options& o = terms.tuner.options();
    if (lock->locked() || !o.measure || !o.stop || !o.stop()) return;
    for (size_t k = 0; k < parts.list.size(); ++k) {
      const Part& p = parts.list[k];
      if (!p.whole || !p.rest || p.joined) continue;
      const auto guessed = [](const tune::Candidate& c) { return c.offer.guess_ms > 0; };
      const std::vector<tune::Candidate>& whole = able[*p.whole].usable;
      if (able[*p.whole].best_ms() < 0 && std::none_of(whole.begin(), whole.end(), guessed)) continue;
      for (const size_t part : {k, *p.rest})
        if (Able& a = able[part]; !parts.list[part].greedy && a.usable.empty())
          a.stands = !(a.usable = guessed_candidates(terms, parts.list[part], &a.refusals)).empty();
    }
  }

  // Parts of the cut that may stay on the host with their neighbours there, where that costs less than the copies
  // between.
  void add_those_beside() {
    if (!has_sides(terms.backend) || !terms.tuner.options().measure || lock->locked()) return;
    std::vector<size_t> cut;
    std::vector<Neighbour> neighbours;
    for (size_t k = 0; k < able.size(); ++k) {
      if (!parts.list[k].greedy) continue;
      const Region& r = parts.list[k].region;
      Neighbour n{{}, host_only(terms.backend, able[k].usable), false};
      for (const auto* list : {&r.inputs, &r.outputs})
        std::copy_if(list->begin(), list->end(), std::back_inserter(n.values), [](auto* v) { return !is_weight(v); });
      cut.push_back(k);
      neighbours.push_back(std::move(n));
    }
    if (std::ranges::none_of(neighbours, &Neighbour::host_only)) return;
    for (size_t n = 0; n < cut.size(); ++n)
      neighbours[n].light = is_light(terms, region_graph(parts.list[cut[n]].region));
    for (const size_t n : tried_beside(neighbours))
      for (tune::Candidate& c : those_beside(terms, parts.list[cut[n]], &able[cut[n]].refusals))
        if (c.evidence.timed()) able[cut[n]].usable.push_back(std::move(c));
  }
  void add_piece(size_t k) {
    const Part& p = parts.list[k];
    const bool saves = has_sides(terms.backend) && joins_parts(parts, p);
    Able& a = able[k];
    Piece piece;
    piece.atoms = p.atoms;
    std::vector<size_t> ports;  // inputs that are no weights
    for (size_t i = 0; i < p.region.inputs.size(); ++i) {
      if (is_weight(p.region.inputs[i])) continue;
      ports.push_back(i);
      piece.inputs.push_back(prices.value_of(p.region.inputs[i]));
    }
    for (const ir::Value* v : p.region.outputs) piece.outputs.push_back(prices.value_of(v));
    std::vector<std::vector<Counted>> ways;
    for (size_t c = 0; a.stands && c < a.usable.size(); ++c) {
      const kernels::Offer& offer = a.usable[c].offer;
      if (own_only && calls_library(a.usable[c])) continue;
      Way way;
      // A time that was not believed says nothing: what was timed goes before it.
      const double unknown = a.best_ms() < 0 ? guessed_ms(offer, p.greedy) : kReferenceMs;
      const auto counted = saves ? counted_for_fewer_ms : hoping ? hoped_ms : counted_ms;
      way.ms = a.usable[c].evidence.timed() ? counted(a.usable[c].evidence, p.greedy) : unknown;
      const bool host = stays_home(terms.backend, a.usable[c]);
      for (size_t i : ports) way.in.push_back(prices.place_of(offer.inputs[i], host));
      for (const ir::Layout& l : offer.outputs) way.out.push_back(prices.place_of(l, host));
      const auto same = std::find_if(piece.ways.begin(), piece.ways.end(),
                                     [&](const Way& w) { return w.in == way.in && w.out == way.out; });
      const auto far = [](int place) { return place >= kMaxPlaces; };
      if (std::any_of(way.in.begin(), way.in.end(), far) || std::any_of(way.out.begin(), way.out.end(), far)) continue;
      const auto at = static_cast<size_t>(same - piece.ways.begin());
      if (at == ways.size()) ways.emplace_back();
      const tune::Evidence& e = a.usable[c].evidence;
      ways[at].push_back({c, way.ms, a.usable[c].workspace_bytes(), e.timed(), e.spread, e.max_error});
      if (same == piece.ways.end()) piece.ways.push_back(std::move(way));
    }
    for (size_t k = 0; k < ways.size(); ++k) {
      a.of_way.push_back(taken_of(ways[k]).candidate);
      piece.ways[k].ms = taken_of(ways[k]).ms;
    }
    if (const int home = prices.place_of({}, has_sides(terms.backend)); p.greedy && piece.ways.empty())
      piece.ways.push_back(
          {kReferenceMs, std::vector<int>(piece.inputs.size(), home), std::vector<int>(piece.outputs.size(), home)});
    puzzle.pieces.push_back(std::move(piece));
  }

  void state_puzzle() {
    puzzle = {};
    for (Able& a : able) a.of_way.clear();
    puzzle.atoms = parts.atoms;
    for (size_t k = 0; k < parts.list.size(); ++k) add_piece(k);
    puzzle.values = static_cast<int>(prices.values().size());
    // Views read row-major memory, and so do results of the graph.
    for (const ir::Value* v : prices.values())
      puzzle.wanted.push_back(terms.graph.is_output(v) ||
                              std::any_of(v->users.begin(), v->users.end(), [](auto* u) { return is_view(*u); }));
    puzzle.price = [this](int v, int from, int to) { return prices.between(v, from, to); };
  }

  std::optional<Solved> solved(bool hope) {
    hoping = hope;
    state_puzzle();
    return solve(puzzle);
  }

  const tune::Candidate* way_of(const Picked& p) const {
    const Able& a = able[p.piece];
    return a.of_way.empty() ? nullptr : &a.usable[a.of_way[p.way]];
  }

  // What a solution of the puzzle costs but for steps without a time, which stand in it with one that is worse than
  // any: beside that nothing would be worth a library.
  double timed_cost(const Solved& solution) const {
    double ms = solution.cost;
    for (const Picked& p : solution.picked)
      if (const auto* c = way_of(p); !c || !c->evidence.timed()) ms -= puzzle.pieces[p.piece].ways[p.way].ms;
    return ms;
  }

  // A cover of own kernels alone instead of `all` where a library saves the whole too little; `all` is the puzzle's.
  std::optional<Solved> without_library(std::optional<Solved> all) {
    const auto calls = [&](const Picked& p) { return way_of(p) && calls_library(*way_of(p)); };
    if (!all || !chosen_by_time(terms, lock->locked()) || std::ranges::none_of(all->picked, calls)) return all;
    const double with_library = timed_cost(*all);
    own_only = true;
    std::optional<Solved> own = solved(false);
    const auto lacks = [&](const Picked& p) { return !way_of(p) && !able[p.piece].usable.empty(); };
    if (own && std::ranges::none_of(own->picked, lacks) && !worth_a_library(with_library, timed_cost(*own))) return own;
    own_only = false;
    return solved(false);
  }

  // The cover of least cost of what is left.
  std::optional<Solved> settled_on() {
    own_only = false;
    return without_library(solved(false));
  }

  // Parts that are not of the cut and were picked, each with those of the cut in whose stead it stands.
  void contested(const Solved& solved, std::vector<size_t>* all) const {
    std::vector<size_t>& out = *all;
    for (const Picked& picked : solved.picked) {
      const Part& p = parts.list[picked.piece];
      if (p.greedy) continue;
      for (size_t k = 0; k < parts.list.size(); ++k) {
        const std::vector<int>& atoms = parts.list[k].atoms;
        const bool overlap =
            std::find_first_of(atoms.begin(), atoms.end(), p.atoms.begin(), p.atoms.end()) != atoms.end();
        if (parts.list[k].greedy && overlap) out.push_back(k);
      }
      out.push_back(picked.piece);
    }
  }

  // True: a time is not what it was.
  bool visit_again(const std::vector<size_t>& list) {
    std::map<std::string, tune::Evidence> seen;
    bool changed = false;
    for (const size_t k : list) {
      const Region& r = parts.list[k].region;
      const tune::Candidate* best = able[k].best();
      if (!best || best->evidence.visits > tune::kMaxVisits) continue;
      tune::Evidence& known = seen[problem_of(r, *best)];
      if (known.timed()) continue;
      known = best->evidence;
      if (const auto here = exec::bind_region(region_graph(r), terms.tuned_for); here.ok())
        known = terms.tuner.time_again(*here, constant_inputs(r), *best);
      changed = changed || !(known == best->evidence);
    }
    for (size_t k = 0; changed && k < able.size(); ++k)
      for (tune::Candidate& c : able[k].usable)
        if (const auto it = seen.find(problem_of(parts.list[k].region, c)); it != seen.end()) {
          c.evidence.time_ms = it->second.time_ms;
          c.evidence.spread = it->second.spread;
          c.evidence.visits = it->second.visits;
          c.evidence.samples = it->second.samples;
        }
    return changed;
  }

  // Tries what was picked and only offered until now; where it is wrong the next guess stands there. False: all was
  // tried.
  Result<bool> try_picked(const Solved& solved, const PartProgress& progress) {
    if (!by_guess()) return false;  // what stands by guesses in a build without time left is not tried either
    std::vector<size_t> fresh;
    for (const Picked& p : solved.picked)
      if (!able[p.piece].tried) fresh.push_back(p.piece);
    for (const size_t k : fresh) foresee(k);
    terms.tuner.foresee_samples();
    for (size_t n = 0; n < fresh.size(); ++n) {
      const size_t k = fresh[n];
      if (progress) progress(n, fresh.size(), parts.list[k].region);
      able[k].tried = true;
      Status found = contained([&] { return find_candidates(k); });
      if (!found.ok()) return std::move(found).error().at_node(region_name(parts.list[k].region));
    }
    return !fresh.empty();
  }

  // True: kernels that were picked are wrong on a sample, and are left out.
  bool leave_out_wrong(const Solved& solved) {
    WrongKernels wrong;
    for (const Picked& p : solved.picked)
      if (const Able& a = able[p.piece]; !a.of_way.empty()) add_wrong(a.usable[a.of_way[p.way]], &terms.tuner, &wrong);
    for (size_t k = 0; k < able.size() && !wrong.empty(); ++k) {
      leave_out(wrong, &able[k].usable, &able[k].refusals);
      able[k].stands = able[k].stands && (parts.list[k].greedy || !able[k].usable.empty());
    }
    return !wrong.empty();
  }

  Choice choice_of(const Picked& picked) {
    Able& a = able[picked.piece];
    Choice c;
    c.refusals = std::move(a.refusals);
    c.reference = a.of_way.empty();
    for (size_t k = 0; k < a.usable.size(); ++k)
      if (c.reference || k != a.of_way[picked.way]) c.others.push_back(a.usable[k]);
    if (!c.reference) c.candidate = std::move(a.usable[a.of_way[picked.way]]);
    return c;
  }

  Cover cover_of(const Solved& solved) {
    Cover out;
    std::unordered_map<const ir::Node*, Choice> by_node;
    double counted = 0;
    for (const Picked& p : solved.picked) {
      Region& r = parts.list[p.piece].region;
      Choice c = choice_of(p);
      counted += puzzle.pieces[p.piece].ways[p.way].ms;
      if (!c.reference) out.predicted_ms += std::max(0.0, c.candidate.evidence.time_ms);
      by_node.emplace(r.nodes.front(), std::move(c));
      out.regions.push_back(std::move(r));
    }
    out.conversion_ms = std::max(0.0, solved.cost - counted);
    out.predicted_ms += out.conversion_ms;
    out.regions = in_order(terms.graph, std::move(out.regions));
    for (const Region& r : out.regions) out.choices.push_back(std::move(by_node.at(r.nodes.front())));
    return out;
  }
};

}  // namespace

Result<Cover> choose_cover(const Terms& terms, Parts parts, plan::LockReader* lock, const PartProgress& progress) {
  Chooser c{terms, std::move(parts), lock, {}, {}};
  PERI_TRY(c.gather(progress));
  c.stand_by_guesses();
  c.add_those_beside();
  std::optional<Solved> solved = c.solved(false);
  for (int choice = 1; choice < kMaxChoices && solved; ++choice) {
    std::vector<size_t> doubtful;
    c.contested(*solved, &doubtful);
    if (const auto hoped = c.solved(true)) c.contested(*hoped, &doubtful);
    const bool changed = c.visit_again(doubtful);
    solved = c.solved(false);
    if (!changed) break;
  }
  solved = c.without_library(std::move(solved));
  for (bool settled = false; solved && !settled;) {
    PERI_ASSIGN(const bool tried, c.try_picked(*solved, progress));
    settled = !tried && !c.leave_out_wrong(*solved);
    if (!settled) solved = c.settled_on();
  }
  if (!solved) return internal_error("no cover of the graph");
  return c.cover_of(*solved);
}

}  // namespace peri::lower
