// Refusals by name: images, and domains that are not ours.
#include "onnx/refusals.hpp"

#include <algorithm>
#include <iterator>

#include "onnx/first_forms.hpp"

namespace peri::onnx {

namespace {
constexpr std::string_view kMaps[] = {"DictVectorizer", "CastMap"};

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

Refusal refusal_of(std::string_view domain, std::string_view op) {
  if (domain == "ai.onnx.ml" && among(kMaps, op))
    return {"maps from keys to values are not tensors", "export the model with columns of features instead of maps"};
  if (domain == "ai.onnx.ml")
    return {"classical machine learning operators are not supported", "compute this part outside the model"};
  if (domain == "com.microsoft")
    return {"it is an operator of ONNX Runtime that is not supported",
            "export the model with operators of ONNX in its place, or without ONNX Runtime's graph optimisations"};
  if (domain == "ai.onnx.preview.training" || domain == "ai.onnx.training")
    return {"training operators are not supported", "export the model for inference"};
  if (!domain.empty())
    return {"its domain is not known",
            "export the model with operators of ONNX, or with the function's body in the model"};
  if (op == "ImageDecoder")
    return {"images are not decoded inside a model", "decode the image outside and make its pixels an input"};
  return {"there is no definition of it", "replace it by other operators at export"};
}
}  // namespace

const ops::OpDef* find_definition(std::string_view domain, std::string_view op, int64_t opset, Refusal* why) {
  const bool scan = domain.empty() && op == "Scan";  // is a loop, or one within another
  const ops::OpDef* def = scan ? ops::find("loop") : ops::find_onnx(domain, op);
  if (!def) {
    *why = refusal_of(domain, op);
    return nullptr;
  }
  if (def->versions.empty() || def->versions.front() <= opset || (domain.empty() && has_first_form(op))) return def;
  *why = {format("its form of opset %lld is not supported, only those from opset %d on", static_cast<long long>(opset),
                 def->versions.front()),
          format("convert the model with onnx.version_converter to opset %d",
                 std::max(def->versions.front(), static_cast<int>(kOldestOpset)))};
  return nullptr;
}

}  // namespace peri::onnx
