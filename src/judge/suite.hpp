// Runs a folder of cases (CASE/model.onnx, CASE/test_data_set_*/{input,output}_*.pb) through the whole program in one
// process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/compile.hpp"
#include "runtime/engine.hpp"

namespace peri::judge {

enum class Verdict { kPassed, kFailed, kUnsupported };

// Memory of a run: as planned; the same, filled with NaN before; separate buffers, filled with NaN and guarded.
enum class SuiteMemory { kPlanned, kPoisoned, kSeparate };

struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::kPassed;
  std::string why;  // if it failed
  int64_t reference_steps = 0, steps = 0;
  int64_t host_steps = 0;              // steps on the host of an engine with another device
  std::vector<std::string> operators;  // of the model, by name
  // What its runs were, as engine and session say it, not as it was asked for.
  std::map<std::string, int64_t> executors, providers;  // steps by executor, and by who provides their kernel
  int threads = 0;                                      // of the engine's pool
  int64_t arena_bytes = 0, poisoned_bytes = 0;          // of all runs; filled with 0xff before them
  // There are steps, and all of them run on a device.
  bool wholly_away() const { return steps > 0 && host_steps == 0; }
};

// Builds an engine of the model for inputs of these shapes.
using SuiteBuilder = std::function<Result<std::shared_ptr<const runtime::Engine>>(
    const std::string& model, const std::vector<compile::InputShape>& inputs)>;

struct SuiteTerms {
  SuiteBuilder build;
  std::string filter;  // only cases whose name contains it
  SuiteMemory memory = SuiteMemory::kPlanned;
  int at_once = 1;                              // cases on as many threads; results stay in order
  std::function<void(const CaseResult&)> each;  // called with every result, on the calling thread
  std::function<bool()> stop;
};

// Cases in order of name; every case is built, run on each of its data sets and compared: with the tolerances of
// DIR/index.json where it names the case, else 1e-3 and 1e-5, wider for 16-bit types and below. Errors: kUsage without
// a case, kCancelled.
Result<std::vector<CaseResult>> run_suite(const std::string& dir, const SuiteTerms& terms);

}  // namespace peri::judge
