// A folder of cases (CASE/model.onnx, CASE/test_data_set_*/{input,output}_*.pb) through the whole product in one
// process.
#pragma once

#include "cli/console/model.hpp"
#include "judge/difference.hpp"

namespace peri::cli {

enum class Verdict { kPassed, kFailed, kUnsupported };

// Memory of a run: as planned; the same, filled with NaN before; every buffer for itself, filled with NaN and guarded.
enum class SuiteMemory { kPlanned, kPoisoned, kSeparate };

struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::kPassed;
  std::string why;  // if it did not pass
  int64_t reference_steps = 0, steps = 0;
};

// Cases in order of name; every case is built by `build` (the model's path filled in), run on each of its data sets and
// compared: tolerances of DIR/index.json where it names the case, else 1e-3 and 1e-5, wider for 16-bit types and below.
// `each` sees every result.
Result<std::vector<CaseResult>> run_suite(const std::string& dir, const std::string& filter, SuiteMemory memory,
                                          const compile::Options& build,
                                          const std::function<void(const CaseResult&)>& each);

// What `peri verify --suite DIR` says. Exit code 3 if a case fails or fewer pass than --min-passed.
Result<Outcome> verify_suite(const Arguments& arguments, const std::string& dir);

}  // namespace peri::cli
