// Creation and reading of cuDNN's descriptors, and problems as graphs of them.
#pragma once

#include <span>

#include "device/cuda/cudnn.hpp"

namespace peri::device::cuda {

struct DnnTable {
#define PERI_CUDNN(member, symbol, parameters) int(*member) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses)
#include "device/cuda/cudnn.def"
#undef PERI_CUDNN
  const char* (*status_text)(int) = nullptr;
  void (*last_error)(char* text, size_t bytes) = nullptr;  // null: an older library has none
};

// The error for a status other than 0, with the library's reason.
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
    return check_dnn(
        t_, t_.set(to, name, type, static_cast<int64_t>(values.size()), static_cast<const void*>(values.data())),
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
    PERI_TRY(check_dnn(
        t_, t_.get(from, name, type, static_cast<int64_t>(out.size()), &count, static_cast<void*>(out.data())),
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

// Names of the tensors of a graph; inner ones are numbered from there. kDnnScale and kDnnHidden are single floats,
// given by the host at each run.
enum DnnId : int64_t {
  kDnnX = 1,
  kDnnW,
  kDnnY,
  kDnnResidual,
  kDnnBias,
  kDnnQ,
  kDnnK,
  kDnnV,
  kDnnMask,
  kDnnScale,
  kDnnHidden,
  kDnnInner
};
using DnnSizes = std::array<int64_t, 4>;

// The operations of a graph as they are added, in order. `handle`: null for a GPU that is not here.
class DnnOperations {
 public:
  DnnOperations(DnnPool& pool, DnnHandle handle) : pool_(pool), handle_(handle) {}

  // A tensor of the graph's user; `type` as cudnnDataType_t.
  Result<DnnDescriptor> outer(int64_t id, int type, const DnnSizes& dims, const DnnSizes& strides);
  Result<DnnDescriptor> number(int64_t id);  // a float of the host
  Result<DnnDescriptor> inner(int type, const DnnSizes& dims, const DnnSizes& strides);
  // y = mode(x, b), or where `choice` is given, mode(x, b, choice); b may be null. `axis`: of kDnnIndex only.
  struct Pointwise {
    int mode = 0, precision = kDnnFloat;
    DnnDescriptor x = nullptr, b = nullptr, choice = nullptr;
    int64_t axis = -1;
  };
  Status apply(const Pointwise& what, DnnDescriptor y);
  Status multiply(DnnDescriptor a, DnnDescriptor b, DnnDescriptor y);  // matrices in the last two axes
  Status reduce(int how, DnnDescriptor x, DnnDescriptor y);            // along axes in which y has one element
  Status add(DnnDescriptor operation);                                 // one that is made but not finalized
  Result<DnnDescriptor> graph();
  DnnPool& pool() { return pool_; }

 private:
  Result<DnnDescriptor> tensor(int64_t id, int type, const DnnSizes& dims, const DnnSizes& strides, bool inner,
                               bool number);

  DnnPool& pool_;
  DnnHandle handle_;
  int64_t next_ = kDnnInner;
  std::vector<DnnDescriptor> all_;
};

int dnn_type(DType dtype);  // kF32, kF16 or kBF16
// Each problem as a finished graph that writes kDnnY.
Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnConv& conv);
Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnAttention& attention);

}  // namespace peri::device::cuda
