// peri serve-worker: runs models for the server that started it. Hidden, since it is not for direct use.
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/servable.hpp"
#include "cli/console/model.hpp"
#include "device/lost.hpp"
#include "serve/worker/host.hpp"

namespace peri::cli {
namespace {

Result<Outcome> run(const Arguments& arguments) {
  struct stat st = {};
  if (::fstat(serve::kWorkerSocket, &st) != 0 || !S_ISSOCK(st.st_mode))
    return usage("a server starts this command, and nobody else");
  mallopt(M_MMAP_MAX, 65536);  // memory of large answers is returned to the system
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  build::ServeOptions options;
  PERI_ASSIGN(options.threads, thread_count(arguments));
  PERI_ASSIGN(options.build, build_request(arguments, "", nullptr));
  PERI_ASSIGN(options.check_seconds, arguments.real("--batch-check-secs", 0, 3600, options.check_seconds));
  PERI_TRY(serve::serve_as_worker(
      Fd(serve::kWorkerSocket), Fd(serve::kWorkerMemory),
      [options](const serve::LoadOrder& order, const auto& say_progress) {
        return build::load_servable(options, order, say_progress);
      },
      [](int code) { _exit(code); }, device::lost_device));
  return Outcome();
}
}  // namespace

extern const Entry serve_worker_entry;
const Entry serve_worker_entry{{
    .name = "serve-worker",
    .summary = "runs models for the server that started it",
    .positional = "",
    .min_positional = 0,
    .max_positional = 0,
    .flags = build_flags({{"--batch-check-secs", "", "S", "as of peri serve"}}),
    .run = run,
    .hidden = true,
}};

}  // namespace peri::cli
