// Counts by verdict; only what did not pass is listed.
#include "cli/core/suite_report.hpp"

#include "cli/core/page.hpp"
#include "cli/core/source.hpp"
#include "cli/core/suite.hpp"

namespace peri::cli {

Result<Outcome> verify_suite(const Arguments& arguments, const std::string& dir) {
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(compile::Options options, build_options(arguments, "", nullptr));
  options.tune.worker.clear();   // all of it in one process
  options.tune.measure = false;  // verification stays: a candidate that is wrong here gives way, as in a real build
  const Page page(arguments);
  int64_t count[3] = {}, seen = 0, reference = 0;
  auto each = [&](const CaseResult& r) {
    static constexpr const char* kNames[] = {"passed", "FAILED", "unsupported"};
    ++count[static_cast<int>(r.verdict)];
    reference += r.steps > 0 && r.reference_steps == r.steps;
    progress.show(0, 0, std::to_string(++seen) + " cases, " + r.name);
    if (r.verdict == Verdict::kPassed) return;
    progress.clear();
    page.line("%-11s %s: %s", kNames[static_cast<int>(r.verdict)], r.name.c_str(), r.why.c_str());
  };
  PERI_ASSIGN(const std::vector<CaseResult> cases, run_suite(dir, arguments.get("--filter"), options, each));
  progress.clear();
  page.line("%zu cases: %lld passed, %lld failed, %lld unsupported; %lld of them wholly on the reference executor",
            cases.size(), static_cast<long long>(count[0]), static_cast<long long>(count[1]),
            static_cast<long long>(count[2]), static_cast<long long>(reference));
  Outcome out;
  JsonWriter w;
  w.begin_object()
      .field("suite", dir)
      .field("cases", static_cast<int64_t>(cases.size()))
      .field("passed", count[0])
      .field("failed", count[1])
      .field("unsupported", count[2])
      .field("wholly_reference", reference);
  w.key("not_passed").begin_array();
  for (const CaseResult& r : cases)
    if (r.verdict != Verdict::kPassed)
      w.begin_object()
          .field("case", r.name)
          .field("verdict", r.verdict == Verdict::kFailed ? "failed" : "unsupported")
          .field("why", r.why)
          .end_object();
  w.end_array().end_object();
  out.json = w.take();
  PERI_ASSIGN(const double least, arguments.real("--min-passed", 0, 1e9, 0));
  out.code = count[1] || static_cast<double>(count[0]) < least ? 3 : 0;
  out.summary = std::to_string(cases.size()) + " cases: " + std::to_string(count[0]) + " passed, " +
                std::to_string(count[1]) + " failed, " + std::to_string(count[2]) + " unsupported";
  return out;
}

}  // namespace peri::cli
