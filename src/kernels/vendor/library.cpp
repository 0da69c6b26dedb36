// oneDNN is loaded by the first kernel that needs it, not with the program: its 40,000 relocations and 400 initialisers
// take 5 ms and 11 MiB (benchmarks/results/2026-11-23_small_engine_memory.md). The symbols that its headers refer to
// are defined here, each as a jump to the library's function, independent of its arguments in the header's version.
#include <oneapi/dnnl/dnnl.h>

#include "device/shared_library.hpp"
#include "kernels/vendor/library.hpp"

// Where each function is; set before the first call by open_onednn().
#define PERI_ONEDNN(name)                                                                                      \
  extern "C" {                                                                                                 \
  [[gnu::visibility("hidden")]] void* peri_at_##name = nullptr;                                                \
  }                                                                                                            \
  __asm__(".pushsection .text." #name                                                                          \
          ",\"ax\",@progbits\n"                                                                                \
          ".globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" #name ":\n  jmp *peri_at_" #name \
          "(%rip)\n.popsection");
#include "kernels/vendor/onednn.def"
#undef PERI_ONEDNN

namespace peri::kernels::vendor {

namespace {
constexpr const char* kFile = PERI_ONEDNN_FILE;  // libdnnl.so.3
constexpr const char* kRemedy = "put the library that came with peri beside it again, or build peri again";

struct Row {
  const char* name;
  void** at;
};
constexpr Row kRows[] = {
#define PERI_ONEDNN(name) {#name, &peri_at_##name},
#include "kernels/vendor/onednn.def"
#undef PERI_ONEDNN
};

std::string name_of(int major, int minor, int patch) { return format("onednn %d.%d.%d", major, minor, patch); }

Status opened() {
  // Its own needs are found by where it lies, which may be another place than where ours lie.
  (void)device::SharedLibrary::open("libgomp.so.1").ok();
  auto library = device::SharedLibrary::open(kFile);
  if (!library.ok() && library.error().kind == ErrorKind::kMemory) return std::move(library).error();
  if (!library.ok()) return std::move(library).error().advise(kRemedy);
  for (const Row& row : kRows) {
    auto at = library->find(row.name);
    if (!at.ok()) return std::move(at).error().advise(kRemedy);
    *row.at = *at;
  }
  const dnnl_version_t* const v = dnnl_version();
  if (const std::string there = name_of(v->major, v->minor, v->patch); there != onednn_library())
    return unsupported("another version than peri was built with")
        .in_file(kFile)
        .expecting(onednn_library())
        .but_found(there)
        .advise(kRemedy);
  return Ok{};
}
}  // namespace

std::string onednn_library() { return name_of(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH); }

Status open_onednn() {
  static const Status kOpened = opened();
  return kOpened;
}

}  // namespace peri::kernels::vendor
