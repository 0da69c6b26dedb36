// The options of a build, from the command line or the library. All defaults, checks and output files of a build are
// here, so that both behave alike.
#pragma once

#include "build/build.hpp"

namespace peri::build {

struct Request {
  std::string model;  // ONNX file or Hugging Face folder
  // Sizes to tune for, and the smallest and largest at which every choice must be valid: by a dimension's own name,
  // INPUT.AXIS, "batch" or "sequence".
  std::map<std::string, int64_t> dims, min_dims, max_dims;
  std::vector<compile::InputShape> at_hand;  // inputs of later runs: their sizes are used where none are given
  std::string backend = "auto";
  std::string device;                        // "cuda:1": one of several; "": the first
  std::string dtype;                         // as in --dtype; "" not given
  std::string io_dtype;                      // as in --io-dtype; "" not given
  std::map<std::string, std::string> fixed;  // inputs that become constants: name and value
  int64_t max_iterations = 0;                // of a loop, kept in the engine; 0: not given
  std::string provider;                      // only candidates of this provider; "" all
  double budget = 0;                         // seconds to tune for, then the best so far; 0: unlimited
  int settings = 0;               // number of settings of a kernel's tunables to try in addition to the derived ones
  int threads = 0;                // 0: the CPUs this process may use
  bool tune = true;               // false: each kernel's first offer, nothing is measured
  bool verify = true;             // false: neither candidates nor the engine are checked, and the proof says so
  bool worker = true;             // false: candidates are judged in this process
  bool cache = true;              // false: the timing cache is neither read nor written
  bool strict_placement = false;  // steps that would run on the host beside the backend's device are an error
  bool one_model = true;          // false: the settings are of many models, and each obeys those that it can
  bool retune = false;            // candidates and engine are judged again, and the timing cache is updated
  std::optional<std::string> cache_folder;  // of the timing cache; none: the environment's
  std::vector<std::string> disabled_passes;
  std::string dump_dir;                // graphs around each pass; "" none
  std::string locked_path;             // take every choice from this lock file; "" none
  std::string engine_path, lock_path;  // files to write; "" none. The proof is written beside the engine
  bool proof = false;                  // creates the proof also where no engine is written
  bool force = false;                  // files of another kind are overwritten; never one that is read
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<void(const std::string& line)> log = {};  // called with lines for a log
  std::function<bool()> stop;                             // once true the build ends with the best so far
  std::function<Status()> may_write = {};  // asked when the work is done: an error ends it, and nothing is written
  // Called with the imported model before any work on it (compile::Options::admits).
  std::function<Status(const ir::Graph& imported)> admits = {};
};

// Threads of a request: the given number, else the CPUs this process may use. kUsage unless it is 0 to 1024.
Result<int> threads_of(int asked);
// That a limit of loops, 0 for none, has no effect on this program; "" where it has one.
std::string unused_limit(int64_t max_iterations, const plan::Program& program);
// Checks before the work that the file can be written. An empty path is ignored.
Status check_folder_of(const std::string& file);
// The request as options of the compiler, defaults filled in. Errors: kUsage and kUnsupported name the member; those of
// the lock file.
Result<compile::Options> options_of(const Request& request);
// The checks that do not depend on the model.
Status check_request(const Request& request);

// The result of a request.
struct Made {
  Built built;
  compile::Options options;  // as used
  bool stopped = false;      // `stop` ended it: the best so far; built.compiled.notes say what is not verified
  std::string proof;         // the text of the proof, if any

  int64_t reference_steps() const;  // on the reference executor
  bool short_of_memory() const;     // one of these since memory was short to try its kernels
  std::string verdict() const;      // about the whole engine, in a few words
  // The sizes that were asked for and at which the engine was not judged, with the reasons; "": it was at all of them.
  std::string not_judged() const;
};
// Builds, judges and writes the files of the request, each completely or not at all: that they can be written is
// checked before the work. Errors name the model.
Result<Made> make_engine(const Request& request);
// The same for an engine that stays in memory: an incomplete build is an error (kCancelled).
Result<Made> make_whole_engine(const Request& request);

}  // namespace peri::build
