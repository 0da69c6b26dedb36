// The reason of a failure is the loader's message.
#include "device/shared_library.hpp"

#include <dlfcn.h>

#include <string>
#include <string_view>

namespace peri::device {

Result<SharedLibrary> SharedLibrary::open(const char* name) {
  void* const handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (handle) return SharedLibrary(name, handle);
  const char* const why = dlerror();
  // Where its file may not be mapped for another reason, that is said behind it.
  const std::string_view said = why ? why : "";
  if (said.ends_with("failed to map segment from shared object") || said.find("annot allocate") != said.npos)
    return Error(ErrorKind::kMemory, "memory is too short to load it: " + std::string(said))
        .in_file(name)
        .advise("give the process more memory");
  return unsupported("the loader refuses it: %s", why ? why : "it does not say why").in_file(name);
}

Result<void*> SharedLibrary::find(const char* symbol) const {
  void* const at = dlsym(handle_, symbol);
  if (!at) return unsupported("it has no %s", symbol).in_file(name_);
  return at;
}

}  // namespace peri::device
