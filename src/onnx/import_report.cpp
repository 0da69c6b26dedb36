// What a survey says of a model: whether it can run, and why not.
#include "base/plural.hpp"
#include "onnx/import.hpp"

namespace peri::onnx {

bool ImportReport::supported() const { return ops.empty() || ops.front().supported; }

Error ImportReport::refusal() const {
  std::string list;
  size_t kinds = 0;
  std::string remedy;
  for (const OpUse& use : ops) {
    if (use.supported) break;
    ++kinds;
    list += list.empty() ? "" : "; ";
    list += (use.domain.empty() ? "" : use.domain + ".") + use.op + " of opset " + std::to_string(use.opset) + " (" +
            std::to_string(use.count) + (use.count == 1 ? " node" : " nodes");
    for (size_t i = 0; i < use.nodes.size(); ++i) list += (i ? ", '" : ": '") + use.nodes[i] + "'";
    list += static_cast<int64_t>(use.nodes.size()) < use.count ? ", ...): " : "): ";
    list += use.reason;
    if (!use.remedy.empty() && remedy.find(use.remedy) == std::string::npos)
      remedy += (remedy.empty() ? "" : "; ") + use.remedy;
  }
  Error e = unsupported("%s of operators %s not supported: ", counted(static_cast<int64_t>(kinds), "kind").c_str(),
                        kinds == 1 ? "is" : "are");
  e.message += list;
  e.file = path;
  e.remedy = remedy;
  return e;
}

}  // namespace peri::onnx
