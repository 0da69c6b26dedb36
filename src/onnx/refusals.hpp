// Why an operator of a model is not supported, and what the user can do about it.
#pragma once

#include <string>
#include <string_view>

#include "ops/entry.hpp"

namespace peri::onnx {

// Supported opsets of the ONNX domain. The newest is that of the pinned onnx package.
constexpr int64_t kOldestOpset = 1;
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestMlOpset = 5;  // of ai.onnx.ml

struct Refusal {
  std::string reason, remedy;
};

// The definition for `op` of `domain` at the model's `opset`; null: unsupported, with the reason in *why.
const ops::OpDef* find_definition(std::string_view domain, std::string_view op, int64_t opset, Refusal* why);

}  // namespace peri::onnx
