// Outside kernels as candidates like any other: verified, timed, chosen if they are fastest. A manifest that is added
// stays for the lifetime of the process, under the name in it; choices of it contain the hash of manifest and source.
#pragma once

#include <string>
#include <vector>

#include "kernels/entry.hpp"

namespace peri::kernels::outside {

constexpr size_t kMaxKernels = 64;
constexpr std::string_view kProvider = "outside";

// Reads the manifest and its source and adds the kernel; if it was added before with the same bytes, returns it. Not
// while an engine is built or run. Errors: those of the files; kInvalid for their contents, for a name that another
// kernel has, and beyond kMaxKernels.
Result<const Kernel*> add(const std::string& manifest_path);
// Adds the files of a colon-separated list; empty elements are ignored.
Status add_all(std::string_view paths);
// The manifests that were added, in order, for worker processes that need the same kernels.
std::vector<std::string> added();
// The hash of manifest and source; "" for any other kernel.
std::string hash_of(const Kernel& kernel);
// The manifest's file; "" for any other kernel.
std::string path_of(const Kernel& kernel);
// Whether a configuration belongs to an outside kernel, even one that is not added here.
bool is_choice(std::string_view config);
// kRefused where the configuration has the hash of other files than the kernel was read from; configurations of other
// kernels are not checked.
Status check_choice(const Kernel& kernel, std::string_view config);

}  // namespace peri::kernels::outside
