// The caller's side of a run on the host: inputs are used where they are, outputs go to the caller's memory or to new
// tensors, before the run where they lie in buffers of their own, else by a copy after it.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/session_state.hpp"

namespace peri::runtime {

Result<std::vector<Tensor>> Session::State::run(std::span<const Tensor> inputs, std::span<const View> given) {
  given_inputs.clear();
  for (const Tensor& t : inputs)
    given_inputs.push_back(
        {t.dtype(), &t.dims(),
         t.dtype() == DType::kString ? const_cast<std::vector<std::string>*>(&t.string_values()) : t.data(),
         t.bytes().size()});
  std::vector<Tensor> outs(program().outputs.size());
  PERI_TRY(run_given(given, &outs));
  for (size_t k = 0; k < outs.size() && k < given.size(); ++k) {
    if (!given[k].data) continue;
    const View& v = given[k];
    PERI_ASSIGN(const size_t bytes, bytes_of(v));
    PERI_ASSIGN(outs[k], Tensor::view(v.dtype, v.dims, {static_cast<const std::byte*>(v.data), bytes}, nullptr));
  }
  return outs;
}

Status Session::State::run_views(std::span<const View> inputs, std::span<const View> given,
                                 std::vector<Tensor>* others) {
  given_inputs.clear();
  for (const View& v : inputs) {
    size_t bytes = 0;
    if (v.dtype != DType::kString) {
      const auto counted = bytes_of(v);
      const size_t k = given_inputs.size();
      if (!counted.ok())
        return Error(counted.error()).at_node(k < program().inputs.size() ? program().inputs[k].name : "");
      bytes = *counted;
    }
    given_inputs.push_back({v.dtype, &v.dims, v.data, bytes});
  }
  others->resize(program().outputs.size());
  return run_given(given, others);
}

void Session::State::bind_inputs() {
  const plan::Program& p = program();
  inputs_at.assign(given_inputs.size(), {});
  outputs_at.clear();
  for (size_t k = 0; k < given_inputs.size(); ++k) {
    void* data = const_cast<void*>(given_inputs[k].data);
    const auto b = static_cast<size_t>(p.inputs[k].buffer);
    if (!devices.empty() && devices.fixed[b]) {
      const std::span<std::byte> staged = devices.staging[b].bytes();
      if (given_inputs[k].bytes > 0) std::memcpy(staged.data(), data, given_inputs[k].bytes);
      data = staged.data();
      inputs_at[k].host = staged.first(given_inputs[k].bytes);
    }
    now->pointers[b] = data;
  }
}

Result<size_t> Session::State::bytes_of(const View& v) {
  PERI_ASSIGN(const int64_t n, checked_numel(v.dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(v.dtype, n));
  return static_cast<size_t>(bytes);
}

// Whether an output has a size yet; an empty one has it before all of its dimensions are bound.
bool Session::State::sized(size_t port) const {
  const auto& shape = sizes().outputs[port];
  return std::all_of(shape.begin(), shape.end(), [&](int32_t dim) {
    if (!sizes().table.bound(dim, values())) return false;
    const auto size = sizes().table.eval(dim, values());
    return size.ok() && *size >= 0;
  });
}

// The memory an output goes to: the caller's, else that of a new tensor (null where it holds strings).
Result<void*> Session::State::output_memory(size_t port, std::span<const View> given, Tensor* out) {
  const plan::Port& o = program().outputs[port];
  const auto& shape = sizes().outputs[port];
  if (port < given.size() && given[port].data) {
    const View& v = given[port];
    bool same = v.dtype == o.dtype && v.dims.size() == shape.size();
    for (size_t axis = 0; same && axis < shape.size(); ++axis) {
      PERI_ASSIGN(const int64_t size, sizes().table.eval(shape[axis], values()));
      same = size == v.dims[axis];
    }
    if (same) {
      PERI_TRY(bytes_of(v));  // strings have no such memory
      return v.data;
    }
    PERI_ASSIGN(const std::vector<int64_t> dims, sizes().table.eval(shape, values()));
    return usage("the memory given for the output has another type")
        .at_node(o.name)
        .expecting(std::string(dtype_name(o.dtype)) + shape_text(Shape(dims.begin(), dims.end())));
  }
  PERI_ASSIGN(*out, new_output(port));
  return o.dtype == DType::kString ? nullptr : static_cast<void*>(out->mutable_data());
}

Result<Tensor> Session::State::new_output(size_t port) {
  const plan::Port& o = program().outputs[port];
  auto known = sizes().table.eval(sizes().outputs[port], values());
  if (!known.ok()) return std::move(known).error().at_node(o.name);
  std::vector<int64_t> dims = *std::move(known);
  if (o.dtype == DType::kString) return Tensor::uninitialized(o.dtype, std::move(dims));
  PERI_ASSIGN(const int64_t n, checked_numel(dims));
  PERI_ASSIGN(const int64_t bytes, dtype_bytes(o.dtype, n));
  if (!options().allocator.allocate && bytes < kLargeOutput) return Tensor::uninitialized(o.dtype, std::move(dims));
  auto own = bytes < kLargeOutput ? std::make_shared<Memory>() : large_output(port);
  PERI_TRY(own->reserve(static_cast<size_t>(bytes), options()));
  const std::span<const std::byte> view(own->data.get(), static_cast<size_t>(bytes));
  return Tensor::view(o.dtype, std::move(dims), view, std::move(own));
}

// That of the last run, once whoever had the result has let go of it: the system hands out fresh pages zeroed, and that
// takes longer than most steps write them.
std::shared_ptr<Memory> Session::State::large_output(size_t port) {
  large_outputs.resize(program().outputs.size());
  std::shared_ptr<Memory>& last = large_outputs[port];
  if (last && last.use_count() == 1)
    std::atomic_thread_fence(std::memory_order_acquire);  // what its holders did is done
  else
    last = std::make_shared<Memory>();
  return last;
}

// Outputs that lie in buffers of their own get their memory before the run.
Status Session::State::place_outputs(std::span<const View> given, std::vector<Tensor>* outs) {
  const plan::Program& p = program();
  const std::vector<int64_t>& bytes = now->arena_plan.bytes;
  direct.assign(p.outputs.size(), false);
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    const int32_t b = p.outputs[k].buffer, owner = plan::storage_of(p, b);
    const bool own =
        p.buffers[static_cast<size_t>(owner)].kind == plan::BufferKind::kOutput && p.outputs[k].dtype != DType::kString;
    if (!devices.empty() && devices.fixed[static_cast<size_t>(owner)]) continue;  // captured: it stays where it is
    if (!own || !sized(k) || bytes[static_cast<size_t>(owner)] == plan::kUnbound ||
        bytes[static_cast<size_t>(owner)] != bytes[static_cast<size_t>(b)])
      continue;
    if (std::any_of(p.outputs.begin(), p.outputs.begin() + static_cast<std::ptrdiff_t>(k),
                    [&](const plan::Port& q) { return plan::storage_of(p, q.buffer) == owner; }))
      continue;
    PERI_ASSIGN(now->pointers[static_cast<size_t>(owner)], output_memory(k, given, &(*outs)[k]));
    direct[k] = true;
  }
  return Ok{};
}

// After the run: outputs that lie elsewhere are copied.
Status Session::State::collect_outputs(std::span<const View> given, std::vector<Tensor>* outs) {
  const plan::Program& p = program();
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    if (direct[k]) continue;
    Tensor& out = (*outs)[k];
    PERI_ASSIGN(void* const to, output_memory(k, given, &out));
    size_t bytes = 0;
    if (p.outputs[k].dtype != DType::kString) {
      PERI_ASSIGN(bytes, k < given.size() && given[k].data ? bytes_of(given[k]) : Result<size_t>(out.bytes().size()));
    }
    if (is_away(p.outputs[k].buffer)) {
      if (bytes > 0) std::memcpy(to, devices.staging[p.buffers.size() + k].bytes().data(), bytes);
      continue;
    }
    if (data_dependent) PERI_TRY(place(p.outputs[k].buffer));  // a view that no step reads
    const void* from = now->pointers[static_cast<size_t>(p.outputs[k].buffer)];
    if (p.outputs[k].dtype == DType::kString)
      out.mutable_strings() = *static_cast<const std::vector<std::string>*>(from);
    else if (bytes > 0)
      std::memcpy(to, from, bytes);
  }
  return Ok{};
}

}  // namespace peri::runtime
