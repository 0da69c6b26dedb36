// The caller's description of its memory is checked against the session's device; then the session runs.
#include "api/session_device.hpp"

#include "base/plural.hpp"
#include "build/open.hpp"
#include "device/open.hpp"

namespace peri::api {

namespace {
const char* kind_name(peri_device device) {
  return device == PERI_DEVICE_CUDA ? "cuda" : device == PERI_DEVICE_NULL ? "null" : "host";
}

// "cuda:1" as its kind and index.
peri_device kind_of(const device::Device& device, int32_t* index) {
  const std::string name = device.name();
  const auto ordinal = device::ordinal_of(name);
  if (index) *index = ordinal.ok() ? *ordinal : 0;
  const std::string_view kind = device::kind_of(name);
  return kind == "cuda" ? PERI_DEVICE_CUDA : kind == "null" ? PERI_DEVICE_NULL : PERI_DEVICE_HOST;
}

Status check_place(const peri_tensor& t, const device::Device* device, const plan::Port& port) {
  if (t.device == PERI_DEVICE_HOST) return Ok{};
  const std::string found = std::string(kind_name(t.device)) + ":" + std::to_string(t.device_index);
  if (t.device != PERI_DEVICE_CUDA && t.device != PERI_DEVICE_NULL)
    return usage("device %d is none", static_cast<int>(t.device)).at_node(port.name);
  if (!device)
    return usage("it lies on a device")
        .at_node(port.name)
        .expecting(
            "memory of the host: inputs and outputs of this "
            "engine lie there")
        .but_found(found);
  int32_t index = 0;
  if (kind_of(*device, &index) != t.device || index != t.device_index)
    return usage("it lies on another device").at_node(port.name).expecting(device->name()).but_found(found);
  return Ok{};
}

Result<std::vector<int64_t>> dims_of(const peri_tensor& t, const plan::Port& port) {
  if (dtype_number(t) != static_cast<int>(port.dtype))
    return invalid("another element type").at_node(port.name).expecting(std::string(dtype_name(port.dtype)));
  if (t.rank > 64 || (t.rank && !t.dims)) return usage("a tensor of rank %zu without dims", t.rank).at_node(port.name);
  return std::vector<int64_t>(t.dims, t.dims + t.rank);
}

Result<std::vector<std::vector<int64_t>>> all_dims(const plan::Program& program, const TensorArray& in) {
  if (in.size() != program.inputs.size())
    return usage("another number of inputs")
        .expecting(std::to_string(program.inputs.size()))
        .but_found(std::to_string(in.size()));
  std::vector<std::vector<int64_t>> out;
  for (size_t k = 0; k < in.size(); ++k) {
    PERI_ASSIGN(out.emplace_back(), dims_of(in[k], program.inputs[k]));
  }
  return out;
}

// Where a tensor of `bytes` bytes lies, for the session.
Result<runtime::PortMemory> place_of(const peri_tensor& t, size_t bytes, const plan::Port& port, bool streams) {
  runtime::PortMemory out;
  if (const int number = dtype_number(t); number != PERI_DTYPE_INVALID && number != static_cast<int>(port.dtype))
    return invalid("another element type").at_node(port.name).expecting(std::string(dtype_name(port.dtype)));
  if (t.bytes != bytes)
    return usage("memory of another size")
        .at_node(port.name)
        .expecting(counted(static_cast<int64_t>(bytes), "byte"))
        .but_found(std::to_string(t.bytes));
  if (bytes && !t.data) return usage("a tensor of %zu bytes without data", bytes).at_node(port.name);
  if (t.device != PERI_DEVICE_HOST) {
    out.address.value = reinterpret_cast<uintptr_t>(t.data);
    return out;
  }
  if (streams) return usage("memory of the host in a run on a stream").at_node(port.name);
  out.host = {static_cast<std::byte*>(t.data), bytes};
  return out;
}

class DeviceCall {
 public:
  DeviceCall(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream)
      : s_(s), program_(s->session->engine().program()), in_(in), out_(out), stream_(stream) {}

  Status run() {
    device::Device* const device = s_->session->resident_device();
    for (size_t k = 0; k < in_.size(); ++k) PERI_TRY(check_place(in_[k], device, program_.inputs[k]));
    for (size_t k = 0; k < out_.size(); ++k) PERI_TRY(check_place(out_[k], device, program_.outputs[k]));
    PERI_ASSIGN(const auto dims, all_dims(program_, in_));
    PERI_ASSIGN(asked_, asked_outputs(*s_, out_));
    // What was left on the device is given up: a larger shape may move it. What was left on the host may be an input.
    s_->last.over = true;
    s_->last.left.clear();
    PERI_TRY(s_->session->prepare(dims));
    PERI_TRY(take_inputs());
    PERI_TRY(take_outputs());
    std::unique_ptr<device::Stream> lent;
    if (stream_) {
      PERI_ASSIGN(lent, device->lend_stream(stream_));
      run_.stream = lent.get();
      run_.wait = false;
    }
    PERI_TRY(s_->session->run_resident(run_));
    PERI_TRY(check_file(*s_));
    made_.left = std::move(tensors_);
    for (size_t k = 0; k < out_.size(); ++k) out_.set(k, made_.left[k]);
    s_->last = std::move(made_);  // its vectors move, what they hold stays in place
    return Ok{};
  }

 private:
  Status take_inputs() {
    for (size_t k = 0; k < in_.size(); ++k) {
      PERI_ASSIGN(const device::Argument own, s_->session->input_memory(k));
      PERI_ASSIGN(run_.inputs.emplace_back(), place_of(in_[k], own.bytes, program_.inputs[k], stream_ != nullptr));
    }
    return Ok{};
  }
  Status take_outputs() {
    made_.dims.reserve(out_.size());
    made_.strings.resize(out_.size());
    for (size_t k = 0; k < out_.size(); ++k) {
      const plan::Port& port = program_.outputs[k];
      PERI_ASSIGN(const device::Argument own, s_->session->output_memory(k));
      PERI_ASSIGN(made_.dims.emplace_back(), eval(port.shape, s_->session->binding()));
      peri_tensor t = asked_[k];
      made_.lent.push_back(!t.data);
      if (!t.data) {
        PERI_TRY(give_memory(own, port, &t));
      } else {
        made_.outputs.emplace_back();
      }
      PERI_ASSIGN(run_.outputs.emplace_back(), place_of(t, own.bytes, port, stream_ != nullptr));
      t.dtype = static_cast<peri_dtype>(port.dtype);
      t.rank = made_.dims.back().size();
      t.dims = made_.dims.back().data();
      tensors_.push_back(t);
    }
    return Ok{};
  }
  // Of the session: on the device where the caller says so, else of the host.
  Status give_memory(const device::Argument& own, const plan::Port& port, peri_tensor* t) {
    t->bytes = own.bytes;
    Tensor host;
    if (t->device == PERI_DEVICE_HOST) {
      PERI_ASSIGN(host, Tensor::uninitialized(port.dtype, made_.dims.back()));
      t->data = host.mutable_data();
    } else {
      t->data = reinterpret_cast<void*>(own.address.value);
    }
    made_.outputs.push_back(std::move(host));
    return Ok{};
  }

  peri_session* s_;
  const plan::Program& program_;
  const TensorArray &in_, &out_;
  void* stream_;
  runtime::ResidentRun run_;
  std::vector<peri_tensor> asked_;
  peri_last_run made_;
  std::vector<peri_tensor> tensors_;
};

Status prepare(peri_session* s, const TensorArray& in) {
  PERI_ASSIGN(const auto dims, all_dims(s->session->engine().program(), in));
  s->last.left.clear();  // it may lie elsewhere behind this; outputs of the host stay where they are
  PERI_TRY(s->session->prepare(dims));
  return check_file(*s);
}

Status port_memory(peri_session* s, size_t index, bool input, peri_tensor* out) {
  PERI_ASSIGN(const TensorArray given, TensorArray::of(out, 1));
  const std::vector<plan::Port>& ports =
      input ? s->session->engine().program().inputs : s->session->engine().program().outputs;
  auto own = input ? s->session->input_memory(index) : s->session->output_memory(index);
  PERI_TRY(own);
  auto& dims = s->port_dims[{input, index}];
  PERI_ASSIGN(dims, eval(ports[index].shape, s->session->binding()));
  peri_tensor t = given[0];
  t.dtype = static_cast<peri_dtype>(ports[index].dtype);
  t.device = kind_of(*s->session->resident_device(), &t.device_index);
  t.dims = dims.data();
  t.rank = dims.size();
  t.data = reinterpret_cast<void*>(own->address.value);
  t.bytes = own->bytes;
  given.set(0, t);
  return Ok{};
}
}  // namespace

bool any_on_device(const TensorArray& tensors) {
  for (size_t k = 0; k < tensors.size(); ++k)
    if (tensors[k].device != PERI_DEVICE_HOST) return true;
  return false;
}

Status run_on_device(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream) {
  return DeviceCall(s, in, out, stream).run();
}

const peri_tensor* left_on_device(const peri_session& s, size_t index) {
  const std::vector<peri_tensor>& left = s.last.left;
  return index < left.size() && left[index].device != PERI_DEVICE_HOST ? &left[index] : nullptr;
}

}  // namespace peri::api

extern "C" {

peri_device peri_session_device(const peri_session* session, int32_t* index) {
  const peri::device::Device* const device = session ? session->session->resident_device() : nullptr;
  if (index) *index = 0;
  return device ? peri::api::kind_of(*device, index) : PERI_DEVICE_HOST;
}

peri_error* peri_session_prepare(peri_session* session, const peri_tensor* in, size_t in_count) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session) return peri::usage("peri_session_prepare needs a session");
    return peri::api::alone(session, [&]() -> peri::Status {
      const size_t inputs = session->engine->program().inputs.size();
      PERI_ASSIGN(const auto given, peri::api::TensorArray::of_inputs(in, in_count, inputs));
      return peri::api::prepare(session, given);
    });
  });
}

peri_error* peri_session_input_memory(peri_session* session, size_t index, peri_tensor* out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session || !out) return peri::usage("peri_session_input_memory needs a session and a place for the tensor");
    return peri::api::alone(session, [&] { return peri::api::port_memory(session, index, true, out); });
  });
}

peri_error* peri_session_output_memory(peri_session* session, size_t index, peri_tensor* out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session || !out) return peri::usage("peri_session_output_memory needs a session and a place for the tensor");
    return peri::api::alone(session, [&] { return peri::api::port_memory(session, index, false, out); });
  });
}

peri_error* peri_session_wait(peri_session* session) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session) return peri::usage("peri_session_wait needs a session");
    return peri::api::alone(session, [&]() -> peri::Status {
      PERI_TRY(session->session->finish());
      return peri::api::check_file(*session);
    });
  });
}

}  // extern "C"
