// Launches as pure data: what the executor "cuda" compiles, loads and enqueues for a problem, made without a GPU; and
// calls of libraries, which it makes ready and enqueues by the same rules.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "kernels/entry.hpp"

namespace peri::device::cuda {
class CudaDevice;
}

namespace peri::kernels::cuda {

struct LaunchArgument {
  // kFault: the address of an int32 of the step, 0 as a run begins. A kernel that finds something wrong in the data
  // stores k + 1 there, and the run ends with faults()[k] of its LaunchInstance; it touches no memory for that.
  enum class From : uint8_t { kInput, kOutput, kWorkspace, kPacked, kFault };
  From from = From::kInput;
  size_t index = 0;  // of the graph's input or output, or of what is packed
};

constexpr int kMaxCluster = 8;  // that every chip with clusters takes

// One kernel: its parameters are the addresses of the arguments, then the sizes as 64-bit integers.
struct KernelLaunch {
  std::string entry;  // its name in the text; begins with "peri_"
  std::string text;   // CUDA C++17, no header; a host compiler takes it too (see code/prelude.hpp)
  int64_t blocks = 1;
  int threads = 256;
  int64_t shared_bytes = 0;  // dynamic
  // So many neighbours among the blocks read each other's shared memory (code/cluster.hpp): a divisor of their number,
  // at most kMaxCluster, 1 on chips without clusters.
  int cluster = 1;
  std::vector<LaunchArgument> arguments = {};
  std::vector<int64_t> sizes = {};
  // Of a kernel that others wrote (kernels/outside): what stands in `text`, the other axes of the grid, and the order
  // of parameters: k >= 0 is the address of argument k, else it is size -1 - k, of whose bytes the kernel reads as many
  // as its type has. None: as above.
  enum class Form : uint8_t { kSource, kPtx, kCubin };
  Form form = Form::kSource;
  std::array<int64_t, 2> more_blocks = {1, 1};
  std::vector<int> order = {};
};

constexpr size_t kWorkspaceAlignment = 256;  // as much as any library asks for (static_assert where it is used)

// Work of a library that is ready for a device. Any thread, several at once.
class LibraryWork {
 public:
  virtual ~LibraryWork() = default;
  virtual size_t workspace_bytes() const { return 0; }
  // Enqueues it, also into a capture, and waits for nothing. `at`: the call's arguments, in order; `workspace`: of that
  // many bytes, aligned to kWorkspaceAlignment.
  virtual Status enqueue(std::span<const device::Argument> at, device::Address workspace, void* stream) const = 0;
};
// A call of a library in place of a kernel of our own: how it is made ready, on the device alone, and what it is given.
struct LibraryCall {
  std::vector<LaunchArgument> arguments;  // no workspace among them
  std::function<Result<std::unique_ptr<const LibraryWork>>(device::cuda::CudaDevice& device)> make;
};

// A weight in another form, that launches read on the device: made of what the step was given when it goes up, so that
// launches and their texts are the same with and without it.
struct PackedWeight {
  size_t input = 0;  // of the graph, constant
  std::function<Result<Tensor>(const Tensor& weight)> make;
};

// What is done for a problem with concrete dims: calls of libraries, then launches, one after the other. Nothing of it
// runs on the CPU.
class LaunchInstance final : public Instance {
 public:
  explicit LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace, std::vector<Error> faults)
      : launches_(std::move(launches)), workspace_(workspace), faults_(std::move(faults)) {}
  explicit LaunchInstance(std::vector<KernelLaunch> launches, size_t workspace = 0,
                          std::vector<PackedWeight> packed = {})
      : launches_(std::move(launches)), workspace_(workspace), packed_(std::move(packed)) {}
  explicit LaunchInstance(std::vector<LibraryCall> calls) : calls_(std::move(calls)) {}
  static Result<std::unique_ptr<Instance>> make(std::vector<KernelLaunch> launches, size_t workspace,
                                                std::vector<Error> faults);
  static Result<std::unique_ptr<Instance>> make(std::vector<KernelLaunch> launches, size_t workspace = 0,
                                                std::vector<PackedWeight> packed = {});
  const std::vector<KernelLaunch>& launches() const { return launches_; }
  const std::vector<LibraryCall>& calls() const { return calls_; }
  const std::vector<Error>& faults() const { return faults_; }  // none: no launch takes kFault
  // The same bytes at every size of a step.
  const std::vector<PackedWeight>& packed() const { return packed_; }
  size_t workspace_bytes() const override { return workspace_; }
  int64_t tasks(int) const override { return 0; }
  void run_task(int phase, int64_t task, const Args& args) const override;

 private:
  std::vector<LibraryCall> calls_;
  std::vector<KernelLaunch> launches_;
  size_t workspace_ = 0;
  std::vector<PackedWeight> packed_;
  std::vector<Error> faults_;
};

// Refuses a target that neither is nor has a GPU of NVIDIA's from sm_80 on.
Status check_gpu(const Target& target);
// What bounds the work that a GPU does at once. Guesses of times (Offer::guess_ms) are made with it: only the one of
// tiles.cpp is fitted to launches. The others are rules of thumb with round constants; they say which ten candidates
// are tried first, and count as times only in plans for a machine that is not here, whose proof says so.
struct GpuLimits {
  int multiprocessors = 0;   // as the target says; of a large one where it does not
  int64_t shared_bytes = 0;  // that a block may have
  int threads = 0;           // of a multiprocessor at once
  bool clusters = false;     // blocks may read each other's shared memory
};
GpuLimits limits_of(const Target& target);
// One offer, row-major everywhere, that any such GPU runs.
std::vector<Offer> plain_offer(const Problem& problem);

// Blocks of so many threads for so many elements; kernels step over the rest where there are more than a grid takes.
int64_t blocks_for(int64_t elements, int threads);
constexpr int64_t kMaxBlocks = int64_t{1} << 30;  // a grid has up to 2^31 - 1

}  // namespace peri::kernels::cuda
