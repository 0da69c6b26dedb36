// The implementation of the C interface's handles, and the conversion of failures to error objects.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/option_names.hpp"
#include "api/tensors.hpp"
#include "base/fault.hpp"
#include "base/fault_of_caller.hpp"
#include "base/knobs.hpp"
#include "base/utf8.hpp"
#include "build/bench.hpp"
#include "build/text.hpp"
#include "peri/peri.h"
#include "runtime/engine.hpp"

struct peri_error {
  peri::Error error;
  std::string text;
};

namespace peri::api {

// The caller's log function, or none.
struct Log {
  peri_log_function function = nullptr;
  void* user = nullptr;
  // The message is one line that a terminal shows literally, whatever names it has. Errors: kUsage where the function
  // throws.
  Status tell(peri_log_level level, const std::string& message) const {
    std::optional<Error> thrown;
    if (function)
      calling("log", true, &thrown, [&] {
        function(user, level, printable(in_words_of_library(message)).c_str());
        return true;
      });
    return thrown ? Status(*std::move(thrown)) : Status(Ok{});
  }
  // Warns of an unknown variable PERI_*: the command line refuses it, but a program may have inherited it.
  Status tell_of_knobs() const {
    if (!function) return Ok{};
    if (const Status knobs = check_knobs(); !knobs.ok()) return tell(PERI_LOG_WARNING, knobs.error().text());
    return Ok{};
  }
};

// The untuned sizes that the log has been told of, for all sessions of an engine; of many, the first. Thread-safe.
class ToldSizes {
 public:
  // Whether nothing was told of them; from now on something is.
  bool add(const DimBinding& sizes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sizes_.size() < kMaxTold && sizes_.insert(sizes).second;
  }

 private:
  static constexpr size_t kMaxTold = 64;
  std::mutex mutex_;
  std::set<DimBinding> sizes_;
};

// What a session is doing.
enum class Work { kNone, kCall, kCancelledCall };

}  // namespace peri::api

struct peri_engine {
  std::shared_ptr<const peri::runtime::Engine> engine;
  // Sizes as text, by port and axis; the strings live as long as the engine.
  std::vector<std::vector<std::string>> input_dims, output_dims;
  peri::api::Log log;
  std::string path;                              // the engine's file, else the model it was built from
  std::shared_ptr<const peri::MappedFile> file;  // the file it was loaded from, if any
  std::shared_ptr<peri::api::ToldSizes> told = std::make_shared<peri::api::ToldSizes>();
  std::string place;                  // its path also after a change of the folder
  peri::build::FileState state = {};  // its state then
  mutable std::mutex proof_lock;
  mutable std::string proof;  // of the build, or read at the first request
};

struct peri_report {
  std::string json;
};

// The results of the last run that succeeded.
struct peri_last_run {
  bool over = false;  // a run began behind it: only who has a pointer to what lies here may know it

  std::vector<peri::Tensor> outputs;              // in memory of the host; undefined where the output is on a device
  std::vector<std::vector<peri_string>> strings;  // by output: what a caller reads of one of strings; else empty
  mutable std::vector<bool> lent;  // by output: in memory of the session that is not handed out by DLPack
  // For runs on a device: the outputs returned to the caller, and the dims that they point to.
  std::vector<peri_tensor> left;
  std::vector<std::vector<int64_t>> dims;
};

struct peri_session {
  std::shared_ptr<const peri::runtime::Engine> engine;
  std::unique_ptr<peri::runtime::Session> session;
  peri_last_run last;
  std::vector<peri::Tensor> texts;                                    // inputs made from texts
  std::optional<peri::build::TextModel> tokenizer;                    // loaded at the first use of texts
  peri::build::Prompt prompt;                                         // what stands before them
  std::map<std::pair<bool, size_t>, std::vector<int64_t>> port_dims;  // that returned tensors point to
  peri::api::Log log;
  peri::DimBinding last_dims;                    // of the last run
  std::shared_ptr<peri::api::ToldSizes> told;    // that of its engine
  std::string path;                              // that of its engine
  std::shared_ptr<const peri::MappedFile> file;  // that of its engine, if it has one
  mutable std::atomic<peri::api::Work> work{peri::api::Work::kNone};
};

namespace peri::api {

// Null for success.
peri_error* to_handle(Status status);
// An error that needs no memory.
peri_error* no_memory();
// A handle of an engine. Errors: those of the log.
Result<std::unique_ptr<peri_engine>> to_handle(std::shared_ptr<const runtime::Engine> engine, Log log);
// A text of the options, unchanged where it is NULL. kUsage for an empty one, which is no wish to leave it out;
// `takes`: what may stand there.
Status take_word(const char* given, const char* name, const char* takes, std::string* out);
constexpr const char* kDeviceWord = "a device such as cuda:1";
// kUsage for an allocator with only one function, and for an invalid number of threads.
Result<runtime::EngineOptions> engine_options(int threads, const peri_allocator* allocator, const char* device);
// The limit for one loop in one run; kUsage for a number below 0.
Result<int64_t> iteration_limit(int64_t given);
// The caller's inputs as tensors on its memory. Errors name the input: kUsage, kInvalid.
Result<std::vector<Tensor>> inputs_of(const plan::Program& program, const TensorArray& given);
// The text of the engine's proof, which lives as long as the engine.
Result<const char*> proof_of(const peri_engine& engine);
// Named sizes; kUsage for one without a name. `member`: dims, min_dims or max_dims of the options.
Result<std::map<std::string, int64_t>> named_dims(const peri_dim* dims, size_t count, const char* member);
// The caller's struct in this version's size: members that it does not have are zero. kUsage if struct_size is not set
// or larger than in this version.
template <class T>
Result<T> known_part(const T* given, const char* what) {
  T out = {};
  if (!given) return out;
  if (given->struct_size < sizeof(size_t) || given->struct_size > sizeof(T))
    return usage("%s.struct_size is %zu", what, given->struct_size)
        .expecting("sizeof the struct, of this or an older version");
  __builtin_memcpy(static_cast<void*>(&out), given, given->struct_size);
  return out;
}

// kIo where the session's engine file was cut: what was read of it, and kept in memory since, may be zeros.
Status check_file(const peri_session& session);

// Runs `f` with exclusive use of the session; kUsage if another thread uses it. Errors name the engine's file or its
// model.
template <class F>
Status alone(const peri_session* session, F f) {
  Work none = Work::kNone;
  if (!session->work.compare_exchange_strong(none, Work::kCall, std::memory_order_acquire))
    return usage("the session is at work in another thread")
        .advise("make a session for each thread: they share the engine");
  struct Release {
    std::atomic<Work>& work;
    ~Release() { work.store(Work::kNone, std::memory_order_release); }
  } const release{session->work};
  Status done = contained(f);
  if (!done.ok() && done.error().file.empty()) return std::move(done).error().in_file(session->path);
  return done;
}

// Runs `f`, a function that returns Status; exceptions (a failed check, no memory) become errors as well.
template <class F>
peri_error* guarded(F f) {
  try {
    return to_handle(contained(f));
  } catch (const std::exception&) {  // the error itself needed memory
    return no_memory();
  }
}

}  // namespace peri::api
