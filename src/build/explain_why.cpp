// Derived from the proof's members; nothing is measured here.
#include "build/explain_why.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/json.hpp"
#include "build/reference_why.hpp"
#include "lower/variants.hpp"
#include "tune/rivals.hpp"

namespace peri::build {

namespace {
constexpr size_t kMaxMembers = 6;  // names in a line of the report

tune::Evidence evidence_of(const Json& object) {
  const Json* e = object.find("evidence");
  auto known = e ? tune::read_evidence(*e) : Result<tune::Evidence>(tune::Evidence());
  return known.ok() ? std::move(known).value() : tune::Evidence();
}

// Whether that decided: nothing tells the times apart, and `next` is the fastest of the others.
bool more_accurate(const tune::Evidence& own, const tune::Evidence& next) {
  return own.max_error >= 0 && next.max_error > tune::kMuchError * own.max_error &&
         tune::same_time(own.time_ms, next.time_ms, next.spread);
}

std::string chosen_text(const Json& step, const Why& why, const std::string& next_id, const tune::Evidence& next) {
  const tune::Evidence own = evidence_of(step);
  if (proof_word(step, "chosen") == "sized") return "the data decides its sizes: they are bound while it runs";
  if (proof_word(step, "chosen") == "reference") {
    std::vector<std::string> reasons;
    for (const Json& o : proof_items(step, "refusals")) reasons.push_back(proof_word(o, "reason"));
    const ReferenceWhy reference = reference_why(reasons);
    return reference_text(reference, "it") + ": it runs on the slow reference" +
           (reference == ReferenceWhy::kNoMemory ? "; " + std::string(kMoreMemory) : "");
  }
  if (proof_word(step, "key").empty()) return "a copy between devices or layouts";
  const size_t right = why.slower.size() + 1;
  std::string out;
  if (right == 1)
    out = "the only candidate";
  else if (!own.timed())
    out = format("first of %zu candidates; not measured", right);
  else if (next.time_ms > own.time_ms)
    out = format("fastest of %zu: %.0f %% ahead of %s", right, 100 * (next.time_ms / own.time_ms - 1), next_id.c_str());
  else if (next.timed() && more_accurate(own, next))
    out = format("most accurate of %zu in the same time: its error is %.2g of its bound, that of %s %.2g", right,
                 own.max_error, next_id.c_str(), next.max_error);
  else if (next.timed())
    out = format("of %zu candidates, with the whole engine around it: alone %s is faster", right, next_id.c_str());
  else
    out = format("of %zu candidates the only one that was timed", right);
  if (!why.rejected.empty()) out += format("; %zu rejected", why.rejected.size());
  return out;
}
}  // namespace

Why why_of(const Json& step) {
  Why why;
  std::string next_id;
  tune::Evidence next;
  for (const Json& o : proof_items(step, "others")) {
    const tune::Evidence e = evidence_of(o);
    const std::string layouts = proof_word(o, "layouts");
    const std::string id = proof_word(o, "id") + (layouts.empty() ? "" : " (" + layouts + ")");
    why.slower.push_back(id + ": " + (e.timed() ? format("%.4f ms", e.time_ms) : "not measured"));
    if (e.timed() && (!next.timed() || e.time_ms < next.time_ms)) {
      next_id = id;
      next = e;
    }
  }
  for (const Json& o : proof_items(step, "refusals")) {
    const std::string reason = proof_word(o, "reason");
    const std::string kernel = proof_word(o, "kernel");
    (reason.starts_with(lower::kRejected) ? why.rejected : why.refused)
        .push_back((kernel == "*" ? "no kernel" : kernel) + ": " + reason);
  }
  why.chosen = chosen_text(step, why, next_id, next);
  return why;
}

namespace {
// "conv" of "conv x=f32[...] ..."; of a graph its first operator: "y: f32[n] = conv(x)", not a constant's "= [1]".
std::string operator_of(const Json& step) {
  const std::string problem = proof_word(step, "problem");
  if (problem.empty()) return "copy";
  std::string_view text = problem;
  const auto word = [](std::string_view from) {
    size_t end = 0;
    while (end < from.size() && (std::isalnum(static_cast<unsigned char>(from[end])) || from[end] == '_')) ++end;
    return from.substr(0, end);
  };
  if (text.find('{') == std::string_view::npos) return std::string(word(text));
  for (size_t at = text.find(" = "); at != std::string_view::npos; at = text.find(" = ", at + 1)) {
    const std::string_view name = word(text.substr(at + 3));
    if (!name.empty() && text.substr(at + 3 + name.size()).starts_with('(')) return std::string(name);
  }
  return std::string(word(text));
}

std::string kernel_of(const Json& step) {
  const std::string chosen = proof_word(step, "chosen");
  return chosen.substr(0, chosen.find('@'));
}
}  // namespace

std::vector<Total> totals_of(const Explanation& e, Grouping by) {
  std::map<std::string, Total> sums;
  for (const ExplainedStep& r : e.steps) {
    const std::string name = by == Grouping::kProblem    ? proof_word(*r.step, "problem")
                             : by == Grouping::kOperator ? operator_of(*r.step)
                                                         : kernel_of(*r.step);
    if (name.empty()) continue;
    Total& t = sums[name];
    t.name = name;
    if (static_cast<size_t>(t.steps) < kMaxMembers)
      t.members += (t.steps ? ", " : "") + proof_word(*r.step, "name");
    else if (static_cast<size_t>(t.steps) == kMaxMembers)
      t.members += ", ...";
    t.steps += 1;
    t.ms += std::max(r.ms, 0.0);
    t.floors += r.floor.has_value();
    t.floor += r.floor.value_or(0);
  }
  std::vector<Total> out;
  for (auto& [name, t] : sums)
    if (by != Grouping::kProblem || t.steps > 1) out.push_back(std::move(t));
  std::stable_sort(out.begin(), out.end(), [](const Total& a, const Total& b) { return a.ms > b.ms; });
  return out;
}

}  // namespace peri::build
