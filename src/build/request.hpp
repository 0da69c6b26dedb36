// The options of a build, from the command line or the library. All defaults, checks and output files of a build are
// here, so that both behave alike.
#pragma once

#include "build/build.hpp"

namespace peri::build {

struct Request {
  std::string model;  // ONNX file or Hugging Face folder
  // Sizes to tune for, and the smallest and largest at which every choice must hold: by a dimension's own name,
  // INPUT.AXIS, "batch" or "sequence".
  std::map<std::string, int64_t> dims, min_dims, max_dims;
  std::vector<compile::InputShape> at_hand;  // inputs of runs to come: sizes that nobody gives are theirs
  std::string backend = "auto";
  std::string device;                         // "cuda:1": which one of several; "": the first
  std::string dtype;                          // as --dtype has it; "" not given
  std::string io_dtype;                       // as --io-dtype has it; "" not given
  std::map<std::string, std::string> fixed;   // inputs that become constants: name and value
  int64_t max_iterations = int64_t{1} << 31;  // of a loop, where what is built runs
  std::string provider;                       // only candidates of this provider; "" all
  double budget = 0;                          // seconds to tune for, then the best so far; 0: until all is tried
  int settings = 0;                           // of a kernel's tunables to try beside what it derives
  int threads = 0;                            // 0: the CPUs this process may use
  bool tune = true;                           // false: each kernel's first offer, nothing is measured
  bool verify = true;             // false: neither candidates nor the engine are checked, and the proof says so
  bool worker = true;             // false: candidates are judged in this process
  bool cache = true;              // false: the timing cache is neither read nor written
  bool strict_placement = false;  // steps that the host would run beside the backend's device are refused
  bool retune = false;            // candidates and engine are judged anew, and the timing cache gets what is found
  std::optional<std::string> cache_folder;  // of the timing cache; none: the environment's
  std::vector<std::string> disabled_passes;
  std::string dump_dir;                // graphs around each pass; "" none
  std::string locked_path;             // take every choice from this lock file; "" none
  std::string engine_path, lock_path;  // files to write; "" none. The proof stands beside the engine
  bool proof = false;                  // make the proof where no engine is written, too
  bool force = false;                  // files of another kind are overwritten; never one that is read
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<void(const std::string& line)> log = {};  // lines for a log alone
  std::function<bool()> stop;                             // once true the build ends with the best so far
  // Asked of the model as it was read, before any work on it (compile::Options::admits).
  std::function<Status(const ir::Graph& imported)> admits = {};
};

// Threads of a request: the number asked for, else the CPUs this process may use. kUsage where it is not 0 to 1024.
Result<int> threads_of(int asked);
// Before the work: whether the file can be written where it is wanted. An empty path is none.
Status check_folder_of(const std::string& file);
// The request as options of the compiler, defaults filled in. Errors: kUsage and kUnsupported name the member; those of
// the lock file.
Result<compile::Options> options_of(const Request& request);
// What holds for every model that is built so, before there is one.
Status check_request(const Request& request);

// What a request made.
struct Made {
  Built built;
  compile::Options options;  // as they were used
  bool stopped = false;      // `stop` ended it: the best so far, and built.compiled.notes say what of it is not proven
  std::string proof;         // the text of the proof, if there is one

  int64_t reference_steps() const;  // on the slow reference
  std::string verdict() const;      // what is known of the engine as a whole, in a few words
};
// Builds, judges and writes the files that the request names, each whole or not at all: that they can be written is
// checked before the work. Errors name the model.
Result<Made> make_engine(const Request& request);
// The same for an engine that stays in memory: one built in part is no answer (kCancelled).
Result<Made> make_whole_engine(const Request& request);
// Compiles, and judges no engine: for those who judge it themselves. kCancelled where it was stopped.
Result<compile::Compiled> compile_model(const Request& request);

}  // namespace peri::build
