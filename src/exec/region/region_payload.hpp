// The payload of steps that run a region: kernel, configuration, and the region as IR text with symbolic
// dims.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "runtime/executor.hpp"

namespace peri::exec {

// Text form, first line then the graph:  kernel gemm_f32@1 {mr=12 nr=32}\ngraph { ... }
struct RegionPayload {
  std::string kernel;
  int version = 1;
  std::string config;
  ir::Graph graph;
};
// The most elements of a list that a region's text states: strings, and sizes of parts. Its nodes read it there.
constexpr int64_t kMaxTextElements = 1 << 20;
std::string write_payload(std::string_view kernel, int version, std::string_view config, const ir::Graph& region);
Result<RegionPayload> read_payload(std::string_view text);
// The first line alone: the graph is not parsed.
Result<RegionPayload> read_payload_head(std::string_view text);

// The region's arguments must match the step's: same number, dtype, shape and layout as the buffers. Checked before
// anything runs, since kernels trust the region's types.
Status check_arguments(const ir::Graph& region, const plan::Program& program, const plan::Step& step,
                       bool narrow_weights = false);

// The dimensions named in a region's values, contents or attributes: those that an instance of it may depend on.
std::vector<std::string> dims_of(const ir::Graph& region);

// The size assumed for a data-dependent dimension that meets no other (Program::assumed has all): any number, but the
// same in all runs, since choices and the format of packed weights depend on it.
constexpr int64_t kAssumedSize = 64;

// For executors whose results never share the memory of an argument (plan::Step::shares).
Status refuse_sharing(const plan::Step& step);

// The region with symbols replaced and types inferred again; outputs that stay symbolic are an error unless `partial`:
// then they have the shape that the region states.
Result<ir::Graph> bind_region(const ir::Graph& region, const DimBinding& binding, bool partial = false);

// "0231" of a layout, "" for row-major: the notation of Buffer::layout.
std::string layout_code(const ir::Layout& layout);

}  // namespace peri::exec
