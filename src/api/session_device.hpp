// Runs through the C interface, including those with inputs or outputs in device memory.
#pragma once

#include "api/handles.hpp"
#include "api/tensors.hpp"

namespace peri::api {

// As peri_session_run(), by who has the session alone.
Status run_session(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream);
// Whether a tensor lies on a device, so that run_on_device() is for it.
bool any_on_device(const TensorArray& tensors);
Status run_on_device(peri_session* s, const TensorArray& in, const TensorArray& out, void* stream);
// Output `index` of the last run, where that left it on the device in the session's memory; null: it did not.
const peri_tensor* left_on_device(const peri_session& s, size_t index);

}  // namespace peri::api
