// peri replay: re-runs one problem on any machine; every candidate is verified and timed, every refusal is shown.
#include "build/replay.hpp"

#include "base/json.hpp"
#include "build/explain.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "cli/console/terminal.hpp"

namespace peri::cli {
namespace {

void show(const Page& page, const build::Replay& replay) {
  for (const tune::Candidate& c : replay.candidates.list) {
    const tune::Evidence& e = c.evidence;
    const bool good = e.right();
    if (build::is_untried(e)) {
      page.line("untried    %s: %s", c.id().c_str(), (good ? e.untimed : e.rejected).c_str());
      continue;
    }
    const std::string times = good && e.timed() ? format("%10s ms %8.1f GFLOP/s", build::ms_digits(e.time_ms).c_str(),
                                                         replay.flops / e.time_ms / 1e6)
                                                : std::string(10, ' ') + "-";
    const std::string error = e.max_error < 0 ? "" : format("error %.3g of its bound  ", e.max_error);
    page.line("%-10s %s  %s%s%s%s", good ? "right" : "REJECTED", times.c_str(), error.c_str(), c.id().c_str(),
              good && e.untimed.empty() ? "" : ": ", (good ? e.untimed : e.rejected).c_str());
    if (c.offer.needs) page.line("           needs %s", kernels::needs_text(*c.offer.needs).c_str());
  }
  for (const tune::Refusal& r : replay.candidates.refusals)
    page.line("refused    %s: %s", r.kernel.c_str(), r.reason.c_str());
}

Result<Outcome> run(const Arguments& arguments) {
  build::ReplayRequest request{.line = arguments.positional[0],
                               .engine = arguments.get("--from"),
                               .variable = arguments.all("--variable"),
                               .provider = arguments.get("--provider"),
                               .backend = arguments.get("--backend", "auto"),
                               .device = arguments.get("--device"),
                               .stop = interrupted};
  PERI_ASSIGN(request.threads, thread_count(arguments));
  PERI_ASSIGN(const int64_t budget, arguments.number("--budget", 1, 600000, 200));
  request.budget_ms = static_cast<double>(budget);
  PERI_ASSIGN(const build::Replay replay, build::replay(request));
  const Page page(arguments);
  if (!replay.terms.empty() && !replay.candidates.list.empty()) page.line("%s", replay.terms.c_str());
  show(page, replay);
  for (const std::string& note : replay.notes) say("note: " + note);
  JsonWriter w;
  build::write_replay(w, replay);
  const bool nothing = !replay.candidates.list.empty() && replay.untried() == std::ssize(replay.candidates.list);
  return Outcome{.summary = replay.summary(),
                 .json = w.take(),
                 .code = replay.wrong() ? exit_code(ErrorKind::kAccuracy)
                         : nothing      ? 1
                                        : 0};
}
}  // namespace

extern const Entry replay_entry;
const Entry replay_entry{{
    .name = "replay",
    .summary = "re-run one subproblem: verify and time every candidate",
    .positional = "LINE|FILE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = {{"--from", "", "ENGINE", "LINE is the name or the key of a step in ENGINE.proof"},
              {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
              {"--provider", "", "peri|onednn|cublaslt|cudnn|outside|reference",
               "use only candidates of this provider"},
              {"--backend", "", "auto|cpu|cuda", "whose kernels (auto: cpu)"},
              {"--device", "", "KIND:N", "select one of several devices, e.g. cuda:1 (default: the first)"},
              {"--budget", "", "MS", "timing of one candidate (default 200)"},
              {"--kernel", "", "FILE", "manifest of an external kernel to try beside the built-in ones (GPU)", true},
              {"--variable", "", "NAME", "an input that is not a constant weight", true}},
    .details = "LINE is a problem as proofs and failures print it, and may end with seed=N: an anchor with its "
               "epilogue, a region with its graph, IR text alone (weights are what its ops read as such), or 'region "
               "@HASH' of the timing cache. Exit code 3 when a candidate is wrong, 1 when this "
               "machine can try none of them.\n\n"
               "example:\n  peri replay 'matmul a=f32[64,256] b=f32[256,128] +bias +relu seed=7'",
    .run = run,
}};

}  // namespace peri::cli
