// Creation and reading of cuDNN's descriptors, and a convolution as a graph of them.
#pragma once

#include <span>

#include "device/cuda/cudnn.hpp"

namespace peri::device::cuda {

struct DnnTable {
#define PERI_CUDNN(member, symbol, parameters) int(*member) parameters = nullptr;
#include "device/cuda/cudnn.def"
#undef PERI_CUDNN
  const char* (*status_text)(int) = nullptr;
};

// The error for a status other than 0.
Status check_dnn(const DnnTable& table, int status, const char* call);

// Descriptors of one purpose, destroyed together in reverse order.
class DnnPool {
 public:
  explicit DnnPool(const DnnTable& t) : t_(t) {}
  DnnPool(const DnnPool&) = delete;
  ~DnnPool() {
    for (auto at = all_.rbegin(); at != all_.rend(); ++at) t_.drop(*at);
  }
  Result<DnnDescriptor> make(int type) {
    DnnDescriptor out = nullptr;
    PERI_TRY(check_dnn(t_, t_.make(type, &out), "cudnnBackendCreateDescriptor"));
    all_.push_back(out);
    return out;
  }
  template <class T>
  Status set(DnnDescriptor to, int name, int type, std::span<const T> values) {
    return check_dnn(t_, t_.set(to, name, type, static_cast<int64_t>(values.size()), values.data()),
                     "cudnnBackendSetAttribute");
  }
  template <class T>
  Status set(DnnDescriptor to, int name, int type, const T& value) {
    return set(to, name, type, std::span<const T>(&value, 1));
  }
  Status finalize(DnnDescriptor d) { return check_dnn(t_, t_.finalize(d), "cudnnBackendFinalize"); }
  // Reads at most as many values as the span holds; returns their number.
  template <class T>
  Result<int64_t> get(DnnDescriptor from, int name, int type, std::span<T> out) {
    int64_t count = 0;
    PERI_TRY(check_dnn(t_, t_.get(from, name, type, static_cast<int64_t>(out.size()), &count, out.data()),
                       "cudnnBackendGetAttribute"));
    if (count < 0) return internal_error("cuDNN gave %lld values", static_cast<long long>(count));
    return count;
  }
  template <class T>
  Result<T> one(DnnDescriptor from, int name, int type) {
    T out = {};
    PERI_ASSIGN(const int64_t count, get(from, name, type, std::span<T>(&out, 1)));
    if (count != 1) return internal_error("cuDNN gave %lld values", static_cast<long long>(count));
    return out;
  }

 private:
  const DnnTable& t_;
  std::vector<DnnDescriptor> all_;
};

// Names of the tensors of a graph; inner ones are numbered from there.
enum DnnId : int64_t { kDnnX = 1, kDnnW, kDnnY, kDnnResidual, kDnnBias, kDnnInner };

// The operations of the convolution as a finished graph; the last writes kDnnY.
Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnConv& conv);

}  // namespace peri::device::cuda
