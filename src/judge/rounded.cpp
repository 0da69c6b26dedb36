// An engine's source has the weights that it keeps; a model has its own.
#include "judge/rounded.hpp"

#include <cmath>

#include "judge/pieces.hpp"
#include "judge/whole.hpp"
#include "plan/program.hpp"

namespace peri::judge {

namespace {
std::vector<ops::RefTensor> as_reference(std::span<const Tensor> inputs) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  return in;
}
}  // namespace

bool is_narrow(DType type) { return unit_roundoff(type) > unit_roundoff(DType::kF32); }

Result<const std::vector<Tensor>*> References::made(std::vector<Tensor>* out, const ir::Graph& graph) const {
  if (out->empty()) {
    PERI_ASSIGN(const auto values, ops::run_reference(graph, as_reference(inputs_), {0, threads_, false, {}}));
    for (const ops::RefTensor& r : values) out->push_back(ops::from_ref(r));
  }
  return out;
}

Result<const std::vector<Tensor>*> References::plain() { return made(&plain_, s_.reference); }

bool References::parts() const { return is_narrow(s_.engine->program().precision) && (!s_.source || model_); }

Result<const std::vector<Tensor>*> References::own() {
  return s_.source && model_ && parts() ? made(&own_, *model_) : plain();
}

Result<const std::vector<Tensor>*> References::stored() {
  if (s_.source || !parts()) return plain();
  if (stored_.empty()) {
    PERI_ASSIGN(const ir::Graph rounded, with_stored_weights(s_.reference, s_.engine->program().precision, threads_));
    return made(&stored_, rounded);
  }
  return &stored_;
}

Result<double> References::moved_by_values(const Tensor& want, size_t k) {
  const DType type = plan::values_type(s_.engine->program());
  if (!is_narrow(type) || !is_float(want.dtype())) return 0.0;
  if (narrow_.empty()) {
    PERI_ASSIGN(const auto values, narrow_reference(s_.reference, as_reference(inputs_), type, threads_));
    for (const ops::RefTensor& r : values) narrow_.push_back(ops::from_ref(r));
  }
  PERI_ASSIGN(const Difference d, difference(want, narrow_[k], {}));
  return std::isfinite(d.relative) ? d.relative : 0;  // a type that does not hold the answer gives no room
}

}  // namespace peri::judge
