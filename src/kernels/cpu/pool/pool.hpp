// Max and average pooling over one to three spatial dims in f32, channels first, and over two in NHWC (one spatial dim:
// height 1). Shape → plan → tasks.
// Global average pooling is rows::Join::kMean (NHWC) or block code's reduce.mean (NCHW).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "kernels/cpu/isa.hpp"

namespace peri::kernels::cpu::pool {

enum class Kind : uint8_t { kMax, kAverage };
enum class Layout : uint8_t { kNchw, kNhwc };

// One spatial dim. `out` is given (the caller applies ceil_mode); pads are before and after.
struct Extent {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
};

// The maximum over a window without any element of the input is the lowest finite float, its average 0.
// count_include_pad: padding counts in the divisor, positions beyond the padding (ceil_mode) do not.
struct Shape {
  Kind kind = Kind::kMax;
  Layout layout = Layout::kNchw;
  bool count_include_pad = false;
  int64_t batch = 1, channels = 1;
  Extent h, w, d = {};  // d: the outermost, kNchw only
};
// The taps of an output position that lie in the input: the index of the first, their number, and the number of taps
// that count with padding.
struct Window {
  int64_t first = 0, taps = 0, padded = 0;
};
struct Plan {
  Shape shape;
  Isa isa = Isa::kAvx2;
  int64_t units = 0, tasks = 0, scratch = 0;
  std::vector<Window> columns = {}, rows = {}, depths = {};  // kNchw: of each output along w, h and d
  int64_t whole_begin = 0, whole_end = 0;                    // columns all of whose taps lie in the input
  // kNchw: neutral elements before and after a line of reduced rows; every column is then a whole window of it.
  int64_t before = 0, after = 0;
  bool padded = false;
  int64_t line = 0;                 // floats from one line to the next
  std::vector<float> factors = {};  // factors of means, per column where no row of the window is missing
};
struct Args {
  const float* x;
  float* y;
};
Result<Plan> make_plan(const Shape& shape, Isa isa);
int64_t task_count(const Plan& plan);
int64_t scratch_bytes(const Plan& plan);  // for each running task, 64-byte aligned
void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch);

}  // namespace peri::kernels::cpu::pool
