// A step's entry in the proof is enough to try it again: for its problem, parsed from the text, the same candidates are
// offered as in the build, and the same kernels refuse it for the same reasons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "compile/backends.hpp"
#include "compile/compile.hpp"
#include "problem/problem.hpp"

namespace peri {

// "kernel@1 {config}" of each candidate that the build had for the step, and "kernel: why" of each that refused.
inline std::multiset<std::string> offered_in_build(const lower::StepReport& s) {
  std::multiset<std::string> out;
  if (s.chosen != "reference") out.insert(s.chosen);
  for (const auto& [id, evidence] : s.others) out.insert(id);
  for (const auto& [kernel, reason] : s.refusals)
    out.insert(kernel.find('@') == std::string::npos ? kernel + ": " + reason : kernel);
  return out;
}

inline void expect_replays(const std::string& model, bool measure) {
  SCOPED_TRACE(model);
  compile::Options o;
  o.model = model;
  o.tune.threads = 2;
  o.tune.measure = o.tune.verify = measure;
  o.tune.budget_ms = 1;
  o.builder = "peri test";
  const Result<compile::Compiled> made = compile::compile(o);
  ASSERT_TRUE(made.ok()) << made.error().text();
  int64_t lines = 0, weighty = 0;
  std::set<std::string> seen;
  for (const lower::StepReport& s : made->steps) {
    if (s.chosen == "reference" && s.problem.empty()) continue;  // its sizes depend on data: nothing was offered
    const auto p = problem::parse(s.problem);
    ASSERT_TRUE(p.ok()) << s.name << "\n" << s.problem << "\n" << p.error().text();
    EXPECT_EQ(problem::text(*p), s.problem);
    lines += !s.problem.starts_with("region ");
    weighty += std::count(p->weights.begin(), p->weights.end(), true) > 0;
    if (std::any_of(p->graph.values().begin(), p->graph.values().end(),
                    [](const auto& v) { return v->type.shape && !is_const(*v->type.shape); }))
      continue;  // its sizes depend on data: nothing was offered
    tune::Options options{.measure = false, .verify = false, .threads = 2};
    options.executors = (*compile::backend_named(o.backend))->executors;
    tune::Tuner tuner(options);
    const tune::Candidates& all = tuner.offers(p->graph, p->weights);
    std::multiset<std::string> again;
    for (const tune::Candidate& c : all.list) again.insert(c.id());
    for (const tune::Refusal& r : all.refusals) again.insert(r.kernel + ": " + r.reason);
    EXPECT_EQ(again, offered_in_build(s)) << s.name << "\n" << s.problem;
    seen.insert(s.problem);
  }
  EXPECT_GT(seen.size(), 3u);
  EXPECT_GT(lines, 3);
  EXPECT_GT(weighty, 3);
}

}  // namespace peri
