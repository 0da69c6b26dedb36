// Bandwidth of memory-bound kernels beside a plain copy with ordinary stores, on the same threads, interleaved in one
// process: the best of several rounds each. Usage: rows_bench [FILTER] [ROUNDS]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

using TaskFn = std::function<void(int64_t task, int thread)>;

// Seconds for all tasks on `threads` threads, handed out by a counter.
double run_once(int64_t tasks, int threads, const TaskFn& fn) {
  std::atomic<int64_t> next{0};
  std::atomic<int> ready{0};
  const auto body = [&](int t) {
    ++ready;
    while (ready.load() < threads) {}
    for (int64_t k = next++; k < tasks; k = next++) fn(k, t);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  while (ready.load() < threads - 1) {}
  const auto start = steady_clock::now();
  body(0);
  for (auto& t : others) t.join();
  return duration<double>(steady_clock::now() - start).count();
}

std::vector<float> buffer(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  uint64_t s = 1;
  for (float& x : v) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(static_cast<int32_t>(s >> 32)) * 0x1p-30f;
  }
  return v;
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

void bench_chain(const Chain& c, Isa isa, int rounds) {
  const block::Program program = *block::parse(c.text);
  block::Space space{c.dims, c.reduced, {}};
  std::vector<std::vector<float>> in;
  std::vector<const void*> in_pointers;
  int64_t count = 1;
  for (int64_t d : c.dims) count *= d;
  double bytes = c.reduced > 0 ? 0 : static_cast<double>(count) * 4;
  for (const auto& shape : c.shapes) {
    space.strides.push_back(*block::broadcast_strides(shape, c.dims));
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    in.push_back(buffer(n));
    bytes += static_cast<double>(n) * 4;
  }
  for (const auto& v : in) in_pointers.push_back(v.data());
  std::vector<float> out(static_cast<size_t>(count));
  void* outs[] = {out.data()};
  const block::Plan plan = *block::make_plan(program, space, isa);
  std::vector<char> workspace(static_cast<size_t>(block::workspace_bytes(plan)) + 64);
  const block::Args args{in_pointers.data(), outs, workspace.data()};
  for (int threads : {1, 2}) {
    std::vector<std::vector<char>> scratch(static_cast<size_t>(threads));
    for (auto& s : scratch) s.resize(static_cast<size_t>(block::scratch_bytes(plan)) + 64);
    double best = 1e9, copy = 1e9;
    for (int r = 0; r < rounds; ++r) {
      const auto aligned = [](std::vector<char>& v) {
        return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(v.data()) + 63) & ~uintptr_t{63});
      };
      best = std::min(best, run_once(plan.tasks, threads, [&](int64_t k, int t) {
                        block::run_task(plan, args, k, aligned(scratch[static_cast<size_t>(t)]));
                      }));
      const int64_t pieces = 256, piece = count / pieces;
      copy = std::min(copy, run_once(pieces, threads, [&](int64_t k, int) {
                        const auto f = isa == Isa::kAvx512 ? simd::avx512::apply : simd::avx2::apply;
                        f(simd::Function::kNeg, in[0].data() + k * piece, out.data() + k * piece, piece);
                      }));
    }
    const double rate = bytes / best / 1e9, copy_rate = static_cast<double>(count) * 8 / copy / 1e9;
    printf("%-7s %d thread(s) %-24s %7.2f ms %6.2f GB/s  copy %6.2f GB/s  ratio %.2f\n",
           peri::kernels::cpu::isa_name(isa).data(), threads, c.name, best * 1e3, rate, copy_rate, rate / copy_rate);
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
