// Why an operator of a model is not supported, and what its owner can do about it.
#pragma once

#include <string>
#include <string_view>

#include "ops/entry.hpp"

namespace peri::onnx {

// Opsets of the ONNX domain the importer takes. The newest is that of the pinned onnx package.
constexpr int64_t kOldestOpset = 1;
constexpr int64_t kNewestOpset = 28;

struct Refusal {
  std::string reason, remedy;
};

// Definition that takes `op` of `domain` at the model's `opset`; null: refused, with the reason in *why.
const ops::OpDef* find_definition(std::string_view domain, std::string_view op, int64_t opset, Refusal* why);

}  // namespace peri::onnx
