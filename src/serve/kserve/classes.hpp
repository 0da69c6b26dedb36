// Classes in place of numbers: of an output asked for with 'classification', each row's largest elements as texts
// "VALUE:INDEX" or "VALUE:INDEX:LABEL", largest first, as Triton writes them.
#pragma once

#include "serve/kserve/infer_request.hpp"
#include "serve/repository/served.hpp"

namespace peri::serve {

// Replaces the outputs for which that was wanted by BYTES: [rows, classes], or [classes] of a model without
// max_batch_size. Of equal elements the first comes first, NaN comes last. Errors: kInvalid: an output of texts.
Status answer_classes(const Served& served, const std::vector<InferRequest::Wanted>& wanted,
                      std::vector<Tensor>* outputs);

}  // namespace peri::serve
