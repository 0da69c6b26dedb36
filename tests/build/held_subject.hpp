// An engine of one graph, held against another: what a verification judges.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "build/open.hpp"
#include "judge/verify.hpp"

namespace peri::build {

inline ir::Graph parsed(const std::string& text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok() && g->sort().ok() && ops::infer_graph(*g).ok()) << text;
  return std::move(*g);
}

// The engine of `engine`, untuned and of one thread, to be held against `model`; both are texts of graphs.
inline judge::Subject subject(const std::string& engine, const std::string& model, DType dtype = DType::kInvalid) {
  compile::Options options;
  options.dtype = dtype;
  options.model = "planted";
  options.tune.measure = false;
  compile::Imported imported;
  imported.graph = parsed(engine);
  auto compiled = (*compile::Compilation::start(options, std::move(imported)))->lower();
  EXPECT_TRUE(compiled.ok()) << compiled.error().text();
  auto made = assemble(&*compiled, run_options(1));
  EXPECT_TRUE(made.ok()) << made.error().text();
  judge::Subject s;
  s.path = "planted";
  s.engine = *made;
  s.reference = parsed(model);
  return s;
}

}  // namespace peri::build
