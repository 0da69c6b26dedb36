// Program: what a backend passes to the runtime, as pure data: devices, a dimension table, buffers, steps. It knows no
// graph and no compiler, and is what the engine file stores.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/dim.hpp"
#include "base/dtype.hpp"

namespace peri::plan {

constexpr uint32_t kHost = 0;                       // the first of Program::devices
constexpr std::string_view kHostDevice = "host";    // its name
constexpr std::string_view kCopyExecutor = "copy";  // the only one whose steps may access two devices
constexpr size_t kMaxDevices = 16, kMaxLanes = 16;  // lanes of all devices together; the host counts as one

enum class BufferKind : uint8_t { kInput, kOutput, kWeight, kScratch, kState };

// A region of memory on one device. Its size may depend on named dimensions.
struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::kScratch;
  DType dtype = DType::kF32;
  Shape shape;              // logical dims, for reports, checks and data-dependent outputs
  std::string layout;       // physical order as in IR text ("" row-major, "0231", "0123:1x16")
  Dim bytes;                // size; string tensors are held by the runtime as objects and have 0 here
  uint32_t alignment = 64;  // of its own memory or of its offset in the buffer it aliases: a power of two, 64 to 4096
  int32_t alias_of = -1;    // same memory as an earlier buffer, from `alias_offset` on; -1: its own
  Dim alias_offset;
  int32_t weight = -1;      // kWeight: index into Program::weights
  uint32_t device = kHost;  // of Program::devices; all buffers that share its memory are on it
};

// One way to execute a step. The first whose `requires_isa` and `library` this machine has and whose `holds_for` is met
// is chosen.
struct Variant {
  std::string requires_isa;                        // "" any, "avx2", "avx512", "amx_int8", "sm_90a"
  std::string library;                             // "" none, else name and version that must match: "onednn 3.2.0"
  std::vector<std::pair<Dim, int64_t>> holds_for;  // every expression must equal its number; empty: every shape
  std::string payload;                             // in the executor's own format, text or bytes
  std::vector<int32_t> blobs = {};                 // of Program::blobs: further data of the payload
};

struct Program;

struct Step {
  std::string name;      // for people: the anchor node
  std::string executor;  // a name of src/exec: "cpu", "cuda", "reference", "sized", "copy", "if", "loop"
  uint32_t payload_version = 1;
  std::vector<Variant> variants;
  std::vector<int32_t> reads;  // buffers; -1: an optional argument left out
  std::vector<int32_t> writes;
  uint32_t device =
      kHost;          // where it runs: all its arguments are there, except one end of a copy, which may be the host
  uint32_t lane = 0;  // of the device; 0 on the host
  std::vector<int32_t> waits_for;  // earlier steps that are complete before it begins (see StepOrder)
  std::vector<std::string> binds;  // data-dependent dimensions this step binds while running
  // Dimensions that an instance of the step may depend on in addition to those of its arguments and variants; it gets
  // no others. Bound before the step.
  std::vector<std::string> depends_on = {};
  std::vector<std::shared_ptr<Program>> bodies;  // control steps; their weights are those of the whole program
  std::vector<std::string> origins;              // nodes of the model, for reports
  // For each write the index of the read whose memory it reuses (its buffer is that one or an alias of it), as the
  // kernel's offer allows; -1: none. Empty: none at all. No other result may overlap an argument.
  std::vector<int32_t> shares = {};
};

// Constant bytes that variants need in addition to their payload (code of outside kernels, a library's plan), stored
// once per content.
struct Blob {
  uint64_t hash = 0;  // xxh3-64 of the bytes
  std::string bytes;
};

struct Port {
  std::string name;
  int32_t buffer = -1;
  DType dtype = DType::kF32;
  Shape shape;
};

// A weight block. `offset` is from the start of the weight section; 64-byte aligned; `hash` is xxh3-64 of its bytes.
struct Weight {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;          // of the bytes
  uint64_t content_hash = 0;  // Tensor::content_hash, as the source text names it
};

// A named blob that travels with the program: "source" (IR text), "tokenizer.json", "pipeline.json".
struct Section {
  std::string name;
  std::string bytes;
};

struct Program {
  std::string name;
  std::string builder;                                            // version of the program that built it
  std::string backend;                                            // "cpu"
  std::vector<std::string> devices = {std::string(kHostDevice)};  // kinds: "host" first, then each other kind once
  std::vector<std::string> dims;             // named dimensions; bound by inputs or by a step's `binds`
  std::map<std::string, int64_t> tuned_for;  // the binding at which candidates were timed
  std::map<std::string, int64_t> assumed =
      {};  // the same of dimensions that the data decide, for which no run is asked
  // Limits of dimensions of the inputs: a run outside them is refused. A dimension without a limit may have any size.
  std::map<std::string, int64_t> at_least = {}, at_most = {};
  std::vector<Buffer> buffers;
  std::vector<Step> steps;  // in an order that respects all dependences
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Weight> weights;
  std::vector<Section> sections;
  std::vector<Blob> blobs = {};
  // The narrowest type that weights and values of the model were rounded to; verification derives its error budget from
  // it.
  DType precision = DType::kF32;

  // The index of a blob with these bytes, added if there is none.
  int32_t add_blob(std::string bytes);
  const Section* section(std::string_view wanted) const;
};

// The type of the values between the steps of a device: Program::precision, or float32 where all steps run on the host,
// which rounds only weights.
DType values_type(const Program& program);

// Everything that a run relies on, checked once at load: indexes, aliases, order of reads and writes, expressions,
// names, limits (1e6 steps and buffers, depth 16 of bodies). A step accesses memory of its own device only, except the
// host's end of a copy; strings, steps that bind dimensions and those with bodies are on the host; two steps that
// access a buffer, one of them writing, are ordered by what they wait for. Memory of an argument is reused only as
// Step::shares states, and its old contents are not read afterwards; that the kernel allows it is checked by the
// executor. `weight_bytes` is the size of the weight section. The error says which step or buffer and why. After it, no
// field of the program can cause an unsafe access.
Status check_program(const Program& program, uint64_t weight_bytes);

// Binds the dimension table from concrete input dims (in order of Program::inputs): bare symbols first, then every
// other dimension is checked. Errors name the input, axis, expectation and finding; kRefused names
// the limit of the program that is exceeded.
Result<DimBinding> bind_dims(const Program& program, const std::vector<std::vector<int64_t>>& input_dims);

// Checks that Program::at_least and at_most are valid; the limits of one dimension in words, "" where it has none;
// kRefused naming the limit that sizes exceed.
Status check_limits(const Program& program);
std::string limits_text(const Program& program, const std::string& dim);
Status within_limits(const Program& program, const DimBinding& sizes);

// Selects the variant of a step for this machine and a binding; error kRefused that lists what each one needs.
struct Capabilities {
  std::vector<std::string> isas;       // every level this machine has: {"avx2", "avx512", ...}
  std::vector<std::string> libraries;  // "onednn 3.2.0"
};
Result<size_t> choose_variant(const Step& step, const Capabilities& machine, const DimBinding& binding);

// ---- memory --------------------------------------------------------------------------------------------------------
// Offsets of the scratch buffers in one arena per device for a binding: largest first, best fit. Two buffers share
// bytes only where all accesses to the one are complete before the first access to the other: by the order of the steps
// if all run on the host, by StepOrder where there are other devices. A pure function: the same program and binding
// give the same offsets. Buffers whose size is not bound yet get kUnbound.
constexpr int64_t kUnbound = -1;
constexpr int64_t kMaxBufferBytes = int64_t{1} << 42;  // keeps sums over a million buffers within int64
struct ArenaPlan {
  std::vector<int64_t> offset;             // per buffer; kUnbound for buffers outside the arena
  std::vector<int64_t> bytes;              // per buffer; kUnbound if data-dependent
  int64_t arena_bytes = 0;                 // of the host
  std::vector<int64_t> device_bytes = {};  // arena of each device; the host's is arena_bytes, and 0 here
  int64_t largest_live_bytes = 0;  // of the host, lower bound of any plan: the largest sum of bytes alive at one step
};
Result<ArenaPlan> plan_arena(const Program& program, const DimBinding& binding);
// Checks a plan: inside the arena, aligned, no two buffers alive at once overlap. Used after planning and by tests.
Status check_arena(const Program& program, const ArenaPlan& plan);

// First and last step (inclusive) at which each buffer (with its aliases) is alive; {-1,-1} if never used.
struct Lifetime {
  int32_t first = -1, last = -1;
};
std::vector<Lifetime> lifetimes(const Program& program);
// The buffer that owns the memory of `buffer`: follows alias_of.
int32_t storage_of(const Program& program, int32_t buffer);
// The same for every buffer, in linear time.
std::vector<int32_t> storages(const Program& program);

}  // namespace peri::plan
