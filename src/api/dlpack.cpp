// Tensors of other array libraries through the C interface, without a copy: DLPack.
#include "peri/dlpack.h"

#include "api/session_device.hpp"

namespace peri::api {

namespace {
struct Format {
  uint8_t code, bits;
  peri_dtype dtype;
};
constexpr Format kFormats[] = {
    {kDLFloat, 32, PERI_F32}, {kDLFloat, 64, PERI_F64}, {kDLFloat, 16, PERI_F16}, {kDLBfloat, 16, PERI_BF16},
    {kDLInt, 8, PERI_I8},     {kDLInt, 16, PERI_I16},   {kDLInt, 32, PERI_I32},   {kDLInt, 64, PERI_I64},
    {kDLUInt, 8, PERI_U8},    {kDLUInt, 16, PERI_U16},  {kDLUInt, 32, PERI_U32},  {kDLUInt, 64, PERI_U64},
    {kDLBool, 8, PERI_BOOL},
};

// DLPack's device types by number, as its specification has them.
std::string device_name(int64_t type) {
  static constexpr const char* kNames[] = {"",        "CPU",          "CUDA",   "CUDA host", "OpenCL",  "",
                                           "",        "Vulkan",       "Metal",  "VPI",       "ROCm",    "ROCm host",
                                           "ext dev", "CUDA managed", "oneAPI", "WebGPU",    "Hexagon", "MAIA"};
  const bool known = type >= 0 && type < static_cast<int64_t>(std::size(kNames)) && kNames[type][0];
  return known ? kNames[type] : "device type " + std::to_string(type);
}

// Elements of a dense tensor; its strides, where they are given, must be those of row-major order.
Result<int64_t> dense_count(const DLTensor& t) {
  if (t.ndim < 0 || t.ndim > 64 || (t.ndim && !t.shape))
    return usage("a DLPack tensor of %d dimensions without a shape", t.ndim);
  const std::vector<int64_t> dims(t.shape, t.shape + t.ndim);
  PERI_ASSIGN(const int64_t count, checked_numel(dims));
  int64_t want = 1;
  for (int32_t axis = t.ndim; t.strides && count > 0 && axis-- > 0; want *= t.shape[axis])
    if (t.shape[axis] > 1 && t.strides[axis] != want)
      return usage("axis %d of a DLPack tensor has stride %lld", axis, static_cast<long long>(t.strides[axis]))
          .expecting(std::to_string(want))
          .advise("pass a contiguous copy");
  return count;
}

// Only what the caller has room for. One that was compiled before there were devices has no room for their index, and
// no tensor there.
Status fill(peri_tensor* out, peri_tensor made) {
  constexpr size_t kBeforeDevices = offsetof(peri_tensor, device_index);
  if (out->struct_size != sizeof(made) && out->struct_size != kBeforeDevices)
    return usage("peri_tensor.struct_size is %zu", out->struct_size)
        .expecting(std::to_string(sizeof(peri_tensor)))
        .advise("set it before the call");
  const size_t known = out->struct_size == sizeof(made) ? sizeof(made) : kBeforeDevices;
  if (made.device != PERI_DEVICE_HOST && known == kBeforeDevices)
    return usage("no room for the index of a device").advise("set peri_tensor.struct_size before the call");
  made.struct_size = known;
  __builtin_memcpy(static_cast<void*>(out), &made, known);
  return Ok{};
}

Status from_dlpack(const DLTensor& t, peri_tensor* out) {
  const auto device = static_cast<int64_t>(t.device.device_type);
  if (device != kDLCPU && device != kDLCUDA && device != kDLCUDAHost)
    return usage("a DLPack tensor on %s", device_name(device).c_str())
        .expecting("CPU or CUDA")
        .advise("copy it to host memory first");
  PERI_ASSIGN(const int64_t count, dense_count(t));
  for (const Format& f : kFormats) {
    if (t.dtype.code != f.code || t.dtype.bits != f.bits || t.dtype.lanes != 1) continue;
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(static_cast<DType>(f.dtype), count));
    const peri_tensor made = {sizeof(peri_tensor),
                              f.dtype,
                              device == kDLCUDA ? PERI_DEVICE_CUDA : PERI_DEVICE_HOST,
                              t.shape,
                              static_cast<size_t>(t.ndim),
                              t.data ? static_cast<std::byte*>(t.data) + t.byte_offset : nullptr,
                              static_cast<size_t>(bytes),
                              device == kDLCUDA ? t.device.device_id : 0};
    return fill(out, made);
  }
  return unsupported("a DLPack element type of code %d, %d bits, %d lanes", t.dtype.code, t.dtype.bits, t.dtype.lanes);
}

// What a managed tensor of ours keeps.
struct Shared {
  Tensor tensor;
  std::shared_ptr<const runtime::Engine> engine;  // whose device the memory is of
  device::Memory memory;
  std::vector<int64_t> dims;
  DLManagedTensor managed = {};
};

void release(DLManagedTensor* self) { std::unique_ptr<Shared>{static_cast<Shared*>(self->manager_ctx)}.reset(); }

// Handed out: everything but the data is filled from what is shared.
Result<DLManagedTensor*> handed_out(std::unique_ptr<Shared> shared, DType dtype, void* data, DLDevice device) {
  for (const Format& f : kFormats) {
    if (static_cast<DType>(f.dtype) != dtype) continue;
    DLTensor& t = shared->managed.dl_tensor;
    t.data = data;
    t.device = device;
    t.ndim = static_cast<int32_t>(shared->dims.size());
    t.dtype = {f.code, f.bits, 1};
    t.shape = shared->dims.data();
    shared->managed.deleter = release;
    DLManagedTensor* out = &shared->managed;
    out->manager_ctx = shared.release();
    return out;
  }
  return unsupported("DLPack has no element type for %s", std::string(dtype_name(dtype)).c_str());
}

DLDevice dlpack_device(int32_t type, int32_t index) {
  DLDevice out = {};
  out.device_type = static_cast<decltype(out.device_type)>(type);
  out.device_id = index;
  return out;
}

// A copy on the device, since the next run writes where the output lies.
Result<DLManagedTensor*> copied_to_dlpack(const peri_session& s, const peri_tensor& left) {
  if (left.device != PERI_DEVICE_CUDA) return unsupported("DLPack does not know this device");
  PERI_TRY(s.session->finish());
  auto shared = std::make_unique<Shared>();
  shared->engine = s.engine;
  shared->dims.assign(left.dims, left.dims + left.rank);
  device::Device* const device = s.session->resident_device();
  PERI_ASSIGN(shared->memory, device->allocate(left.bytes));
  PERI_ASSIGN(const device::Memory lent, device->lend({reinterpret_cast<uintptr_t>(left.data)}, left.bytes));
  PERI_TRY(s.session->stream()->copy(shared->memory.address(), lent.address(), left.bytes));
  PERI_TRY(s.session->stream()->synchronize());
  void* const data = reinterpret_cast<void*>(shared->memory.address().value);
  return handed_out(std::move(shared), static_cast<DType>(left.dtype), data, dlpack_device(kDLCUDA, left.device_index));
}

Result<DLManagedTensor*> to_dlpack(const peri_session& s, size_t index) {
  if (const peri_tensor* const left = left_on_device(s, index)) return copied_to_dlpack(s, *left);
  const std::vector<Tensor>& outputs = s.last.outputs;
  if (s.last.over || index >= outputs.size() || !outputs[index].defined())
    return usage("the last run gave no output %zu", index).expecting(format("one of %zu", outputs.size()));
  auto shared = std::make_unique<Shared>();
  shared->tensor = outputs[index];
  shared->dims = shared->tensor.dims();
  void* const data = const_cast<void*>(shared->tensor.data());
  const DType dtype = shared->tensor.dtype();
  PERI_ASSIGN(DLManagedTensor* const out, handed_out(std::move(shared), dtype, data, dlpack_device(kDLCPU, 0)));
  s.last.lent[index] = false;
  return out;
}
}  // namespace

}  // namespace peri::api

extern "C" {

peri_error* peri_tensor_from_dlpack(const DLManagedTensor* tensor, peri_tensor* out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!tensor || !out) return peri::usage("peri_tensor_from_dlpack needs a tensor and a place for its description");
    return peri::api::from_dlpack(tensor->dl_tensor, out);
  });
}

peri_error* peri_session_output_to_dlpack(const peri_session* session, size_t index, DLManagedTensor** out) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session || !out)
      return peri::usage("peri_session_output_to_dlpack needs a session and a place for the tensor");
    return peri::api::alone(session, [&]() -> peri::Status {
      PERI_ASSIGN(*out, peri::api::to_dlpack(*session, index));
      return peri::Ok{};
    });
  });
}

}  // extern "C"
