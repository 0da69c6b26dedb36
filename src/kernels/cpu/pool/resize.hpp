// Nearest and linear resize of two spatial dims in f32, NCHW or NHWC. The source points of an output point are data: a
// table for each dim, so that every coordinate convention uses the same loops.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/pool/pool.hpp"

namespace peri::kernels::cpu::pool {

// Output o is x[index[o]] * (1 - t[o]) + x[next[o]] * t[o]; nearest: t is 0 everywhere.
struct Taps {
  std::vector<int32_t> index, next;
  std::vector<float> t;
};
// Mapping of an output coordinate to a source coordinate, by its ONNX name; `scale` = out / in as the model states it.
enum class Coordinates : uint8_t { kHalfPixel, kPytorchHalfPixel, kAlignCorners, kAsymmetric };
enum class Nearest : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kSimple };  // the last: Upsample's
// in >= 1 (else no taps) and scale > 0.
Taps linear_taps(int64_t in, int64_t out, double scale, Coordinates coordinates);
Taps nearest_taps(int64_t in, int64_t out, double scale, Coordinates coordinates, Nearest nearest);

struct ResizeShape {
  Layout layout = Layout::kNchw;
  int64_t batch = 1, channels = 1, in_h = 1, in_w = 1;
  Taps h, w;  // their sizes are the output's
};
struct ResizePlan {
  ResizeShape shape;
  Isa isa = Isa::kAvx2;
  int64_t units = 0, tasks = 0, scratch = 0;
  bool picks = false;  // rows of single elements
  int repeat = 0;      // repetitions of each element of a row; 0: by index
};
Result<ResizePlan> make_plan(const ResizeShape& shape, Isa isa);
int64_t task_count(const ResizePlan& plan);
int64_t scratch_bytes(const ResizePlan& plan);  // for each running task, 64-byte aligned
void run_task(const ResizePlan& plan, const Args& args, int64_t task, void* scratch);

}  // namespace peri::kernels::cpu::pool
