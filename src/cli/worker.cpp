// peri worker: judges candidates for the build that started it. Hidden, since it is not for direct use.
#include "tune/worker.hpp"
#include "cli/entry.hpp"

namespace peri::cli {
namespace {

Result<Outcome> run(const Arguments&) {
  PERI_TRY(tune::serve(tune::kWorkerSocket));
  return Outcome();
}
}  // namespace

extern const Entry worker_entry;
const Entry worker_entry{{
    .name = "worker",
    .summary = "verifies and times candidates for the build that started it",
    .positional = "",
    .min_positional = 0,
    .max_positional = 0,
    .run = run,
    .hidden = true,
}};

}  // namespace peri::cli
