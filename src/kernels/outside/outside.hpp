// Kernels that others wrote, as candidates like any other: verified, timed, chosen if they win. A manifest that is
// added stays for the life of the process, under the name it gives; choices of it name the hash of manifest and source.
#pragma once

#include <string>
#include <vector>

#include "kernels/entry.hpp"

namespace peri::kernels::outside {

constexpr size_t kMaxKernels = 64;
constexpr std::string_view kProvider = "outside";

// Reads the manifest and its source and adds the kernel; one that is there already, with the same bytes, stays. Not
// while an engine is built or run. Errors: those of the files; kInvalid for what they hold, for a name that another
// kernel has, and beyond kMaxKernels.
Result<const Kernel*> add(const std::string& manifest_path);
// The files of a list with colons between them; empty parts are none.
Status add_all(std::string_view paths);
// The manifests that were added, in order, for processes that need the same kernels.
std::vector<std::string> added();
// The hash of manifest and source; "" for any other kernel.
std::string hash_of(const Kernel& kernel);
// The manifest's file; "" for any other kernel.
std::string path_of(const Kernel& kernel);
// Whether a configuration is one of a kernel from outside, whatever is known of that here.
bool is_choice(std::string_view config);
// kRefused where the configuration names other files than the kernel was read from; any other kernel's is not looked
// at.
Status check_choice(const Kernel& kernel, std::string_view config);

}  // namespace peri::kernels::outside
