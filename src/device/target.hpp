// The properties of a device that planning may use: kernels offer and are chosen for a Target that is passed down. That
// of this machine is detected in one place; that of another is read from text, so that its plans can be made and tested
// here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri {
class JsonWriter;
}  // namespace peri

namespace peri::device {

enum class Kind : uint8_t { kCpu, kNull, kCuda };
// "cpu", "null", "cuda".
std::string_view kind_name(Kind kind);

// The instruction sets that a kernel may require of a CPU, lowest first; a CPU that has one has all before it.
std::span<const std::string_view> cpu_isas();

struct Cache {
  std::string name;  // "L1 data", "L1 instruction", "L2 unified"
  int64_t bytes = 0;
  bool operator==(const Cache&) const = default;
};

// A value. Only `isas` and `libraries` may change results; the rest is for choices and for the key of times.
struct Target {
  Kind kind = Kind::kCpu;
  std::string chip;                         // "AMD EPYC 9654 96-Core Processor"; "" if unknown
  std::vector<std::string> isas;            // every level it has, lowest first: {"avx2", "avx512", "avx512_vnni"}
  int threads = 1;                          // that work is planned for
  std::vector<Cache> caches;                // of one core, nearest first; empty if unknown
  std::vector<std::string> libraries = {};  // linked ones that a variant may require: "onednn 3.2.0"
  int multiprocessors = 0;                  // of the GPU that it is or has; 0: none, or unknown

  bool has(std::string_view isa) const;  // true for ""
  // Bytes of the data cache of this level; 0: unknown.
  int64_t cache_bytes(int level) const;
  // The same with no instruction set above `isa`, so that a plan for it uses no other; "": unchanged. REQUIRES
  // has(isa).
  Target limited_to(std::string_view isa) const;
  bool operator==(const Target&) const = default;
};

// A CPU with a GPU, for kernels of both: adds the GPU's chips, libraries and limits per block.
Target with_gpu(Target host, const Target& gpu);
// The name of the entry among the caches of a target that has a GPU: shared memory of one block.
constexpr std::string_view kSharedOfBlock = "shared of a block";

// As a JSON object; the text is one line, which parse_target() parses to an equal value.
void write_target(JsonWriter& w, const Target& target);
std::string target_text(const Target& target);
// Strict: every member present, known and within its range. Errors: kInvalid naming the member that is wrong.
Result<Target> parse_target(std::string_view text);
// Errors: kIo; those of parse_target() with the file's name.
Result<Target> read_target(const std::string& path);

// The CPU that this process runs on, with as many threads as it may use. Detected at the first call; thread-safe. An
// instruction set counts where the chip has it and the operating system saves its registers.
const Target& this_cpu();
// The same for this many threads and with these libraries.
Target cpu_target(int threads, std::vector<std::string> libraries = {});

}  // namespace peri::device
