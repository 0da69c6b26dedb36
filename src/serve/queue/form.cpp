// Each element is copied once, into the model's input; a change of dims is free.
#include "serve/queue/form.hpp"

#include <algorithm>

#include "serve/queue/rows.hpp"

namespace peri::serve {
namespace {

// A tensor with dims of the form `from` as a view with dims of the form `to`, after the batch axis if there is one:
// free dims keep their order.
Result<Tensor> under_dims(const Tensor& t, bool batch, const std::vector<int64_t>& from,
                          const std::vector<int64_t>& to) {
  const size_t skip = batch ? 1 : 0;
  if (t.dims().size() != from.size() + skip) return internal_error("a tensor of another rank than its dims");
  std::vector<int64_t> dims(t.dims().begin(), t.dims().begin() + static_cast<std::ptrdiff_t>(skip)), free;
  for (size_t k = 0; k < from.size(); ++k)
    if (from[k] < 0) free.push_back(t.dims()[k + skip]);
  size_t next = 0;
  for (const int64_t d : to) dims.push_back(d < 0 ? free.at(next++) : d);
  return t.reshaped(std::move(dims));
}

int64_t elements(std::span<const std::vector<Tensor>* const> requests, size_t port, size_t until) {
  int64_t out = 0;
  for (size_t k = 0; k < until; ++k) out += (*requests[k])[port].numel();
  return out;
}

Result<Tensor> copy_of(const Tensor& t) {
  if (t.dtype() == DType::kString) return Tensor::strings(t.dims(), t.string_values());
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(t.dtype(), t.dims()));
  std::copy(t.bytes().begin(), t.bytes().end(), out.mutable_data());
  return out;
}

// A view of `count` elements from `first` on, with these dims.
Result<Tensor> slice(const Tensor& whole, int64_t first, int64_t count, std::vector<int64_t> dims) {
  PERI_ASSIGN(const Tensor flat, whole.reshaped({whole.numel()}));
  if (first + count > whole.numel()) return internal_error("an output has fewer elements than the requests gave");
  PERI_ASSIGN(const std::vector<Tensor> part, take_rows(std::span(&flat, 1), whole.numel(), first, count));
  return part[0].reshaped(std::move(dims));
}
}  // namespace

Result<Tensor> Form::control(const ControlConfig& c, const plan::Port& port, const SequenceStep& step) const {
  using Kind = ControlConfig::Kind;
  std::vector<int64_t> dims(port.shape.size(), 1);
  if (c.kind != Kind::kCorrelation) {
    const bool on = c.kind == Kind::kReady || (c.kind == Kind::kStart ? step.start : step.end);
    PERI_ASSIGN(Tensor out, Tensor::zeros(port.dtype, std::move(dims)));
    out.set_f64(0, on ? c.yes : c.no);
    return out;
  }
  if (port.dtype == DType::kString)
    return Tensor::strings(std::move(dims), {step.id.text.empty() ? std::to_string(step.id.number) : step.id.text});
  const int bits = dtype_bits(port.dtype) - (is_signed(port.dtype) ? 1 : 0);
  if (!step.id.text.empty() || (bits < 64 && step.id.number >> bits != 0))
    return invalid("the model takes the correlation ID as %s: '%s' is none",
                   std::string(dtype_name(port.dtype)).c_str(), step.id.shown().c_str());
  PERI_ASSIGN(Tensor out, Tensor::zeros(port.dtype, std::move(dims)));
  out.set_i64(0, static_cast<int64_t>(step.id.number));
  return out;
}

Result<std::vector<Tensor>> Form::rows_of(std::vector<Tensor> seen, const SequenceStep* step,
                                          std::span<const Tensor> states) const {
  const int64_t rows = batch_ && !seen.empty() && seen[0].rank() > 0 ? seen[0].dims()[0] : 1;
  if (rows != 1 && one_row_)
    return invalid("a request of this model has batch-size 1: its elements are counted by requests");
  std::vector<Tensor> out(in_.size());
  for (size_t k = 0; k < in_.size(); ++k) {
    const In& in = in_[k];
    if (in.kind == In::Kind::kClient && in.seen_dims) {
      PERI_ASSIGN(out[k], under_dims(seen[in.at], batch_, *in.seen_dims, *in.own_dims));
    } else if (in.kind == In::Kind::kClient) {
      out[k] = std::move(seen[in.at]);
    } else if (in.kind == In::Kind::kControl && step) {
      PERI_ASSIGN(out[k], control(controls_[in.at], own_inputs_[k], *step));
    } else if (in.kind == In::Kind::kState) {
      out[k] = states.empty() ? states_[in.at].initial : states[in.at];
    }
  }
  return out;
}

uint64_t Form::key(std::span<const Tensor> rows) const {
  std::vector<Tensor> fixed;
  for (size_t k = 0; k < in_.size(); ++k)
    if (!in_[k].ragged && in_[k].kind != In::Kind::kBatch) fixed.push_back(rows[k]);
  return shape_key(fixed);
}

Result<Tensor> Form::batch_input(const BatchInput& made, const plan::Port& port,
                                 std::span<const std::vector<Tensor>* const> requests) const {
  using Kind = BatchInputConfig::Kind;
  std::vector<int64_t> values, dims;
  int64_t sum = 0, most = 0;
  if (made.kind == Kind::kSumWithZero) values.push_back(0);
  for (const std::vector<Tensor>* r : requests) {
    const Tensor& t = (*r)[made.source];
    sum += t.numel();
    most = std::max(most, t.numel());
    if (made.kind == Kind::kItemShape || made.kind == Kind::kItemShapeFlat)
      for (int64_t row = 0; row < t.dims()[0]; ++row) values.insert(values.end(), t.dims().begin() + 1, t.dims().end());
    else
      values.push_back(made.kind == Kind::kCount ? t.numel() : sum);
  }
  dims = {static_cast<int64_t>(values.size())};
  if (made.kind == Kind::kMaxAsShape) return Tensor::zeros(port.dtype, {most});
  if (made.kind == Kind::kItemShape) {
    const int64_t rank = (*requests[0])[made.source].rank() - 1;
    dims = {rank > 0 ? static_cast<int64_t>(values.size()) / rank : 0, rank};
  }
  PERI_ASSIGN(Tensor out, Tensor::zeros(port.dtype, std::move(dims)));
  for (size_t k = 0; k < values.size(); ++k) out.set_i64(static_cast<int64_t>(k), values[k]);
  return out;
}

Result<std::vector<Tensor>> Form::join(std::span<const std::vector<Tensor>* const> requests) const {
  std::vector<Tensor> out(in_.size());
  for (size_t k = 0; k < in_.size(); ++k) {
    if (in_[k].kind == In::Kind::kBatch) {
      PERI_ASSIGN(out[k], batch_input(batch_inputs_[in_[k].at], own_inputs_[k], requests));
      continue;
    }
    std::vector<std::vector<Tensor>> parts;
    for (const std::vector<Tensor>* r : requests) {
      const Tensor& t = (*r)[k];
      if (!in_[k].ragged) {
        parts.push_back({t});
        continue;
      }
      PERI_ASSIGN(Tensor flat, t.reshaped({t.numel()}));
      parts.push_back({std::move(flat)});
    }
    if (parts.size() == 1) {
      out[k] = std::move(parts[0][0]);
      continue;
    }
    std::vector<const std::vector<Tensor>*> pointers;
    for (const auto& p : parts) pointers.push_back(&p);
    PERI_ASSIGN(std::vector<Tensor> joined, join_rows(pointers));
    out[k] = std::move(joined[0]);
  }
  return out;
}

Result<Tensor> Form::part_of(const Tensor& whole, const Out& out, std::span<const std::vector<Tensor>* const> requests,
                             std::span<const int64_t> rows, size_t request) const {
  if (out.scatter) {
    const Tensor& source = (*requests[request])[*out.scatter];
    if (request == 0 && whole.numel() != elements(requests, *out.scatter, requests.size()))
      return internal_error("an output to be scattered has other elements than its source: %s",
                            tensor_type_text(whole).c_str());
    return slice(whole, elements(requests, *out.scatter, request), source.numel(), source.dims());
  }
  Tensor part = whole;
  if (requests.size() > 1 || ragged_) {
    int64_t total = 0, first = 0;
    for (size_t k = 0; k < rows.size(); ++k) {
      if (k < request) first += rows[k];
      total += rows[k];
    }
    PERI_ASSIGN(std::vector<Tensor> mine, take_rows(std::span(&whole, 1), total, first, rows[request]));
    part = std::move(mine[0]);
  }
  if (!out.seen_dims) return part;
  return under_dims(part, batch_, *out.own_dims, *out.seen_dims);
}

Result<std::vector<Form::Part>> Form::take(std::span<const Tensor> whole,
                                           std::span<const std::vector<Tensor>* const> requests,
                                           std::span<const int64_t> rows) const {
  std::vector<Part> out(requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    out[r].states.resize(states_.size());
    for (size_t k = 0; k < out_.size(); ++k) {
      PERI_ASSIGN(Tensor part, part_of(whole[k], out_[k], requests, rows, r));
      if (out_[k].state) {
        PERI_ASSIGN(out[r].states[*out_[k].state], copy_of(part));
      }
      if (out_[k].seen) out[r].outputs.push_back(std::move(part));
    }
  }
  return out;
}

}  // namespace peri::serve
