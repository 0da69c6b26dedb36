// Bandwidth of block programs beside a plain one-pass copy with ordinary stores. The 64 MB are walked in slices,
// program and copy in turn, and the lower quartile of a slice's time counts, so that other work on the machine does
// little. With two threads each walks its own half. Usage: rows_bench [FILTER] [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

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

void bench_chain(const Chain& c, Isa isa, int rounds) {
  const block::Program program = *block::parse(c.text);
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
    printf("%-7s %d thread(s) %-24s %6.2f GB/s  copy %6.2f GB/s  ratio %.2f\n",
           peri::kernels::cpu::isa_name(isa).data(), threads, c.name, rate, copy_rate, rate / copy_rate);
    fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  for (Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (!peri::kernels::cpu::runs_here(isa)) continue;
    for (const Chain& c : kChains) {
      if (std::string(c.name).find(filter) != std::string::npos) bench_chain(c, isa, rounds);
    }
  }
  return 0;
}
