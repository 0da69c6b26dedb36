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
  // It uses no texture, no surface and nothing of CUDA's runtime: an NVRTC that supports it omits their declarations,
  // which take a fifth of the time of a short text. The code is the same.
  bool lean = false;
};

struct Code {
  std::string chip;
  std::string cubin;
  std::string log;  // the compiler's log, with registers and spills of each kernel; as stored, where cached
  bool cached = false;
  std::string remark;  // why an entry of the cache was ignored, or could not be written; else ""
};

// Thread-safe: concurrent calls compile concurrently.
class Compiler {
 public:
  // `folder`: of the cache; "": none. Errors: those of open_library().
  static Result<std::unique_ptr<Compiler>> open(std::string folder);
  ~Compiler();
  const Version& version() const;
  const std::string& path() const;
  // The supported chips, as numbers: 90 for sm_90.
  Result<std::vector<int>> chips() const;
  // Errors: kInvalid for a malformed chip; kUnsupported for one that this NVRTC does not support; kRefused, with the
  // log as the finding, where the source does not compile.
  Result<Code> compile(const Source& source) const;
  // A hash of everything that affects the code: source, headers, options, chip and NVRTC's version. 32 digits.
  std::string key(const Source& source) const;
  // Numbers of compilations and of cache hits.
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
