// A generated case: reading its folder, its float64 outputs, and the classification of an engine's outputs: correct,
// wrong, skipped where a change of 1e-6 of the inputs moves the output by more than its bound, or a tie where correct
// float32 arithmetic may take either side of a comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/rng.hpp"
#include "compile/compile.hpp"
#include "judge/whole.hpp"
#include "tune/expected.hpp"

namespace peri::generated {

struct Size {
  std::string name;
  std::vector<Tensor> inputs;
  std::vector<ops::RefTensor> want;                 // with the radii of float32
  std::string trouble;                              // why there is no `want`
  std::vector<std::vector<ops::RefTensor>> moved;   // the outputs for inputs changed by 1e-6; computed on demand
  std::vector<std::vector<ops::RefTensor>> shaken;  // outputs that float32 arithmetic may give; likewise
};

struct Case {
  std::string name, folder;
  ir::Graph graph;  // as imported, before any pass
  std::map<std::string, int64_t> dims;
  std::vector<Size> sizes;
};

struct Finding {
  std::string verdict = "right", why;
  double worst = 0;  // largest |error| / bound
  double blind = 0;  // largest mean bound of an output over its range: if near 1, nothing was checked
};

inline Result<Case> read_case(const std::string& folder, int threads) {
  Case c;
  c.folder = folder;
  PERI_ASSIGN(const std::string text, read_file(folder + "/case.json", size_t{1} << 20));
  PERI_ASSIGN(const Json json, parse_json(text));
  PERI_ASSIGN(const std::string_view name, json.get_string("name"));
  c.name = name;
  PERI_ASSIGN(auto imported, compile::import_any(folder + "/model.onnx"));
  c.graph = std::move(imported.graph);
  PERI_ASSIGN(const Json::Object* dims, json.get_object("dims"));
  for (const Json::Member& m : *dims) {
    PERI_ASSIGN(c.dims[m.key], m.value.as_int());
  }
  PERI_ASSIGN(const Json::Array* sizes, json.get_array("sizes"));
  for (const Json& item : *sizes) {
    Size s;
    PERI_ASSIGN(const std::string_view word, item.as_string());
    s.name = word;
    std::vector<ops::RefTensor> in;
    for (size_t k = 0; k < c.graph.inputs.size(); ++k) {
      PERI_ASSIGN(Tensor t,
                  read_npy(folder + "/" + s.name + "/" + std::to_string(k) + ".npy", c.graph.inputs[k]->type.dtype));
      in.push_back(ops::to_ref(t));
      s.inputs.push_back(std::move(t));
    }
    auto want = ops::run_reference(c.graph, in, {unit_roundoff(DType::kF32), threads, false, {}});
    if (want.ok())
      s.want = std::move(want).value();
    else
      s.trouble = want.error().text();
    c.sizes.push_back(std::move(s));
  }
  return c;
}

inline double bound_of(const ops::RefTensor& want, size_t at) {
  return want.r(static_cast<int64_t>(at)) + unit_roundoff(want.dtype) * std::fabs(want.f[at]) +
         (want.dtype == DType::kF16 ? 0x1p-24 : 0x1p-126);
}

// The outputs for inputs changed by 1e-6 of themselves, and of a graph whose every value is rounded to its type.
inline const std::vector<std::vector<ops::RefTensor>>& moved_answers(const Case& c, Size& size, int threads) {
  for (uint64_t seed = 1; size.moved.size() < 5 && seed <= 5; ++seed) {
    std::vector<ops::RefTensor> in;
    Rng rng(seed);
    for (const Tensor& t : size.inputs) {
      in.push_back(ops::to_ref(t));
      if (seed < 5)
        for (double& v : in.back().f) v *= 1 + 1e-6 * rng.normal();
    }
    auto out = ops::run_reference(c.graph, in, {0, threads, seed == 5, {}});
    if (out.ok()) size.moved.push_back(std::move(out).value());
  }
  return size.moved;
}

// Outputs of arithmetic in which every operation has a float32 error: they differ at comparisons that float32 cannot
// decide.
inline const std::vector<std::vector<ops::RefTensor>>& shaken_answers(const Case& c, Size& size, int threads) {
  constexpr uint64_t kShakes = 32;
  if (!size.shaken.empty()) return size.shaken;
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : size.inputs) in.push_back(ops::to_ref(t));
  for (uint64_t seed = 1; seed <= kShakes; ++seed) {
    ops::RefOptions options{.u = unit_roundoff(DType::kF32), .threads = threads};
    options.shake = seed;
    auto out = ops::run_reference(c.graph, in, options);
    if (out.ok()) size.shaken.push_back(std::move(out).value());
  }
  return size.shaken;
}

inline bool equal_at(const ops::RefTensor& want, const Tensor& got, size_t at) {
  if (want.dtype == DType::kString) return want.s[at] == got.string_values()[at];
  return want.i[at] == got.i64(static_cast<int64_t>(at));
}

// Whether element `at` of output k changes by more than its bound when the inputs change by 1e-6.
inline bool undecided(const std::vector<std::vector<ops::RefTensor>>& moved, const ops::RefTensor& want, size_t k,
                      size_t at) {
  for (const auto& out : moved) {
    if (out[k].dims != want.dims) return true;
    if (at >= static_cast<size_t>(want.numel())) continue;
    if (want.floating() ? !(std::fabs(out[k].f[at] - want.f[at]) <= bound_of(want, at))
                        : want.dtype != DType::kString && out[k].i[at] != want.i[at])
      return true;
  }
  return false;
}

// Number of elements with a wide bound whose error is more than 1e-3 of the range, 100 times the effect of 1e-6 of the
// inputs and 4 times the observed effect of float32 arithmetic.
inline size_t far_from(const std::vector<std::vector<ops::RefTensor>>& moved,
                       const std::vector<std::vector<ops::RefTensor>>& shaken, const ops::RefTensor& want,
                       const Tensor& got, size_t k, double range) {
  size_t far = 0;
  for (size_t at = 0; at < want.f.size(); ++at) {
    double change = 1e-3 * range;
    for (const auto& out : moved)
      change = out[k].dims != want.dims ? INFINITY : std::max(change, 100 * std::fabs(out[k].f[at] - want.f[at]));
    for (const auto& out : shaken)
      change = out[k].dims != want.dims ? INFINITY : std::max(change, 4 * std::fabs(out[k].f[at] - want.f[at]));
    far += std::fabs(want.f[at] - got.f64(static_cast<int64_t>(at))) > change;
  }
  return far;
}

inline void judge_output(const Case& c, Size& size, size_t k, const Tensor& got, int threads, Finding* f) {
  const ops::RefTensor& want = size.want[k];
  const std::string& name = c.graph.output_names[k];
  const size_t n = static_cast<size_t>(want.numel());
  size_t wrong = 0, excused = 0, tied = 0, first = 0;
  double bounds = 0, low = INFINITY, high = -INFINITY, worst = 0;
  if (got.dtype() != want.dtype || got.dims() != want.dims) {
    const bool open = undecided(moved_answers(c, size, threads), want, k, n);
    const bool tie = !open && undecided(shaken_answers(c, size, threads), want, k, n);
    f->verdict = f->verdict == "wrong" ? "wrong" : open ? "left_out" : tie ? "tie" : "wrong";
    f->why += format("output %zu '%s' is %s, not %s; ", k, name.c_str(), tensor_type_text(got).c_str(),
                     tensor_type_text(ops::from_ref(ops::make_ref(want.dtype, want.dims))).c_str());
    return;
  }
  for (size_t at = 0; at < n; ++at) {
    double ratio = 0;
    if (want.floating()) {
      const double w = want.f[at], g = got.f64(static_cast<int64_t>(at)), bound = bound_of(want, at);
      low = std::isfinite(w) ? std::min(low, w) : low;
      high = std::isfinite(w) ? std::max(high, w) : high;
      bounds += bound;
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      if (std::isinf(g) && std::signbit(g) == std::signbit(w) && tune::may_overflow(want, at)) continue;
      ratio = std::fabs(w - g) <= bound ? std::fabs(w - g) / bound : std::max(1.0 + 1e-9, std::fabs(w - g) / bound);
      if (std::isnan(ratio)) ratio = INFINITY;
    } else if (!equal_at(want, got, at)) {
      ratio = INFINITY;
    }
    if (ratio > 1) {
      if (undecided(moved_answers(c, size, threads), want, k, at)) {
        ++excused;
        continue;
      }
      if (undecided(shaken_answers(c, size, threads), want, k, at)) {
        ++tied;
        continue;
      }
      if (wrong++ == 0) first = at;
    }
    worst = std::max(worst, ratio);
  }
  f->worst = std::max(f->worst, worst);
  size_t far = 0;
  if (want.floating() && n > 0) {
    const double range = std::max({high - low, std::fabs(high) * 0.1, 1e-6});
    const double blind = bounds / static_cast<double>(n) / range;
    if (f->blind = std::max(f->blind, blind); !(blind < 1e-2))
      far = far_from(moved_answers(c, size, threads), shaken_answers(c, size, threads), want, got, k, range);
  }
  if (wrong) {
    f->verdict = "wrong";
    const std::string pair = want.floating()
                                 ? format("%.9g for %.9g +- %.3g", got.f64(static_cast<int64_t>(first)), want.f[first],
                                          bound_of(want, first))
                                 : format("%lld for %lld", static_cast<long long>(got.i64(static_cast<int64_t>(first))),
                                          static_cast<long long>(want.i[first]));
    f->why += format("output %zu '%s': %zu of %zu elements, the first %zu: %s; ", k, name.c_str(), wrong, n, first,
                     pair.c_str());
  } else if (far && f->verdict != "wrong") {
    f->verdict = "doubtful";
    f->why += format("output %zu '%s': %zu of %zu elements within their bounds, which are wide, but far off; ", k,
                     name.c_str(), far, n);
  } else if ((tied || excused) && (f->verdict == "right" || f->verdict == "left_out")) {
    f->verdict = tied ? "tie" : "left_out";
    f->why = format(
        "output %zu '%s': %zu of %zu elements hang on less than 1e-6 of the inputs, %zu on a comparison that float32 "
        "does not decide; ",
        k, name.c_str(), excused, n, tied);
  }
}

// The outputs where casts to float16 and back leave float32 unchanged: ONNX Runtime removes such pairs.
inline std::vector<std::vector<ops::RefTensor>> answers_without_half(const Case& c, const Size& size, int threads) {
  ir::Graph g = c.graph.clone();
  bool changed = false;
  for (ir::Node* n : g.nodes)
    if (n->op == "cast" && n->i("to") == static_cast<int64_t>(DType::kF16)) {
      n->attrs["to"] = static_cast<int64_t>(DType::kF32);
      changed = true;
    }
  if (!changed || !ops::infer_graph(g).ok()) return {};
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : size.inputs) in.push_back(ops::to_ref(t));
  auto out = ops::run_reference(g, in, {0, threads, false, {}});
  if (!out.ok()) return {};
  return {std::move(out).value()};
}

// The outputs where the scales of a product of bytes change by 1e-6: the definition rounds the exact product, ONNX
// Runtime what float32 makes of the product of three scales.
inline std::vector<std::vector<ops::RefTensor>> answers_of_near_scales(const Case& c, const Size& size, int threads) {
  std::vector<std::vector<ops::RefTensor>> answers;
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : size.inputs) in.push_back(ops::to_ref(t));
  for (const double factor : {1 - 1e-6, 1 + 1e-6}) {
    ir::Graph g = c.graph.clone();
    bool changed = false;
    for (ir::Node* n : g.nodes) {
      constexpr size_t kScaleOfResult = 6;  // x, its scale and zero point, w, its scale and zero point
      if (n->op != "qlinear_conv" && n->op != "qlinear_matmul") continue;
      ir::Value* const scale = n->in(kScaleOfResult);
      if (!scale || !scale->constant || scale->type.dtype != DType::kF32) continue;
      std::vector<float> values;
      for (int64_t k = 0; k < scale->constant->numel(); ++k)
        values.push_back(static_cast<float>(scale->constant->f64(k) * factor));
      scale->constant = Tensor::of_f32(scale->constant->dims(), values);
      changed = true;
    }
    if (!changed) break;
    if (auto out = ops::run_reference(g, in, {0, threads, false, {}}); out.ok())
      answers.push_back(std::move(out).value());
  }
  return answers;
}

// FOLDER/SIZE/open_K.npy: elements for which ONNX Runtime may differ: they depend on 1e-6 of the inputs or of a
// product's scale, on a comparison that float32 does not decide, on a rounding to float16 that it omits, or on an
// overflow.
inline Status dump_open(const Case& c, Size& size, int threads) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : size.inputs) in.push_back(ops::to_ref(t));
  PERI_ASSIGN(const judge::Magnitudes way, judge::magnitudes_of(c.graph, in, threads));
  for (size_t k = 0; k < size.want.size(); ++k) {
    const ops::RefTensor& want = size.want[k];
    const size_t n = static_cast<size_t>(want.numel());
    const auto& moved = moved_answers(c, size, threads);
    const auto& shaken = shaken_answers(c, size, threads);
    const auto wide = answers_without_half(c, size, threads), scaled = answers_of_near_scales(c, size, threads);
    const auto open = [&](size_t at) {
      return undecided(moved, want, k, at) || undecided(shaken, want, k, at) || undecided(wide, want, k, at) ||
             undecided(scaled, want, k, at);
    };
    const bool all = way.near_overflow || open(n);
    PERI_ASSIGN(Tensor mask, Tensor::zeros(DType::kBool, want.dims));
    for (size_t at = 0; at < n; ++at) mask.set_i64(static_cast<int64_t>(at), all || open(at));
    PERI_TRY(write_npy(c.folder + "/" + size.name + "/open_" + std::to_string(k) + ".npy", mask));
  }
  return Ok{};
}

inline Status write_flat(const std::string& path, const std::vector<int64_t>& dims, const std::vector<double>& f) {
  return write_npy(path, Tensor::of<double>(DType::kF64, dims, f));
}

// FOLDER/SIZE/{want,bound,got_MODE}_K.npy, the reference's floats as float64.
inline Status dump(const Case& c, const Size& size, const std::string& mode = "", std::span<const Tensor> got = {}) {
  const std::string stem = c.folder + "/" + size.name + "/";
  for (size_t k = 0; k < size.want.size(); ++k) {
    const ops::RefTensor& w = size.want[k];
    const std::string end = "_" + std::to_string(k) + ".npy";
    if (w.floating()) {
      std::vector<double> bounds(w.f.size());
      for (size_t at = 0; at < bounds.size(); ++at) bounds[at] = bound_of(w, at);
      PERI_TRY(write_flat(stem + "want" + end, w.dims, w.f));
      PERI_TRY(write_flat(stem + "bound" + end, w.dims, bounds));
    } else {
      PERI_TRY(write_npy(stem + "want" + end, ops::from_ref(w)));
    }
    if (k < got.size()) PERI_TRY(write_npy(stem + "got_" + mode + end, got[k]));
  }
  return Ok{};
}

}  // namespace peri::generated
