// Bandwidth of block code beside a plain one-pass copy with ordinary stores on the same threads: bytes that the
// program must read and write, over bytes that the copy reads and writes, each by its time. The 64 MB are walked in
// slices, program and copy in turn, and the lower quartile of a slice's time counts, so that other work does little.
// Exit code 4 when a chain is below the bar in the loops that this machine takes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "device/target.hpp"
#include "kernels/cpu/block/plan.hpp"
#include "kernels/cpu/simd/arrays.hpp"

namespace {

using namespace std::chrono;
using peri::kernels::cpu::Isa;
namespace block = peri::kernels::cpu::block;
namespace simd = peri::simd;

// The lower quartile of the seconds that fn(slice) took over `rounds` walks through [begin, end), for two rivals in
// turn.
struct Pair {
  double program, copy;
};
template <class F, class G>
Pair walk(int64_t begin, int64_t end, int rounds, const F& program, const G& copy) {
  std::vector<double> times[2];
  const auto timed = [](const auto& fn, int64_t slice) {
    const auto start = steady_clock::now();
    fn(slice);
    return duration<double>(steady_clock::now() - start).count();
  };
  for (int r = 0; r < rounds; ++r) {
    for (int64_t k = begin; k < end; ++k) times[0].push_back(timed(program, k));
    for (int64_t k = begin; k < end; ++k) times[1].push_back(timed(copy, k));
  }
  for (auto& t : times) std::sort(t.begin(), t.end());
  return {times[0][times[0].size() / 4], times[1][times[1].size() / 4]};
}

// Seeded floats on a cache line's border, as an engine's arena places them.
struct Buffer {
  explicit Buffer(int64_t n) : raw(static_cast<size_t>(n) + 16) {
    uint64_t s = 1;
    for (float& x : raw) {
      s = s * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(static_cast<int32_t>(s >> 32)) * 0x1p-30f;
    }
  }
  float* data() { return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(raw.data()) + 63) & ~uintptr_t{63}); }
  std::vector<float> raw;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

struct Chain {
  const char* name;
  const char* text;
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> shapes;
  int reduced = 0;
};

const int64_t kN = 16 << 20;  // 64 MB of f32

const Chain kChains[] = {
    {"relu", "in f32; out f32; r0=load 0; r1=relu r0; store 0 r1", {kN}, {{kN}}},
    {"affine+relu",
     "in f32; out f32; r0=load 0; r1=const.f32 1.5; r2=const.f32 0.25; r3=mul r0 r1; r4=add r3 r2; r5=relu r4; store 0 "
     "r5",
     {kN},
     {{kN}}},
    {"8 arithmetic",
     "in f32; out f32; r0=load 0; r1=const.f32 1.5; r2=mul r0 r0; r3=add r2 r1; r4=mul r3 r0; r5=sub r4 r0; r6=mul r5 "
     "r1; r7=max r6 r0; r8=add r7 r0; r9=mul r8 r1; store 0 r9",
     {kN},
     {{kN}}},
    {"exp", "in f32; out f32; r0=load 0; r1=exp r0; store 0 r1", {kN}, {{kN}}},
    {"tanh chain",
     "in f32; out f32; r0=load 0; r1=const.f32 0.5; r2=mul r0 r1; r3=add r2 r1; r4=tanh r3; r5=mul r4 r0; r6=add r5 "
     "r1; store 0 r6",
     {kN},
     {{kN}}},
    {"erf gelu chain",
     "in f32; out f32; r0=load 0; r1=const.f32 0.70710678; r2=mul r0 r1; r3=erf r2; r4=const.f32 1; r5=add r3 r4; "
     "r6=mul r0 r5; r7=const.f32 0.5; r8=mul r6 r7; store 0 r8",
     {kN},
     {{kN}}},
    {"x+y", "in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; store 0 r2", {kN}, {{kN}, {kN}}},
    {"(x+y) sigmoid * x",
     "in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; r3=sigmoid r2; r4=mul r3 r0; store 0 r4",
     {kN},
     {{kN}, {kN}}},
    {"bias C=768 +gelu",
     "in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; r3=gelu r2; store 0 r3",
     {kN / 768, 768},
     {{kN / 768, 768}, {768}}},
    {"bias C=64 +relu",
     "in f32 f32; out f32; r0=load 0; r1=load 1; r2=add r0 r1; r3=relu r2; store 0 r3",
     {kN / 64, 64},
     {{kN / 64, 64}, {64}}},
    {"scale per channel 7x7",
     "in f32 f32; out f32; r0=load 0; r1=load 1; r2=mul r0 r1; r3=relu r2; store 0 r3",
     {kN / 49, 49},
     {{kN / 49, 49}, {kN / 49, 1}}},
    {"reduce sum rows 768", "in f32; out f32; r0=load 0; reduce.sum 0 r0", {kN / 768, 768}, {{kN / 768, 768}}, 1},
    {"reduce sum all", "in f32; out f32; r0=load 0; reduce.sum 0 r0", {kN}, {{kN}}, 1},
};

struct Options {
  std::string only, isa, json;
  int rounds = 7;
  double bar = 0.8;
};

struct Row {
  std::string isa, chain;
  bool judged = false;  // by the bar: the instruction set is the machine's own
  int threads = 1;
  double rate = 0, copy_rate = 0;
  double ratio() const { return rate / copy_rate; }
};

void bench_chain(const Chain& c, Isa isa, int rounds, std::vector<Row>* rows) {
  const block::Code program = *block::parse(c.text);
  block::Space space{c.dims, c.reduced, {}};
  std::vector<Buffer> in;
  std::vector<const void*> in_pointers;
  int64_t count = 1;
  for (int64_t d : c.dims) count *= d;
  double bytes = c.reduced > 0 ? 0 : static_cast<double>(count) * 4;
  for (const auto& shape : c.shapes) {
    space.strides.push_back(*block::broadcast_strides(shape, c.dims));
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    in.emplace_back(n);
    bytes += static_cast<double>(n) * 4;
  }
  for (auto& v : in) in_pointers.push_back(v.data());
  Buffer out(count);
  void* outs[] = {out.data()};
  const block::Plan plan = *block::make_plan(program, space, isa);
  std::vector<char> workspace(static_cast<size_t>(block::workspace_bytes(plan)) + 64);
  const block::Args args{in_pointers.data(), outs, workspace.data()};
  const int64_t slices = std::min<int64_t>(64, plan.tasks), piece = count / slices;
  const auto copy = isa == Isa::kAvx512 ? simd::avx512::apply : simd::avx2::apply;
  for (int threads : {1, 2}) {
    Pair sum{0, 0};
    std::vector<Pair> each(static_cast<size_t>(threads));
    const auto body = [&](int t) {
      std::vector<char> raw(static_cast<size_t>(block::scratch_bytes(plan)) + 64);
      void* scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(raw.data()) + 63) & ~uintptr_t{63});
      const auto program_slice = [&](int64_t k) {
        for (int64_t u = k * plan.tasks / slices; u < (k + 1) * plan.tasks / slices; ++u)
          block::run_task(plan, args, u, scratch);
      };
      const auto copy_slice = [&](int64_t k) {
        copy(simd::Function::kNeg, in[0].data() + k * piece, out.data() + k * piece, piece);
      };
      each[static_cast<size_t>(t)] =
          walk(slices * t / threads, slices * (t + 1) / threads, rounds, program_slice, copy_slice);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
    body(0);
    for (auto& t : others) t.join();
    for (const Pair& p : each) sum = {sum.program + p.program / threads, sum.copy + p.copy / threads};
    const double per_slice = 1e-9 * threads / static_cast<double>(slices);
    const double rate = bytes * per_slice / sum.program,
                 copy_rate = static_cast<double>(count) * 8 * per_slice / sum.copy;
    const bool own = isa == *peri::kernels::cpu::best_isa(peri::device::this_cpu());
    rows->push_back({std::string(peri::kernels::cpu::isa_name(isa)), c.name, own, threads, rate, copy_rate});
    printf("%-7s %d thread(s) %-24s %6.2f GB/s  copy %6.2f GB/s  ratio %.2f\n", rows->back().isa.c_str(), threads,
           c.name, rate, copy_rate, rows->back().ratio());
    fflush(stdout);
  }
}

std::string report(const std::vector<Row>& rows, const Options& options) {
  peri::JsonWriter w(1);
  w.begin_object().key("machine").begin_object().field("cpu", cpu_name()).end_object();
  w.field("bytes", kN * 4).field("rounds", options.rounds).field("bar", options.bar);
  w.key("chains").begin_array();
  for (const Row& r : rows) {
    w.begin_object().field("isa", r.isa).field("threads", r.threads).field("chain", r.chain);
    w.field("gbs", std::round(r.rate * 100) / 100).field("copy_gbs", std::round(r.copy_rate * 100) / 100);
    w.field("ratio", std::round(r.ratio() * 1000) / 1000).field("judged", r.judged).end_object();
  }
  w.end_array().end_object();
  return w.take() + "\n";
}

bool read_options(int argc, char** argv, Options* o) {
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string flag = argv[k], value = argv[k + 1];
    if (flag == "--only") {
      o->only = value;
    } else if (flag == "--isa") {
      o->isa = value;
    } else if (flag == "--json") {
      o->json = value;
    } else if (flag == "--rounds") {
      o->rounds = std::atoi(value.c_str());
    } else if (flag == "--bar") {
      o->bar = std::atof(value.c_str());
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && o->rounds > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) {
    fprintf(stderr, "usage: block_bench [--only TEXT] [--rounds N] [--isa NAME] [--bar R] [--json FILE]\n");
    return 2;
  }
  std::vector<Row> rows;
  for (Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (!peri::device::this_cpu().has(peri::kernels::cpu::isa_name(isa))) continue;
    if (!options.isa.empty() && options.isa != peri::kernels::cpu::isa_name(isa)) continue;
    for (const Chain& c : kChains) {
      if (std::string(c.name).find(options.only) != std::string::npos) bench_chain(c, isa, options.rounds, &rows);
    }
  }
  int judged = 0, missed = 0;
  for (const Row& r : rows) {
    judged += r.judged;
    missed += r.judged && r.ratio() < options.bar;
  }
  printf("%d of %d judged rows below %.2f of copy bandwidth\n", missed, judged, options.bar);
  if (!options.json.empty() && !peri::write_file_atomic(options.json, report(rows, options)).ok()) return 1;
  return missed > 0 ? 4 : 0;
}
