// Classification: for an output requested with 'classification', the largest elements of each row as texts
// "VALUE:INDEX" or "VALUE:INDEX:LABEL", in descending order, in Triton's format.
#pragma once

#include "serve/kserve/infer_request.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

// Replaces such outputs by BYTES of shape [rows, classes], or [classes] for a model without max_batch_size. Equal
// elements are ordered by index; NaN is last. Errors: kInvalid: an output of BYTES.
Status answer_classes(const Served& served, const std::vector<InferRequest::Wanted>& wanted,
                      std::vector<Tensor>* outputs);

}  // namespace peri::serve
