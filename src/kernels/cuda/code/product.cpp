// Configurations of the tiled product, their estimates, and launches.
#include "kernels/cuda/code/product.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/code/product_text.hpp"

namespace peri::kernels::cuda {

namespace {
// Without warps: sums in float32 by 256 threads. With them: in float64, of at least 16 rows and 8 columns each.
struct Tile {
  int m, n;
  int down = 0, across = 0;  // warps
  bool doubles() const { return down != 0; }
  int threads() const { return doubles() ? 32 * down * across : 256; }
};
constexpr Tile kTiles[] = {{128, 128},      {64, 64},       {32, 32},         {64, 16},
                           {16, 64},        {16, 16},       {128, 128, 2, 4}, {128, 64, 4, 2},
                           {64, 128, 2, 4}, {64, 64, 2, 4}, {64, 32, 4, 1},   {64, 32, 4, 2},
                           {32, 64, 1, 4},  {32, 64, 2, 4}, {32, 32, 2, 2},   {16, 64, 1, 4}};
constexpr int kMaxWarps = 8;             // of the tiles above
constexpr int kSplits[] = {1, 2, 4, 8};  // parts of the depth, each by blocks of its own
constexpr int kStages = 3;               // of tiles in shared memory, for sums in float64
constexpr double kLaunchNs = 2500;       // a guess, as below
constexpr double kOfWhole = 1.5;         // int32 beside float32: half as many products at a time, the rest alike

int64_t blocks_of(Tile t, int64_t batch, int64_t m, int64_t n) {
  return batch * ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
}
// Estimates in ns, not measurements (see launch.hpp): a step of 16 along the depth waits for memory, or for the other
// blocks of its multiprocessor; parts are reduced by a separate launch, or by a cluster.
double guess_of_floats(const Tile& t, int split, const Product& p, const GpuLimits& gpu) {
  constexpr double kWait = 700, kLaunch = 2500, kBytesPerNs = 2000;
  const double work = 0.18 * t.m * t.n + 3.2 * (t.m + t.n);
  const double steps = std::ceil(static_cast<double>(p.k) / kProductDepth / split);
  const double blocks = static_cast<double>(blocks_of(t, p.batch, p.m, p.n)) * split;
  const double join = kLaunch + 8.0 * split * static_cast<double>(p.batch * p.m * p.n) / kBytesPerNs;
  return std::max(steps * (kWait + work), blocks * steps * work / gpu.multiprocessors) + (split > 1 ? join : 0);
}
// Constants fitted by eye to the candidates of 15 steps on an H200; kOfGathered and kOfJoined were not timed again:
// benchmarks/results/2026-11-30_float32_sums.json, "steps_ms".
double guess_of_doubles(const Tile& t, int split, bool cluster, const Product& p, const GpuLimits& gpu) {
  constexpr double kWait = 100, kOfElement = 0.06, kOfLine = 1.2, kOfGathered = 4;
  constexpr double kLaunch = 2500, kBytesPerNs = 4000, kMeetings = 500, kOfJoined = 0.2;
  const double work = kOfElement * t.m * t.n + kOfLine * t.m + (p.b_wide ? kOfLine : kOfGathered) * t.n;
  const double steps = std::ceil(static_cast<double>(p.k) / kProductDepth / split);
  const double waves = std::ceil(static_cast<double>(blocks_of(t, p.batch, p.m, p.n)) * split / gpu.multiprocessors);
  const double loop = std::max(steps * (kWait + work), waves * steps * work);
  if (split == 1) return loop;
  if (cluster) return loop + kMeetings + waves * kOfJoined * split * t.m * t.n;
  return loop + kLaunch + 16.0 * split * static_cast<double>(p.batch * p.m * p.n) / kBytesPerNs;
}

// Elements, their sums, and what adds a product of two where no tensor core does.
std::string numbers_text(const Product& p, const Tile& t) {
  if (t.doubles()) return "typedef float peri_number;\ntypedef double peri_sum_type;\n";
  const std::string type = p.whole ? "int" : "float";
  return "typedef " + type + " peri_number, peri_sum_type;\nPERI_DEVICE " + type + " peri_fma(" + type + " a, " + type +
         " b, " + type + " sum) { return " +
         (p.whole ? "(int)((unsigned)a * (unsigned)b + (unsigned)sum)" : "fmaf(a, b, sum)") + "; }\n";
}

int64_t shared_bytes(const Tile& t, bool cluster) {
  const int64_t stages = int64_t{kStages} * (t.m + t.n) * kProductDepth * static_cast<int64_t>(sizeof(float));
  const int64_t tile = int64_t{t.m} * (t.n + 8) * static_cast<int64_t>(sizeof(double));
  return cluster ? std::max(stages, tile) : stages;
}
}  // namespace

std::vector<ProductConfig> product_configs(const Product& p, const GpuLimits& gpu) {
  std::vector<std::pair<double, std::string>> all;
  for (const Tile& t : kTiles)
    for (const int split : kSplits) {
      const std::string text = format("tm=%d tn=%d split=%d", t.m, t.n, split);
      if (t.doubles()) {
        if (p.few || p.whole || !gpu.doubles) continue;
        for (const bool cluster : {false, true})
          if (!cluster || (gpu.clusters && split > 1))
            all.emplace_back(guess_of_doubles(t, split, cluster, p, gpu),
                             text + format(" doubles=%d", t.down * t.across) + (cluster ? " cluster=1" : ""));
      } else if (p.whole) {
        all.emplace_back(kOfWhole * guess_of_floats(t, split, p, gpu), text);
      } else if (p.few ? t.m == t.n && t.m <= 64 && split <= (t.m == 32 ? 4 : 1) && split != 2 : !gpu.doubles) {
        all.emplace_back(guess_of_floats(t, split, p, gpu), text);
      }
    }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ProductConfig> out;
  for (auto& [ns, config] : all) out.push_back({std::move(config), (kLaunchNs + ns) / 1e6});
  return out;
}

std::vector<Offer> product_offers(const Problem& problem, const Product& product, const GpuLimits& gpu) {
  std::vector<Offer> out;
  for (ProductConfig& config : product_configs(product, gpu)) {
    out.push_back(plain_offer(problem)[0]);
    out.back().guess_ms = config.guess_ms;
    out.back().config = std::move(config.text);
  }
  return out;
}

Result<ProductLaunches> product_launches(const Product& p, std::string_view config, int64_t most_elements,
                                         const GpuLimits& gpu, Signature* signature) {
  PERI_ASSIGN(const int64_t tm, config_int(config, "tm", 16, 128, 32));
  PERI_ASSIGN(const int64_t tn, config_int(config, "tn", 16, 128, 32));
  PERI_ASSIGN(const int64_t split, config_int(config, "split", 1, 8, 1));
  PERI_ASSIGN(const int64_t doubles, config_int(config, "doubles", 0, kMaxWarps, 0));
  PERI_ASSIGN(const int64_t joined, config_int(config, "cluster", 0, 1, 0));
  const auto known = [&](const Tile& t) { return t.m == tm && t.n == tn && t.down * t.across == doubles; };
  const Tile* const found = std::find_if(std::begin(kTiles), std::end(kTiles), known);
  if (found == std::end(kTiles) || (p.whole && found->doubles())) return invalid("no tile of this size");
  const Tile& tile = *found;
  if (std::find(std::begin(kSplits), std::end(kSplits), split) == std::end(kSplits))
    return invalid("no split into so many parts");
  if (joined != 0 && (!tile.doubles() || split == 1)) return invalid("no cluster joins its parts");
  const bool cluster = joined != 0 && gpu.clusters && shared_bytes(tile, true) <= gpu.shared_bytes;
  const bool parted = split > 1 && !cluster;
  const int64_t blocks = blocks_of(tile, p.batch, p.m, p.n) * split, count = p.batch * p.m * p.n;
  if (blocks > kMaxBlocks) return refused("more tiles than a grid has blocks");
  std::string body =
      format("#define PERI_TM %d\n#define PERI_TN %d\n#define PERI_TK %d\n", tile.m, tile.n, kProductDepth);
  const auto number = [&](const char* name, int64_t v) {
    body += format("#define PERI_%s %lld\n", name, static_cast<long long>(v));
  };
  number("THREADS", tile.threads());
  number("DOWN", tile.down);
  number("ACROSS", tile.across);
  number("STAGES", kStages);
  number("SPLIT", split);
  number("PARTED", parted);
  number("CLUSTER", cluster);
  number("A_ALONG_M", p.a_along_m);
  number("B_ALONG_K", p.b_along_k);
  number("A_WIDE", tile.doubles() && p.a_wide);
  number("B_WIDE", tile.doubles() && p.b_wide);
  number("B_RUNS", p.b_runs);
  body += "#define PERI_M " + signature->size(p.m) + "\n#define PERI_N " + signature->size(p.n) + "\n#define PERI_K " +
          signature->size(p.k) + "\n";
  if (parted)
    body += "#define PERI_BATCH " + signature->size(p.batch) + "\n#define PERI_PARTS " + signature->workspace() + "\n";
  body += numbers_text(p, tile) + p.functions +
          std::string(tile.doubles() ? product_f64_text() : product_plain_text()) +
          std::string(parted ? product_join_text() : "");
  std::vector<KernelLaunch> out;
  if (blocks > 0) {
    const std::string text = signature->text(std::max(most_elements, split * count), body);
    out.push_back(signature->launch("peri_product", text, blocks, tile.threads()));
    if (tile.doubles()) out.back().shared_bytes = shared_bytes(tile, cluster);
    if (cluster) out.back().cluster = static_cast<int>(split);
    if (parted) out.push_back(signature->launch("peri_join_parts", text, blocks_for(count, 256), 256));
  }
  const size_t each = tile.doubles() ? sizeof(double) : sizeof(float);
  return ProductLaunches{std::move(out), parted ? static_cast<size_t>(split * count) * each : 0};
}

Result<std::unique_ptr<Instance>> product_instance(const Product& p, std::string_view config, int64_t most_elements,
                                                   const GpuLimits& gpu, Signature* signature) {
  PERI_ASSIGN(ProductLaunches out, product_launches(p, config, most_elements, gpu, signature));
  return LaunchInstance::make(std::move(out.launches), out.workspace, p.packed);
}

}  // namespace peri::kernels::cuda
