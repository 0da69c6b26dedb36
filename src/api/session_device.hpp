// Runs through the C interface, including those with inputs or outputs in device memory.
#pragma once

#include "api/handles.hpp"
#include "api/tensors.hpp"

namespace peri::api {

// As peri_session_run(), with exclusive use of the session.
Status run_session(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream);
// `out` as a run takes it. Where the data of an output is what the last run gave, as in a tensor that is passed to one
// run after another, it is NULL: that memory is the session's. kUsage: it lies elsewhere in such memory.
Result<std::vector<peri_tensor>> asked_outputs(const peri_session& s, const TensorArray& out);
// Whether a tensor is on a device, so that run_on_device() applies.
bool any_on_device(const TensorArray& tensors);
Status run_on_device(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream);
// Output `index` of the last run, if it is on the device in the session's memory; else null.
const peri_tensor* left_on_device(const peri_session& s, size_t index);

}  // namespace peri::api
