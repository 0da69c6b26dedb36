// Launches as pure data: what the executor "cuda" compiles, loads and enqueues for a problem, created without a GPU;
// and library calls, which it prepares and enqueues by the same rules.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "kernels/entry.hpp"

namespace peri::device::cuda {
class CudaDevice;
}

namespace peri::kernels::cuda {

struct LaunchArgument {
  // kFault: the address of an int32 of the step that is 0 when a run begins. A kernel that detects an error in the data
  // stores k + 1 there, and the run fails with faults()[k] of its LaunchInstance; the kernel must not access memory out
  // of bounds in that case.
  enum class From : uint8_t { kInput, kOutput, kWorkspace, kPacked, kFault };
  From from = From::kInput;
  size_t index = 0;  // of the graph's input or output, or of packed()
};

constexpr int kMaxCluster = 8;  // supported by every chip with clusters

// One kernel launch: its parameters are the addresses of the arguments, then the sizes as 64-bit integers.
struct KernelLaunch {
  std::string entry;  // its name in the text, which begins with "peri_"
  std::string text;   // CUDA C++17, no header; a host compiler takes it too (see code/prelude.hpp)
  int64_t blocks = 1;
  int threads = 256;
  int64_t shared_bytes = 0;  // dynamic
  // Number of adjacent blocks that read each other's shared memory (code/cluster.hpp): a divisor of the number of
  // blocks, at most kMaxCluster, 1 on chips without clusters.
  int cluster = 1;
  std::vector<LaunchArgument> arguments = {};
  std::vector<int64_t> sizes = {};
  // For outside kernels (kernels/outside): the form of `text`, the other axes of the grid, and the order of parameters:
  // k >= 0 is the address of argument k, else it is size -1 - k, of which the kernel reads as many bytes as its type
  // has. Empty: as above.
  enum class Form : uint8_t { kSource, kPtx, kCubin };
  Form form = Form::kSource;
  std::array<int64_t, 2> more_blocks = {1, 1};
  std::vector<int> order = {};
};

constexpr size_t kWorkspaceAlignment = 256;  // the largest that any library requires (static_assert where it is used)

// A library call prepared for a device. Thread-safe.
class LibraryWork {
 public:
  virtual ~LibraryWork() = default;
  virtual size_t workspace_bytes() const { return 0; }
  // Enqueues it, also during capture, without waiting. `at`: the call's arguments, in order; `workspace`: of the stated
  // size, aligned to kWorkspaceAlignment.
  virtual Status enqueue(std::span<const device::Argument> at, device::Address workspace, void* stream) const = 0;
};
// A library call in place of an own kernel: its preparation, which needs the device only, and its arguments.
struct LibraryCall {
  std::vector<LaunchArgument> arguments;  // without the workspace
  std::function<Result<std::unique_ptr<const LibraryWork>>(device::cuda::CudaDevice& device)> make;
};

// A weight in another form for launches: packed when the step's weights are uploaded, so that launches and their texts
// are the same for all weights.
struct PackedWeight {
  size_t input = 0;  // of the graph; a constant
  std::function<Result<Tensor>(const Tensor& weight)> make;
  // Where it is made of two constants: the other one, and how.
  size_t second = 0;
  std::function<Result<Tensor>(const Tensor& weight, const Tensor& second)> make_of_two = {};
  // Of the tensors of all inputs. Errors: kInvalid if one that it takes is no weight.
  Result<Tensor> made(std::span<const Tensor> inputs) const;
};

// The work for a problem with concrete dims: library calls, then launches, one after the other. Nothing of it runs on
// the CPU.
class LaunchInstance final : public Instance {
 public:
  explicit LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace, std::vector<Error> faults);
  explicit LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace = 0,
                          std::vector<PackedWeight> packed = {});
  explicit LaunchInstance(std::vector<LibraryCall> calls);
  static Result<std::unique_ptr<Instance>> make(std::vector<KernelLaunch> launches, size_t workspace,
                                                std::vector<Error> faults);
  static Result<std::unique_ptr<Instance>> make(std::vector<KernelLaunch> launches, size_t workspace = 0,
                                                std::vector<PackedWeight> packed = {});
  const std::vector<KernelLaunch>& launches() const { return launches_; }
  const std::vector<LibraryCall>& calls() const { return calls_; }
  const std::vector<Error>& faults() const { return faults_; }  // empty: no launch takes kFault
  // The same bytes at every size of a step.
  const std::vector<PackedWeight>& packed() const { return packed_; }
  void run_task(int phase, int64_t task, const Args& args) const override;

 private:
  std::vector<LibraryCall> calls_;
  std::vector<KernelLaunch> launches_;
  std::vector<PackedWeight> packed_;
  std::vector<Error> faults_;
};

// Refuses a target that neither is nor has a GPU of NVIDIA's from sm_80 on.
Status check_gpu(const Target& target);
// The limits of the work that a GPU does at once, used for estimates of times (Offer::guess_ms): only those of
// tiles.cpp are fitted to measured launches. The others are rough formulas with round constants; they decide which ten
// candidates are tried first, and count as times only in plans for another machine, whose proof says so.
struct GpuLimits {
  int multiprocessors = 0;   // from the target; that of a large GPU where the target does not say
  int64_t shared_bytes = 0;  // limit per block
  int threads = 0;           // limit of concurrent threads per multiprocessor
  bool clusters = false;     // blocks may read each other's shared memory
  bool doubles = false;      // tensor cores multiply float64 as fast as the other cores float32
};
GpuLimits limits_of(const Target& target);
// A guess of what so many launches take that move so many bytes, read and written, with little arithmetic.
double moving_ms(size_t launches, double bytes);
// One offer, row-major everywhere, valid on every supported GPU.
std::vector<Offer> plain_offer(const Problem& problem);

// Number of blocks of `threads` threads for `elements` elements; kernels loop where that exceeds a grid.
int64_t blocks_for(int64_t elements, int threads);
constexpr int64_t kMaxBlocks = int64_t{1} << 30;  // a grid has up to 2^31 - 1
// The tunable of kernels whose blocks loop over a grid: how much of it a block does one part after the other. Their
// texts do not depend on it. blocks_in_turns() is the number of blocks for a setting; 0: each does one.
Tunable turns_tunable(std::string_view meaning);
int64_t blocks_in_turns(int64_t blocks, int64_t turns);

}  // namespace peri::kernels::cuda
