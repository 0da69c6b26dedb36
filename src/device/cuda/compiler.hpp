// Compiles CUDA source to machine code for a named chip, also on a machine without a GPU: with NVRTC, without NVIDIA
// headers, and from the cache if the same was compiled before.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/library.hpp"

namespace peri::device::cuda {

// NVRTC declares CUDA's mathematics as extern "C", so a kernel called `norm` does not compile: names begin with
// "peri_".
struct Source {
  std::string name;                                               // in errors and logs
  std::string text;                                               // CUDA C++17
  std::string chip;                                               // "sm_90a": machine code that runs on this chip only
  std::vector<std::string> options = {};                          // of NVRTC, besides the chip
  std::vector<std::pair<std::string, std::string>> headers = {};  // name and text of what it includes
  // It names no texture, no surface and nothing of CUDA's runtime: an NVRTC that can leaves their declarations out,
  // which take a fifth of the time of a short text. The code is the same.
  bool lean = false;
};

struct Code {
  std::string chip;
  std::string cubin;
  std::string log;  // what the compiler said, with registers and spills of each kernel; as kept, where cached
  bool cached = false;
  std::string remark;  // why an entry of the cache was ignored, or could not be written; else ""
};

// Thread-safe: sources compile at once on as many threads as call.
class Compiler {
 public:
  // `folder`: of the cache; "": none. Errors: those of open_library().
  static Result<std::unique_ptr<Compiler>> open(std::string folder);
  ~Compiler();
  const Version& version() const;
  const std::string& path() const;
  // The chips it has, as numbers: 90 for sm_90.
  Result<std::vector<int>> chips() const;
  // Errors: kInvalid for a chip that is none; kUnsupported for one that this NVRTC does not have; kRefused, with the
  // log as what was found, where the source does not compile.
  Result<Code> compile(const Source& source) const;
  // Of all that changes the code: source, headers, options, chip and NVRTC's version. 32 digits.
  std::string key(const Source& source) const;
  // What was really compiled, and taken from the cache.
  struct Counts {
    int64_t compiled = 0, cached = 0;
  };
  Counts counts() const;

 private:
  struct State;
  explicit Compiler(std::unique_ptr<State> state);
  Result<Code> compile_anew(const Source& source) const;
  std::unique_ptr<State> state_;
};

// The folder of the user's cache for machine code; "" where nothing is cached.
std::string code_cache_folder();

}  // namespace peri::device::cuda
