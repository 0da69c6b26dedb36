// The worst of the reasons counts: one trial that memory ended leaves open whether its kernel is right.
#include "build/reference_why.hpp"

#include <algorithm>

#include "lower/variants.hpp"
#include "tune/rejection.hpp"

namespace peri::build {

ReferenceWhy reference_why(const std::vector<std::string>& reasons) {
  ReferenceWhy out = ReferenceWhy::kNoKernel;
  for (std::string_view reason : reasons) {
    if (reason.starts_with(tune::kLeftOut)) out = std::max(out, ReferenceWhy::kLeftOut);
    if (reason.starts_with(lower::kRefusedThere)) out = std::max(out, ReferenceWhy::kRejected);
    if (!reason.starts_with(lower::kRejected)) continue;
    reason.remove_prefix(lower::kRejected.size());
    out = std::max(out, reason.starts_with(tune::kLacksMemory) ? ReferenceWhy::kNoMemory : ReferenceWhy::kRejected);
  }
  return out;
}

std::string reference_text(ReferenceWhy why, std::string_view what) {
  const std::string name(what);
  if (why == ReferenceWhy::kNoKernel) return "no kernel takes " + name;
  if (why == ReferenceWhy::kLeftOut) return "no kernel of the provider that --provider names takes " + name;
  if (why == ReferenceWhy::kRejected) return "every kernel that takes " + name + " was rejected";
  return "memory was short to try the kernels that take " + name;
}

}  // namespace peri::build
