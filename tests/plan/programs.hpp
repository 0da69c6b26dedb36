// Small hand-written programs, for tests of plan and runtime.
#pragma once

#include <string>
#include <vector>

#include "plan/program.hpp"

namespace peri::tests {

struct ProgramMaker {
  plan::Program p;

  int32_t buffer(const std::string& name, plan::BufferKind kind, DType dtype, const std::string& shape) {
    plan::Buffer b;
    b.name = name;
    b.kind = kind;
    b.dtype = dtype;
    b.shape = parse_shape(shape).value();
    b.bytes = ceildiv(product(b.shape) * Dim(dtype_bits(dtype)), 8);
    p.buffers.push_back(b);
    return static_cast<int32_t>(p.buffers.size()) - 1;
  }
  int32_t scratch(const std::string& name, DType dtype, const std::string& shape) {
    return buffer(name, plan::BufferKind::kScratch, dtype, shape);
  }
  int32_t input(const std::string& name, DType dtype, const std::string& shape) {
    const int32_t b = buffer(name, plan::BufferKind::kInput, dtype, shape);
    p.inputs.push_back({name, b, dtype, p.buffers.back().shape});
    return b;
  }
  void output(const std::string& name, int32_t b) {
    const plan::Buffer& x = p.buffers[static_cast<size_t>(b)];
    p.outputs.push_back({name, b, x.dtype, x.shape});
  }
  int32_t weight(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    const int32_t b = buffer(name, plan::BufferKind::kWeight, dtype, shape_text(Shape(dims.begin(), dims.end())));
    plan::Weight w;
    w.name = name;
    w.dtype = dtype;
    w.dims = std::move(dims);
    w.bytes = static_cast<uint64_t>(p.buffers.back().bytes.value());
    p.buffers.back().weight = static_cast<int32_t>(p.weights.size());
    p.weights.push_back(w);
    return b;
  }
  plan::Step& step(const std::string& executor, std::vector<int32_t> reads, std::vector<int32_t> writes,
                   const std::string& payload = "") {
    plan::Step s;
    s.name = executor + std::to_string(p.steps.size());
    s.executor = executor;
    s.reads = std::move(reads);
    s.writes = std::move(writes);
    s.variants.push_back({"", "", {}, payload});
    p.steps.push_back(s);
    return p.steps.back();
  }
  // A step of the reference executor with one result, `y` in the region's text, which gets the type of its buffer.
  plan::Step& reference(std::vector<int32_t> reads, std::vector<int32_t> writes, std::string region) {
    const plan::Buffer& b = p.buffers[static_cast<size_t>(writes[0])];
    region.replace(region.find(" y = "), 3, " y: " + std::string(dtype_name(b.dtype)) + shape_text(b.shape) + " ");
    return step("reference", std::move(reads), std::move(writes), "kernel reference@1 {}\n" + region);
  }
};

// x[batch,4] -> relu -> t; t and w -> y. The executors need not exist.
inline ProgramMaker small_program() {
  ProgramMaker m;
  m.p.name = "small";
  m.p.dims = {"batch", "n"};
  const int32_t x = m.input("x", DType::kF32, "[batch,4]");
  const int32_t w = m.weight("w", DType::kF32, {4});
  const int32_t t = m.scratch("t", DType::kF32, "[batch,4]");
  const int32_t y = m.buffer("y", plan::BufferKind::kOutput, DType::kF32, "[batch,4]");
  m.step("a", {x}, {t}, "first");
  m.step("b", {t, w}, {y}, "second");
  m.output("y", y);
  return m;
}

}  // namespace peri::tests
