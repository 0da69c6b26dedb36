// What the oneDNN kernels share: the engine, one-threaded streams, post-ops from an epilogue, packed weights, and the
// differences between its 2.x and 3.x interfaces.
#pragma once

#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/entry.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/vendor/library.hpp"

namespace peri::kernels::vendor {

const dnnl::engine& onednn_engine();
// The calling thread's stream. From then on OpenMP uses one thread for this thread: parallelism is the thread pool's.
dnnl::stream& onednn_stream();

// An epilogue that oneDNN can execute: [bias], then sums with the residual and activations.
struct OnednnEpilogue {
  int bias = -1;  // graph input; -1: bias_values, or none
  std::vector<float> bias_values;
  bool has_bias = false;
  int residual = -1;             // graph input that must be in the output's memory before; -1: none
  std::vector<MatchedOp> steps;  // after the bias
};
// Refuses steps without a post-op, with the reason.
Result<OnednnEpilogue> onednn_epilogue(const Problem& problem, const MatchedEpilogue& matched);
// Post-ops of the epilogue; the scratchpad is the caller's.
dnnl::primitive_attr onednn_attributes(const OnednnEpilogue& epilogue);
// The bias as values, from the constants; empty if there is none.
std::vector<float> onednn_bias(const OnednnEpilogue& epilogue, const Constants& constants);

// Weights in each format that an instance of a step requested. Thread-safe.
class OnednnPacked {
 public:
  // The weight of this input, stored as `plain`, reordered to `wanted` unless that was done before.
  const Tensor* get(const InstantiateContext& c, const dnnl::memory::desc& wanted, const dnnl::memory::desc& plain,
                    int weight);
  // The format of the step's first instance; none: nothing is packed yet.
  std::optional<dnnl::memory::desc> first();

 private:
  const Tensor* find(const dnnl::memory::desc& wanted) const;
  std::mutex mutex_;  // not held while weights are packed
  std::vector<std::pair<dnnl::memory::desc, std::unique_ptr<Tensor>>> formats_;
};
// The step's packed weights, made on first use.
OnednnPacked* onednn_packed(Packed* packed);

// kRefused if the implementation is oneDNN's slow reference.
Status check_implementation(const char* info);

// Runs `f`, which returns a Result, with the library open; what oneDNN throws becomes a refusal. Errors: those of
// open_onednn(), and of `f`.
template <class F>
auto onednn_guarded(F f) -> decltype(f()) {
  PERI_TRY(open_onednn());
  try {
    return f();
  } catch (const dnnl::error& e) {
    return refused("oneDNN: %s", e.what());
  }
}

}  // namespace peri::kernels::vendor
