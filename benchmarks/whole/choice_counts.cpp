// What constants of choices and verdicts rest on, by counts that no clock and no other work can move: each is varied
// around its value on seeded cases. Prints tables in Markdown. Usage: choice_counts [width] [visits] [answers]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "ir/graph.hpp"
#include "lower/search.hpp"
#include "ops/entry.hpp"
#include "tune/rivals.hpp"

namespace {
using namespace peri;

// --- lower/search.hpp: kWidth ---

// A chain of atoms with branches that are read much later, pieces of one to three atoms, four places: more beginnings
// differ than a narrow search keeps.
lower::Puzzle puzzle(uint64_t seed, int atoms) {
  constexpr int kPlaces = 4;
  Rng rng(seed);
  lower::Puzzle p;
  p.atoms = atoms;
  p.values = atoms + 1;
  std::vector<std::vector<int>> reads(static_cast<size_t>(atoms));
  std::vector<int> readers(static_cast<size_t>(atoms) + 1, 0);
  for (int k = 0; k < atoms; ++k) {
    reads[static_cast<size_t>(k)].push_back(k);
    if (rng.below(3) == 0 && k > 2) reads[static_cast<size_t>(k)].push_back(static_cast<int>(rng.below(k)));
    for (const int v : reads[static_cast<size_t>(k)]) ++readers[static_cast<size_t>(v)];
  }
  for (int first = 0; first < atoms; ++first)
    for (int last = first; last < std::min(atoms, first + 3); ++last) {
      bool alone = true;  // nothing within is read elsewhere
      for (int k = first; k < last; ++k) alone = alone && readers[static_cast<size_t>(k + 1)] == 1;
      if (!alone) break;
      lower::Piece piece;
      for (int k = first; k <= last; ++k) {
        piece.atoms.push_back(k);
        for (const int v : reads[static_cast<size_t>(k)])
          if (v <= first && std::find(piece.inputs.begin(), piece.inputs.end(), v) == piece.inputs.end())
            piece.inputs.push_back(v);
      }
      piece.outputs = {last + 1};
      for (int w = 0; w < 4; ++w) {
        lower::Way way;
        way.ms = static_cast<double>(piece.atoms.size()) * (0.5 + rng.uniform());
        for (size_t i = 0; i < piece.inputs.size(); ++i) way.in.push_back(static_cast<int>(rng.below(kPlaces)));
        way.out.push_back(static_cast<int>(rng.below(kPlaces)));
        piece.ways.push_back(way);
      }
      p.pieces.push_back(piece);
    }
  p.wanted.assign(static_cast<size_t>(p.values), false);
  for (int v = 1; v < p.values; ++v) p.wanted[static_cast<size_t>(v)] = readers[static_cast<size_t>(v)] == 0;
  std::vector<double> prices;
  for (int k = 0; k < p.values * kPlaces * kPlaces; ++k) prices.push_back(0.3 * rng.uniform());
  p.price = [prices](int v, int from, int to) {
    return prices[static_cast<size_t>((v * kPlaces + from) * kPlaces + to)];
  };
  return p;
}

void count_widths() {
  constexpr size_t kMaxWidth = 2048;
  constexpr int kSeeds = 20;
  std::printf("## `kWidth` of `lower/search.hpp`: %zu\n\n", lower::kWidth);
  std::printf("%d seeded graphs each; cost over that of a search %zu wide: mean, worst, and graphs beyond 1.02.\n\n",
              kSeeds, kMaxWidth);
  std::printf("| width | 20 atoms | 60 atoms | 120 atoms |\n|---:|---|---|---|\n");
  const std::vector<int> sizes = {20, 60, 120};
  std::vector<std::vector<double>> widest(sizes.size());
  for (size_t n = 0; n < sizes.size(); ++n)
    for (uint64_t seed = 0; seed < kSeeds; ++seed)
      widest[n].push_back(lower::solve(puzzle(seed, sizes[n]), kMaxWidth)->cost);
  for (const size_t width : {1, 4, 16, 64, 256, 1024}) {
    std::printf("| %zu |", width);
    for (size_t n = 0; n < sizes.size(); ++n) {
      double sum = 0, worst = 0;
      int beyond = 0;
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const double ratio = lower::solve(puzzle(seed, sizes[n]), width)->cost / widest[n][seed];
        sum += ratio;
        worst = std::max(worst, ratio);
        beyond += ratio > 1.02;
      }
      std::printf(" %.4f, %.4f, %d |", sum / kSeeds, worst, beyond);
    }
    std::printf("\n");
  }
  std::printf("\n");
}

// --- tune/rivals.hpp: kMaxVisits, kSameTime, kMaxRivals ---

// What a machine of phases says of a kernel: measurements differ by 1 % and a visit falls on a slow phase, 1.2 to 1.8
// times as long, with the chance given (2026-11-22_one_lowering.md has one of 1.76).
double visit_of(double ms, double slow, Rng& rng) {
  const double phase = rng.uniform() < slow ? 1.2 + 0.6 * rng.uniform() : 1;
  return ms * phase * (1 + 0.01 * std::fabs(rng.normal()));
}

struct Picks {
  int wrong = 0;      // the choice is more than 3 % slower than the fastest
  double loss = 0;    // mean of by how much
  double visits = 0;  // mean, of all candidates of a problem
};
Picks picks(double slow, size_t most, const tune::Patience& patience) {
  constexpr int kProblems = 4000;
  Picks out;
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    Rng rng(seed);
    std::vector<double> ms;
    for (int k = 0; k < 12; ++k) ms.push_back(1 + 1.5 * rng.uniform());
    std::vector<tune::Evidence> found;
    int visits = 0;
    const auto visit = [&](size_t k) {
      tune::Evidence e;
      e.time_ms = visit_of(ms[k], slow, rng);
      e.samples = e.visits = 1;
      e.max_error = 0;
      ++visits;
      return e;
    };
    for (size_t k = 0; k < ms.size(); ++k) found.push_back(visit(k));
    if (patience.visits > 1) tune::visit_rivals(found, most, visit, [] { return true; }, patience);
    size_t best = 0;
    for (size_t k = 1; k < found.size(); ++k)
      if (found[k].time_ms < found[best].time_ms) best = k;
    const double loss = ms[best] / *std::min_element(ms.begin(), ms.end()) - 1;
    out.wrong += loss > 0.03;
    out.loss += loss / kProblems;
    out.visits += static_cast<double>(visits) / kProblems;
  }
  return out;
}

void count_visits() {
  std::printf("## `kMaxVisits` %lld, `kSameTime` %g, `kMaxRivals` %zu of `tune/rivals.hpp`\n\n",
              static_cast<long long>(tune::kMaxVisits), tune::kSameTime, tune::kMaxRivals);
  std::printf(
      "4000 problems of 12 candidates of 1 to 2.5 ms, a tenth and a third of the visits on slow phases: choices more "
      "than\n"
      "3 %% slower than the fastest, mean loss, and visits a problem.\n\n");
  std::printf("| visits at most | same within | rivals | a tenth slow | a third slow |\n|---:|---:|---:|---|---|\n");
  const auto row = [](int64_t visits, double same, size_t most) {
    std::printf("| %lld | %g | %zu |", static_cast<long long>(visits), same, most);
    for (const double slow : {0.1, 0.33}) {
      const Picks p = picks(slow, most, {same, visits});
      std::printf(" %d, %.2f %%, %.1f |", p.wrong, 100 * p.loss, p.visits);
    }
    std::printf("\n");
  };
  for (const int64_t visits : {1, 2, 3, 4, 6, 8}) row(visits, tune::kSameTime, tune::kMaxRivals);
  for (const double same : {0.003, 0.01, 0.1}) row(tune::kMaxVisits, same, tune::kMaxRivals);
  for (const size_t most : {2, 4, 8, 12}) row(tune::kMaxVisits, tune::kSameTime, most);
  std::printf("\n");
}

// --- tune/expected.cpp and judge/whole.cpp: kAnswers; judge/followed.cpp: kMaxShakes ---

ir::Graph parsed(const std::string& text) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || !g->sort().ok() || !ops::infer_graph(*g).ok()) std::abort();
  return std::move(*g);
}

// Sums of so many products of integers with 0.35, in steps of 0.7: every odd one is a tie.
struct Ties {
  int64_t terms;
  ir::Graph graph;
  std::vector<ops::RefTensor> in;
  std::vector<int64_t> exact, engine;  // of an engine that sums in float32, in another order in each quarter
  std::vector<bool> tie;               // where the exact sum lies between two bytes
  int64_t columns = 512;

  explicit Ties(int64_t k) : terms(k) {
    graph = parsed(
        "graph { input x: f32[1," + std::to_string(k) + "]; input w: f32[" + std::to_string(k) + "," +
        std::to_string(columns) +
        "]; const s: f32[] = [0.7]; const z: u8[] = [128]; m = matmul(x, w); y = quantize_linear(m, s, z); output y }");
    Rng rng(static_cast<uint64_t>(k));
    ops::RefTensor x = ops::make_ref(DType::kF32, {1, k}), w = ops::make_ref(DType::kF32, {k, columns});
    for (double& v : x.f) v = 0.35f;
    for (double& v : w.f) v = static_cast<double>(rng.below(9) - 4);
    for (int64_t c = 0; c < columns; ++c) {
      const auto term = [&](int64_t n) {
        return 0.35f * static_cast<float>(w.f[static_cast<size_t>(n * columns + c)]);
      };
      int64_t units = 0;
      for (int64_t n = 0; n < k; ++n) units += static_cast<int64_t>(w.f[static_cast<size_t>(n * columns + c)]);
      tie.push_back(units % 2 != 0);
      float sum = 0, other = 0;
      for (int64_t n = 0; n < k; ++n) (c % 4 == 0 || n % 2 == 0 ? sum : other) += term(c % 4 == 3 ? k - 1 - n : n);
      engine.push_back(std::clamp<int64_t>(std::lrint(static_cast<double>((sum + other) / 0.7f)) + 128, 0, 255));
    }
    in = {std::move(x), std::move(w)};
    exact = answer(0);
  }
  std::vector<int64_t> answer(uint64_t seed) const {
    ops::RefOptions options{unit_roundoff(DType::kF32), 1, false, {}};
    options.shake = seed;
    return (*ops::run_reference(graph, in, options))[0].i;
  }
};

void count_answers() {
  std::printf(
      "## `kAnswers` 12 of `tune/expected.cpp` and `judge/whole.cpp`, `kMaxShakes` 64 of `judge/followed.cpp`\n\n");
  std::printf(
      "512 sums of K products rounded to bytes, half of them at a tie, by an engine that sums in float32 in another "
      "order: how\n"
      "many part from float64, how many of these so many shaken answers do not reach, and at how many elements that\n"
      "are no tie they reach a unit more or less.\n\n");
  std::printf(
      "| K | part | 1 | 2 | 4 | 8 | 12 | 16 | 32 | 64 | a unit off a tie is reached "
      "|\n|---:|---:|---|---|---|---|---|---|---|---|---|\n");
  for (const int64_t terms : {16, 64, 256, 1024}) {
    const Ties t(terms);
    std::vector<bool> open;
    int parted = 0;
    for (size_t c = 0; c < t.exact.size(); ++c) {
      open.push_back(t.exact[c] != t.engine[c]);
      parted += open.back();
    }
    std::vector<int64_t> low = t.exact, high = t.exact;
    std::printf("| %lld | %d |", static_cast<long long>(terms), parted);
    for (uint64_t seed = 1; seed <= 64; ++seed) {
      const std::vector<int64_t> shaken = t.answer(seed);
      for (size_t c = 0; c < shaken.size(); ++c) {
        low[c] = std::min(low[c], shaken[c]);
        high[c] = std::max(high[c], shaken[c]);
        if (t.engine[c] >= low[c] && t.engine[c] <= high[c]) open[c] = false;
      }
      if ((seed & (seed - 1)) == 0 || seed == 12) std::printf(" %td |", std::count(open.begin(), open.end(), true));
    }
    int reached = 0, off = 0;
    for (size_t c = 0; c < low.size(); ++c) {
      off += !t.tie[c];
      reached += !t.tie[c] && (t.exact[c] + 1 <= high[c] || t.exact[c] - 1 >= low[c]);
    }
    std::printf(" %d of %d |\n", reached, off);
  }
  std::printf("\n");
}
}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::pair<const char*, void (*)()>> all = {
      {"width", count_widths}, {"visits", count_visits}, {"answers", count_answers}};
  for (int k = 1; k < argc; ++k)
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return std::strcmp(one.first, argv[k]) == 0; })) {
      std::fprintf(stderr, "usage: choice_counts [width] [visits] [answers]\n");
      return 2;
    }
  for (const auto& [name, count] : all)
    if (argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* a) { return std::strcmp(a, name) == 0; }))
      count();
  return 0;
}
