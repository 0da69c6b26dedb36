// Choice of tiles, and the constants in their text.
#include "kernels/cuda/code/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/cluster.hpp"
#include "kernels/cuda/code/tiles_entry.hpp"
#include "kernels/cuda/code/tiles_text.hpp"

namespace peri::kernels::cuda {

namespace {
// A block's tile of the result, cut among so many warps down and across.
struct Tile {
  int m, n, down, across;
  int threads() const { return down * across * 32; }
};
constexpr Tile kTiles[] = {{128, 256, 2, 4}, {256, 128, 4, 2}, {128, 128, 2, 4}, {128, 128, 2, 2}, {128, 64, 2, 2},
                           {64, 128, 2, 2},  {64, 64, 2, 2},   {128, 32, 4, 1},  {32, 128, 1, 4},  {64, 32, 2, 2},
                           {32, 64, 2, 2},   {32, 32, 2, 2},   {16, 64, 1, 4},   {64, 16, 4, 1},   {16, 32, 1, 2}};
constexpr int64_t kSplits[] = {1, 2, 4, 8};  // parts of the depth, each by blocks of its own
static_assert(kSplits[3] <= kMaxCluster);
constexpr int64_t kPart = 64;          // a part of the depth is a multiple of it: the deepest step of derived_depth()
constexpr size_t kMoreOfClusters = 3;  // offers with clusters than without, for each usual m

int64_t blocks_of(const Tile& t, const TiledProduct& p) {
  return p.batch * ((p.m + t.m - 1) / t.m) * ((p.n + t.n - 1) / t.n);
}
int64_t derived_depth(const TiledProduct& p) { return p.k <= 16 ? 16 : p.k <= 32 || p.k % 64 == 32 ? 32 : 64; }
// As many steps ahead as leave room for a second block beside it.
int64_t derived_stages(const TiledProduct& p, const Tile& t, int64_t tk) {
  const int64_t step = (t.m + t.n) * tk * 2;
  return p.k <= tk ? 2 : p.k <= 2 * tk || step * 4 > (64 << 10) ? 3 : 4;
}
// A product of few steps fills no more stages. A cluster's blocks hold all of their part of a tile at the end.
int64_t shared_bytes(const Tile& t, int64_t tk, int64_t stages, int64_t k, bool cluster) {
  const int64_t filled = std::clamp<int64_t>((k + tk - 1) / tk, 1, stages);
  const int64_t loop = filled * (t.m + t.n) * tk * 2, strips = t.down * t.across * 16 * (t.n / t.across + 4) * 4;
  const int64_t end = cluster ? int64_t{t.m} * (t.n + 8) * 4 : strips;
  return std::max(loop, end);
}

// An estimate in ns, its constants fitted to 1,200 launches on an H200: a block's step along the depth takes the time
// of the tensor cores or of the transfer from L2 where several share a multiprocessor, and waits for memory where it is
// alone; memory bandwidth bounds the whole; parts are reduced by a separate launch, or at the end by the blocks of a
// cluster (not fitted: barriers of a cluster, a tile that a block reads of the others, clusters that share
// multiprocessors). The first ten by it contain the best except for 0.4 %, the first alone except for 7.7 %:
// benchmarks/results/2026-11-22_trials_cuda.md.
double guess(const Tile& t, int64_t split, bool cluster, const TiledProduct& p, const GpuLimits& gpu) {
  constexpr double kLaunch = 1217, kWait = 128, kMacsPerNs = 1410, kBytesPerNs = 53, kEnd = 1236, kEndOfElement = 0.089;
  constexpr double kJoin = 1631, kJoinBytesPerNs = 3800, kMemoryBytesPerNs = 2210, kGoodReuse = 18.6;
  constexpr double kMeetings = 400, kMeetingOfPart = 120, kPeerBytesPerNs = 60, kCrowded = 0.1;
  constexpr double kMade = 1.3;  // not fitted: through registers, but sixteen bytes at a time
  const int64_t depth = derived_depth(p), ahead = derived_stages(p, t, depth);
  const auto tk = static_cast<double>(depth), parts = static_cast<double>(split);
  const double m = t.m, n = t.n, threads = t.threads(), warp_m = m / t.down, warp_n = n / t.across;
  // Small tiles of a warp read each operand more often from shared memory than they multiply it.
  const double reuse = warp_m * warp_n / (warp_m + warp_n);
  const double rate = kMacsPerNs * std::sqrt(std::min(1.0, reuse / kGoodReuse)), slow = !p.a_wide || !p.b_wide ? 2
                                                                                        : p.a_made             ? kMade
                                                                                                               : 1;
  const double registers = std::min(255.0, 50 + warp_m * warp_n / 32 + warp_m / 4 + warp_n / 4);
  // Of 227 KiB on the H200 that it is fitted to, 227e3 bytes.
  const double shared = static_cast<double>(gpu.shared_bytes) * 1000 / 1024;
  const double resident = std::max(
      1.0, std::floor(std::min({shared / static_cast<double>(shared_bytes(t, depth, ahead, p.k, cluster) + 1024),
                                65536 / (registers * threads), gpu.threads / threads, 16.0})));
  const double steps = std::ceil(std::ceil(static_cast<double>(p.k) / kPart / parts) * kPart / tk);
  const double work = std::max(m * n * tk / rate, (m + n) * tk * 2 / kBytesPerNs) * slow;
  const double wait = kWait / (static_cast<double>(ahead) - 1) * slow, end = m * n * kEndOfElement;
  const double join = cluster ? kMeetings + kMeetingOfPart * parts + m * n * 4 / kPeerBytesPerNs : 0;
  const double alone = kWait + steps * std::max(work, wait) + kEnd + end + join;
  const double each = std::ceil(static_cast<double>(blocks_of(t, p)) * parts / gpu.multiprocessors);
  const double results = static_cast<double>(p.batch * p.m) * static_cast<double>(p.n);
  const double deep = static_cast<double>(p.batch * p.k);
  const double bytes =
      results * (2 + p.chain_bytes) + deep * (static_cast<double>(p.m) * p.a_bytes + 2 * static_cast<double>(p.n));
  const double crowded = cluster ? 1 + kCrowded * (each - 1) : 1;
  const double all = std::max(
      {std::ceil(each / resident) * alone * crowded, each * (steps * work + end) + kWait, bytes / kMemoryBytesPerNs});
  return kLaunch + all + (split > 1 && !cluster ? kJoin + results * (6 * parts + 2) / kJoinBytesPerNs : 0);
}

Result<const Tile*> tile_of(std::string_view config) {
  PERI_ASSIGN(const int64_t tm, config_int(config, "tm", 16, 256, 64));
  PERI_ASSIGN(const int64_t tn, config_int(config, "tn", 16, 256, 64));
  PERI_ASSIGN(const int64_t warps, config_int(config, "warps", 1, 8, 0));
  for (const Tile& t : kTiles)
    if (t.m == tm && t.n == tn && (warps == 0 || t.down * t.across == warps)) return &t;
  return invalid("no tile of this size");
}

std::string numbers(const TiledProduct& p, const Tile& t, int64_t tk, int64_t stages, int64_t split, bool cluster,
                    Signature* s) {
  std::string out;
  const auto number = [&](const char* name, int64_t v) {
    out += format("#define PERI_%s %lld\n", name, static_cast<long long>(v));
  };
  number("TM", t.m);
  number("TN", t.n);
  number("TK", tk);
  number("DOWN", t.down);
  number("ACROSS", t.across);
  number("STAGES", stages);
  number("SPLIT", split);
  number("PART", kPart);
  number("CLUSTER", cluster);
  number("PARTED", split > 1 && !cluster);
  number("A_ALONG_M", p.a_along_m);
  number("B_ALONG_N", p.b_along_n);
  number("A_WIDE", p.a_wide);
  number("A_MADE", p.a_made);
  number("A_HALVES", p.a_halves);
  number("A_PADS", !p.a_beside.empty());
  out += "#define PERI_A_BESIDE " + (p.a_beside.empty() ? "0u" : p.a_beside) + "\n";
  number("B_WIDE", p.b_wide);
  number("C_WIDE", p.c_wide);
  out += std::string("#define PERI_MULTIPLY peri_mma_") + std::string(dtype_name(p.type)) + "\n";
  const bool whole = p.type == DType::kU8 || p.type == DType::kI8;
  number("BYTES", whole);
  number("ROWS", p.row_sums);
  out +=
      std::string("#define PERI_ADD(A, B) ") + (whole ? "peri_bits(peri_word(A) + peri_word(B))\n" : "((A) + (B))\n");
  out += "#define PERI_M " + s->size(p.m) + "\n";
  out += "#define PERI_BATCH " + (p.batch == 1 ? "1" : s->size(p.batch)) + "\n";
  // What no tile reaches beyond.
  number("WHOLE_N", p.sizes_are_numbers && p.n % t.n == 0);
  number("WHOLE_K", p.sizes_are_numbers && p.k % tk == 0);
  out += "#define PERI_N " + (p.sizes_are_numbers ? std::to_string(p.n) : s->size(p.n)) + "\n";
  out += "#define PERI_K " + (p.sizes_are_numbers ? std::to_string(p.k) : s->size(p.k)) + "\n";
  if (split > 1 && !cluster) out += "#define PERI_PARTS " + s->workspace() + "\n";
  return out;
}
}  // namespace

std::vector<TileConfig> tile_configs(const TiledProduct& p, const GpuLimits& gpu, size_t most) {
  struct Way {
    const Tile* tile;
    int64_t split;
    bool cluster;
    double guess;
    bool good = false;
  };
  std::vector<Way> all;
  const int64_t depth = derived_depth(p);
  // Of two tiles that mirror each other clusters have the wide one, whose rows are stored in longer runs.
  for (const Tile& t : kTiles)
    for (const int64_t split : kSplits)
      for (const bool cluster : {false, true})
        if ((!cluster || (gpu.clusters && split > 1 && t.n >= t.m)) && (cluster || split == 1 || !p.row_sums) &&
            shared_bytes(t, depth, derived_stages(p, t, depth), p.k, cluster) <= gpu.shared_bytes)
          all.push_back({&t, split, cluster, 0});
  const auto sort_for = [&](int64_t m) {
    TiledProduct there = p;
    there.m = m;
    for (Way& w : all) w.guess = guess(*w.tile, w.split, w.cluster, there, gpu);
    std::stable_sort(all.begin(), all.end(), [](const Way& a, const Way& b) { return a.guess < b.guess; });
  };
  for (const int64_t m : p.usual_m) {
    sort_for(m);
    size_t plain = 0, clusters = 0;
    for (Way& w : all) w.good = w.good || (w.cluster ? ++clusters <= most + kMoreOfClusters : ++plain <= most);
  }
  sort_for(p.m);
  std::vector<TileConfig> out;
  for (const Way& w : all)
    if (w.good)
      out.push_back({format("tm=%d tn=%d warps=%d split=%d", w.tile->m, w.tile->n, w.tile->down * w.tile->across,
                            static_cast<int>(w.split)) +
                         (w.cluster ? " cluster=1" : ""),
                     w.guess / 1e6});
  return out;
}

const std::vector<Tunable>& tile_tunables() {
  static const std::vector<Tunable> kAll = {{"tk", "depth of a step of a tile", {64, 32, 16}},
                                            {"stages", "steps under way in shared memory", {3, 4, 2}}};
  return kAll;
}

Result<TileSettings> tile_settings(std::string_view config) {
  static const Kernel kTunables = {.tunables = tile_tunables()};
  TileSettings out;
  PERI_ASSIGN(out.tk, setting(kTunables, config, "tk"));
  PERI_ASSIGN(out.stages, setting(kTunables, config, "stages"));
  return out;
}

Result<std::unique_ptr<Instance>> tile_instance(const TiledProduct& p, std::string_view config, int64_t tk,
                                                int64_t stages, int64_t most_elements, const GpuLimits& gpu,
                                                Signature* s) {
  PERI_ASSIGN(const Tile* const tile, tile_of(config));
  PERI_ASSIGN(const int64_t split, config_int(config, "split", 1, 8, 1));
  PERI_ASSIGN(const int64_t joined, config_int(config, "cluster", 0, 1, 0));
  if (tk == 0) tk = derived_depth(p);
  if (stages == 0) stages = derived_stages(p, *tile, tk);
  const int64_t together = shared_bytes(*tile, tk, stages, p.k, true);
  const bool cluster = joined != 0 && split > 1 && gpu.clusters && together <= gpu.shared_bytes;
  const bool parted = split > 1 && !cluster;
  const int64_t blocks = blocks_of(*tile, p) * split, count = p.batch * p.m * p.n;
  if (blocks > kMaxBlocks) return refused("more tiles than a grid has blocks");
  if (p.row_sums && parted) return refused("sums of rows in parts, which a GPU without clusters does not join");
  const std::string body = numbers(p, *tile, tk, stages, split, cluster, s) + p.functions + std::string(tiles_text()) +
                           std::string(parted ? join_text() : "");
  std::vector<KernelLaunch> out;
  if (!p.first.empty() && parted) return invalid("its workspace has no room for parts of the depth");
  if (blocks > 0) {
    const std::string head = std::string(tiles_head()) + std::string(cluster ? cluster_text() : "");
    const std::string text = s->text(std::max(most_elements, parted ? split * count : count), head + body);
    if (!p.first.empty()) out.push_back(s->launch(p.first, text, blocks_for(p.first_threads, 256), 256));
    out.push_back(s->launch("peri_tiles", text, blocks, tile->threads()));
    out.back().shared_bytes = cluster ? together : shared_bytes(*tile, tk, stages, p.k, false);
    out.back().cluster = cluster ? static_cast<int>(split) : 1;
    const int64_t turns = p.c_wide ? count / 8 : count;
    if (parted) out.push_back(s->launch("peri_join_parts", text, blocks_for(turns, 256), 256));
  }
  return LaunchInstance::make(std::move(out),
                              parted ? static_cast<size_t>(split * count) * sizeof(float) : p.first_bytes, p.packed);
}

std::vector<Offer> tile_offers(const Offer& offer, const TiledProduct& product, const GpuLimits& gpu, size_t most) {
  std::vector<Offer> out;
  for (TileConfig& config : tile_configs(product, gpu, most)) {
    out.push_back(offer);
    out.back().guess_ms = config.guess_ms;
    out.back().config = std::move(config.text);
  }
  return out;
}

}  // namespace peri::kernels::cuda
