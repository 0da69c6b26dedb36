// The manifest of an outside kernel: the region that it matches, its sizes and chips, and its launch. Read from an
// untrusted file; everything in it is validated here or when it is matched with a problem.
#pragma once

#include <map>
#include <span>

#include "ir/graph.hpp"
#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::outside {

constexpr int64_t kMaxThreads = 1024,
                  kMaxOtherAxis = 65535;  // threads of a block; blocks along the second and third axis

// The values that a named dimension of the pattern may have.
struct SizeRule {
  int64_t multiple_of = 1, from = 1, to = INT32_MAX;
  // The smallest allowed value that is at least `wanted`; the largest where there is none.
  int64_t at_least(int64_t wanted) const;
  bool allows(int64_t value) const { return value >= from && value <= to && value % multiple_of == 0; }
};

// "sm_90": only this chip; "sm_80+": also newer ones.
struct Chip {
  int number = 0;
  bool newer = false;
};

// One parameter of the kernel.
struct Parameter {
  enum class Kind : uint8_t { kInput, kOutput, kI32, kI64, kF32, kNull };
  Kind kind = Kind::kNull;
  size_t index = 0;  // of the pattern's input or output
  Dim size;          // for kI32 and kI64
  float number = 0;  // for kF32
  int bytes() const { return kind == Kind::kI32 || kind == Kind::kF32 ? 4 : 8; }
};

struct Choice {
  std::string name;
  std::vector<int64_t> values;  // the first is the default
};

struct Manifest {
  std::string name, takes, entry;
  int version = 1;
  ir::Graph pattern;
  cuda::KernelLaunch::Form form = cuda::KernelLaunch::Form::kSource;
  std::string source;  // file name, relative to the manifest's folder
  std::vector<Chip> chips;
  std::vector<Dim> grid;  // one to three axes
  Dim threads, shared_bytes;
  std::vector<Parameter> parameters;
  std::map<std::string, SizeRule, std::less<>> sizes;  // of every named dimension of the pattern
  std::vector<Choice> tunables;
};

// Errors: kInvalid with file, field, accepted values and finding.
Result<Manifest> parse_manifest(std::string_view text, std::string_view file);
// Checks that the source can be what the manifest describes: a cubin, or a text that contains the entry; for PTX also
// the parameters, to which a compiler may have added some.
Status check_source(const Manifest& manifest, std::string_view source, std::string_view file);

}  // namespace peri::kernels::outside
