// GPU kernel texts executed by the host: compiled by the host's compiler after definitions of CUDA's built-ins, the
// threads of a block as fibers that synchronise at __syncthreads().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "kernels/cuda/code/launch.hpp"

namespace peri::tune {

class HostGpu {
 public:
  // Texts are compiled together by compile(); equal ones once.
  void add(const std::string& text, const std::string& entry);
  // Into a library in `folder`; errors contain the compiler's output.
  Status compile(const std::string& folder);
  // REQUIRES: added and compiled. `addresses`: those of the launch's arguments.
  void run(const kernels::cuda::KernelLaunch& launch, const std::vector<void*>& addresses) const;
  size_t texts() const { return ids_.size(); }

 private:
  using Run = void (*)(long long blocks, int threads, int cluster, long long shared, void** addresses,
                       const long long* sizes);
  std::map<std::string, size_t> ids_;
  std::vector<std::string> sources_;
  std::vector<Run> runs_;
};

}  // namespace peri::tune
