// An engine file as a program and its weights that may be changed freely: read without checks, repaired so that the
// cheap checks of the file pass, written with a valid checksum.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/region/region_payload.hpp"
#include "plan/engine_file.hpp"

namespace peri::fuzz {

constexpr size_t kHeaderBytes = 64, kPageBytes = 4096;

struct Draft {
  plan::Program program;
  std::string weights;
};

// Sets the valid checksum in a file that is long enough to have one. A file without weights may lack its last, empty
// page, which keeps seeds small.
inline void repair_checksum(std::vector<uint8_t>& file) {
  if (file.size() < kHeaderBytes) return;
  uint64_t offset = 0, bytes = 0, weights[2] = {0, 0};
  std::memcpy(&offset, file.data() + 16, 8);
  std::memcpy(&bytes, file.data() + 24, 8);
  std::memcpy(weights, file.data() + 32, sizeof weights);
  if (weights[1] == 0 && weights[0] > file.size() && weights[0] - file.size() < kPageBytes) file.resize(weights[0]);
  if (offset > file.size() || bytes > file.size() - offset) return;
  const uint64_t sum = plan::engine_checksum(std::as_bytes(std::span(file)), offset, bytes);
  std::memcpy(file.data() + 48, &sum, 8);
}

inline std::optional<Draft> read_draft(std::span<const uint8_t> file) {
  if (file.size() < kHeaderBytes) return std::nullopt;
  uint64_t field[4];  // metadata offset and bytes, weights offset and bytes
  std::memcpy(field, file.data() + 16, sizeof field);
  if (field[0] != kHeaderBytes || field[1] > file.size() - kHeaderBytes) return std::nullopt;
  auto program = plan::decode_program(std::as_bytes(file.subspan(kHeaderBytes, field[1])));
  if (!program.ok()) return std::nullopt;
  Draft d{std::move(*program), {}};
  if (field[2] <= file.size() && field[3] <= file.size() - field[2])
    d.weights.assign(reinterpret_cast<const char*>(file.data() + field[2]), field[3]);
  return d;
}

inline std::string write_draft(const Draft& d) {
  const std::string metadata = plan::encode_program(d.program);
  const uint64_t end = kHeaderBytes + metadata.size(), page = (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t field[4] = {kHeaderBytes, metadata.size(), page, d.weights.size()};
  const uint32_t format[2] = {plan::kEngineFormat, 0};
  std::vector<uint8_t> file(kHeaderBytes, 0);
  std::memcpy(file.data(), "PERIENG\n", 8);
  std::memcpy(file.data() + 8, format, sizeof format);
  std::memcpy(file.data() + 16, field, sizeof field);
  file.insert(file.end(), metadata.begin(), metadata.end());
  if (!d.weights.empty()) {
    file.resize(page);
    file.insert(file.end(), d.weights.begin(), d.weights.end());
  }
  repair_checksum(file);
  return std::string(file.begin(), file.end());
}

inline Dim natural_bytes(const plan::Buffer& b) {
  Shape dims = b.shape;
  auto type = ir::parse_type("f32" + shape_text(b.shape) + (b.layout.empty() ? "" : "@" + b.layout));
  if (type.ok() && type->layout.block_axis >= 0) {
    Dim& d = dims[static_cast<size_t>(type->layout.block_axis)];
    d = ceildiv(d, type->layout.block) * Dim(type->layout.block);
  }
  return ceildiv(product(dims) * Dim(dtype_bits(b.dtype)), 8);
}

// Derives sizes, ports, weights and the table of dimensions from the buffers' types.
inline void mend(Draft* d) {
  plan::Program& p = d->program;
  std::set<std::string> symbols(p.dims.begin(), p.dims.end());
  for (plan::Buffer& b : p.buffers) {
    for (const Dim& x : b.shape) x.collect_symbols(symbols);
    b.bytes = natural_bytes(b);
  }
  p.dims.assign(symbols.begin(), symbols.end());
  for (auto* ports : {&p.inputs, &p.outputs})
    for (plan::Port& port : *ports) {
      if (port.buffer < 0 || static_cast<size_t>(port.buffer) >= p.buffers.size()) continue;
      port.dtype = p.buffers[static_cast<size_t>(port.buffer)].dtype;
      port.shape = p.buffers[static_cast<size_t>(port.buffer)].shape;
    }
  const std::string old = d->weights.empty() ? std::string(1, '?') : d->weights;
  d->weights.clear();
  for (const plan::Buffer& b : p.buffers) {
    if (b.weight < 0 || static_cast<size_t>(b.weight) >= p.weights.size()) continue;
    auto dims = eval(b.shape, {});
    if (!dims.ok() || !b.bytes.is_const() || b.bytes.value() < 0 || b.bytes.value() > 1 << 16) continue;
    plan::Weight& w = p.weights[static_cast<size_t>(b.weight)];
    const uint64_t from = w.offset;
    w.dtype = b.dtype;
    w.dims = *dims;
    w.bytes = static_cast<uint64_t>(b.bytes.value());
    w.offset = (d->weights.size() + 63) / 64 * 64;
    d->weights.resize(w.offset);
    for (uint64_t k = 0; k < w.bytes; ++k) d->weights += old[(from + k) % old.size()];
  }
}

// Gives buffers of the step the types of the region's arguments.
inline void fit_buffers(plan::Program* p, const plan::Step& step, const ir::Graph& region) {
  auto fit = [&](const std::vector<int32_t>& buffers, const std::vector<ir::Value*>& values) {
    for (size_t k = 0; k < buffers.size() && k < values.size(); ++k) {
      if (buffers[k] < 0 || static_cast<size_t>(buffers[k]) >= p->buffers.size() || !values[k]->type.known()) continue;
      plan::Buffer& b = p->buffers[static_cast<size_t>(buffers[k])];
      b.dtype = values[k]->type.dtype;
      b.shape = *values[k]->type.shape;
      b.layout = exec::layout_code(values[k]->type.layout);
    }
  };
  fit(step.reads, region.inputs);
  fit(step.writes, region.outputs);
}

}  // namespace peri::fuzz
