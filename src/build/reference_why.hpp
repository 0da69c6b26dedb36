// Why a step runs on the slow reference, from the reasons of its refusals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peri::build {

enum class ReferenceWhy {
  kNoKernel,  // none takes it
  kLeftOut,   // none of the provider that was asked for does; of those of others nothing is known
  kRejected,  // those that take it were tried, and were wrong or failed
  kNoMemory,  // memory was short to try them, or a part of them
};
ReferenceWhy reference_why(const std::vector<std::string>& reasons);
// "no kernel takes it"; `what` is "it" or "these".
std::string reference_text(ReferenceWhy why, std::string_view what);
// What there is to do, where memory was short.
constexpr std::string_view kMoreMemory =
    "give it more memory (ulimit -v, or the limit of the container) and build again";

}  // namespace peri::build
