// Counting of steps and candidates.
#include "build/summary.hpp"

#include <algorithm>
#include <filesystem>

#include "build/proof.hpp"

namespace peri::build {

namespace {
constexpr size_t kMaxShown = 5;  // rejections in lines; the object has all

void take_step(const lower::StepReport& s, BuildSummary* out) {
  out->conversions += s.conversion ? 1 : 0;
  out->refused += static_cast<int64_t>(s.refusals.size());
  for (const auto& [candidate, evidence] : s.others)
    if (!evidence.right()) out->rejected.push_back({s.name, candidate, evidence.rejected});
  if (s.evidence.max_error <= out->worst_error) return;
  out->worst_error = s.evidence.max_error;
  out->worst_step = s.name;
  out->worst_candidate = s.chosen;
}

std::string bytes_text(int64_t bytes) {
  return bytes < 1 << 20 ? format("%.1f KiB", static_cast<double>(bytes) / 1024)
                         : format("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string counted(int64_t n, const char* what) {
  return format("%lld %s%s", static_cast<long long>(n), what, n == 1 ? "" : "s");
}
}  // namespace

BuildSummary summary_of(const Made& made, const std::string& engine_path) {
  const compile::Compiled& c = made.built.compiled;
  BuildSummary out;
  out.predicted_ms = c.predicted_ms;
  out.conversion_ms = c.conversion_ms;
  out.problems = c.tuned.problems;
  out.tried = c.tuned.candidates;
  out.from_cache = c.tuned.from_cache;
  out.untimed = c.tuned.untimed;
  for (const lower::StepReport& s : c.steps) take_step(s, &out);
  for (const Refused& r : made.built.refused) out.rejected.push_back({r.name, r.candidate, r.why});
  out.predicted = !c.steps.empty() && std::all_of(c.steps.begin(), c.steps.end(), [](const lower::StepReport& s) {
    return s.key.empty() || s.evidence.timed();
  });
  out.steps = static_cast<int64_t>(c.program.steps.size());
  out.device_steps = std::count_if(c.program.steps.begin(), c.program.steps.end(),
                                   [](const plan::Step& s) { return s.device != plan::kHost; });
  out.reference_steps = made.reference_steps();
  for (const Tensor& weight : c.weights) out.weight_bytes += static_cast<int64_t>(weight.bytes().size());
  out.engine = engine_path;
  if (engine_path.empty()) return out;
  std::error_code failed;
  const uintmax_t bytes = std::filesystem::file_size(engine_path, failed);
  out.engine_bytes = failed ? 0 : static_cast<int64_t>(bytes);
  out.proof = proof_path(engine_path);
  return out;
}

std::vector<std::string> summary_lines(const BuildSummary& s) {
  std::vector<std::string> out;
  out.push_back(s.predicted ? format("predicted    %.4g ms a run, %.2g of it changes of layout or place",
                                     s.predicted_ms, s.conversion_ms)
                            : "predicted    nothing: not every step was timed");
  std::string tried = "candidates   " + counted(s.tried, "candidate") + " for " + counted(s.problems, "problem");
  if (s.from_cache > 0)
    tried += format(", %lld of them known from the timing cache", static_cast<long long>(s.from_cache));
  if (s.untimed > 0) tried += format(", %lld times not believed", static_cast<long long>(s.untimed));
  out.push_back(tried + format(", %zu rejected", s.rejected.size()));
  for (size_t k = 0; k < std::min(s.rejected.size(), kMaxShown); ++k)
    out.push_back("rejected     " + s.rejected[k].step + ": " + s.rejected[k].candidate + ": " + s.rejected[k].why);
  if (s.rejected.size() > kMaxShown)
    out.push_back(format("             and %zu more: they stand in the proof", s.rejected.size() - kMaxShown));
  if (s.worst_error >= 0)
    out.push_back(format("worst error  %.2g of its bound, in '%s' by %s", s.worst_error, s.worst_step.c_str(),
                         s.worst_candidate.c_str()));
  else
    out.emplace_back("worst error  not known: no choice was verified alone");
  std::string steps = "steps        " + std::to_string(s.steps);
  if (s.device_steps > 0)
    steps += format(", %lld of them launches on the device", static_cast<long long>(s.device_steps));
  if (s.conversions > 0) steps += ", " + counted(s.conversions, "change") + " of layout or place";
  out.push_back(steps + (s.reference_steps ? ", " + std::to_string(s.reference_steps) + " on the slow reference" : ""));
  if (!s.engine.empty()) {
    out.push_back("engine       " + s.engine + ", " + bytes_text(s.engine_bytes) + ", " + bytes_text(s.weight_bytes) +
                  " of weights");
    out.push_back("proof        " + s.proof + "; peri explain " + s.engine + " reads it");
  }
  return out;
}

void write_summary(JsonWriter& w, const BuildSummary& s) {
  w.begin_object();
  if (s.predicted) w.field("predicted_ms", s.predicted_ms).field("conversion_ms", s.conversion_ms);
  w.field("problems", s.problems)
      .field("candidates", s.tried)
      .field("from_cache", s.from_cache)
      .field("times_not_believed", s.untimed)
      .field("kernels_refused", s.refused)
      .key("rejected")
      .begin_array();
  for (const BuildSummary::Rejection& r : s.rejected)
    w.begin_object().field("step", r.step).field("candidate", r.candidate).field("why", r.why).end_object();
  w.end_array();
  if (s.worst_error >= 0)
    w.field("worst_error", s.worst_error).field("worst_step", s.worst_step).field("worst_candidate", s.worst_candidate);
  w.field("steps", s.steps)
      .field("device_steps", s.device_steps)
      .field("reference_steps", s.reference_steps)
      .field("conversions", s.conversions)
      .field("weight_bytes", s.weight_bytes)
      .field("engine", s.engine)
      .field("engine_bytes", s.engine_bytes)
      .field("proof", s.proof)
      .end_object();
}

}  // namespace peri::build
