// The lock file: every choice of a build as data, so that another machine makes the same bytes without measuring. JSON;
// choices are in the order of the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_uses.hpp"
#include "base/result.hpp"

namespace peri::plan {

constexpr int64_t kLockFormat = 1;
extern const FileKind kLockFile;

// The choice for one region or one conversion of layout.
struct LockedChoice {
  std::string name;          // the anchor node, for people
  std::string key;           // hash of the problem with symbolic dims
  std::string candidate;     // "gemm_f32@1 {}" or "reference"
  std::string layouts;       // of its inputs and outputs: ",0231->0231"; a candidate may offer several
  std::string requires_isa;  // "" any
  std::string library;       // "" none, else name and version: "onednn 3.2.0"
  std::string fallback;      // the candidate for other dims, where the first is valid at the tuned ones only; else ""
  std::string fallback_isa;  // the instruction set that it requires
};

// The model that a lock was made of. Empty: a lock of an older build.
struct LockedModel {
  std::string name;       // of its graph
  std::string identity;   // as in engines (plan/identity.hpp)
  std::string structure;  // a hash of operators and types, without weights
};

struct Lock {
  LockedModel model;
  std::string builder;  // the version that made the choices, and the only one that may use them: "peri 0.1.0"
  std::string backend;
  std::string provider;                              // the only one allowed, "" all
  std::map<std::string, int64_t> dims;               // the dims it was tuned at
  std::vector<std::map<std::string, int64_t>> also;  // further dims at which every choice is valid: smallest, largest
  std::map<std::string, int64_t> at_least, at_most;  // limits of the engine's dimensions
  int64_t max_iterations = 0;                        // of the engine's loops; 0: none was given
  std::map<std::string, std::string> fixed;          // inputs that are constants: name and value as given
  std::vector<std::string> disabled_passes;
  std::string dtype;     // the type asked for weights, "" the model's own
  std::string io_dtype;  // the same for inputs and outputs
  // What the choices lack where the build that made them was interrupted: "interrupted: the best so far; ...".
  std::string interrupted = {};
  std::vector<LockedChoice>
      regions;  // one for each region: equal problems may have different choices in different places
  std::vector<LockedChoice> conversions;  // one for each problem
};

// The ISA levels that the choices need, sorted.
std::vector<std::string> isas_of(const Lock& lock);

std::string lock_text(const Lock& lock);
// Errors: kInvalid naming the field that is missing or wrong, or another format.
Result<Lock> parse_lock(std::string_view text);
// Errors: kIo; those of parse_lock with the file's name.
Result<Lock> read_lock(const std::string& path);

// Hands out a lock's choices while a program is made. `lock` null: nothing is locked. The lock must outlive the reader.
class LockReader {
 public:
  explicit LockReader(const Lock* lock);
  bool locked() const { return lock_ != nullptr; }
  // The choice for the next region with this key. kRefused naming `node` if the lock has none left.
  Result<const LockedChoice*> region(const std::string& key, std::string_view node);
  // Whether a region with this key and name has not been handed out yet.
  bool has(const std::string& key, std::string_view name) const;
  // The choice for a conversion of layout; may be asked for repeatedly.
  Result<const LockedChoice*> conversion(const std::string& key, std::string_view node) const;
  // kRefused if a region of the lock was not used: it belongs to another model.
  Status all_used() const;

 private:
  const Lock* lock_;
  std::unordered_map<std::string, std::vector<size_t>> left_;  // by key, the last first
};

}  // namespace peri::plan
