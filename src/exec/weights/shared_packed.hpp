// Packed weights that have the same bytes are in memory once, for all steps of an engine: steps that do other things
// with a weight often pack it in the same way.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "exec/weights/packed_files.hpp"
#include "runtime/step_share.hpp"

namespace peri::exec {

class SharedPacked final : public kernels::PackedStore {
 public:
  // `share` null: nothing is compared. `store` null: nothing is kept for later processes. `common_bytes`: of the
  // largest weight that another step reads too. A form that is many times as large comes from other weights and is not
  // compared: its hash would take as long as reading it did.
  SharedPacked(std::shared_ptr<runtime::StepShare> share, std::shared_ptr<StepStore> store, int64_t common_bytes)
      : share_(std::move(share)), store_(std::move(store)), common_bytes_(common_bytes) {}
  Result<Tensor> get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) override;
  // kIo if a mapped file was truncated since: results computed from it are invalid.
  Status check() const;

 private:
  std::shared_ptr<runtime::StepShare> share_;
  std::shared_ptr<StepStore> store_;
  int64_t common_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const StepStore>> others_;  // whose bytes it gave
};

}  // namespace peri::exec
