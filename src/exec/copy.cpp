// Executor "copy": a step's result is the bytes of what it reads; large ones go by several threads. It is what carries
// a value into a state, so that the next run finds it there, and between the host and a device. The payload is empty.
#include <algorithm>
#include <cstring>

#include "base/plural.hpp"
#include "base/size_table.hpp"
#include "exec/entry.hpp"

namespace peri::exec {
namespace {
constexpr int64_t kPiece = 256 << 10;  // bytes: a task is worth handing out. Not varied

class CopyInstance final : public runtime::Instance {
 public:
  explicit CopyInstance(int64_t bytes) : bytes_(bytes) {}
  Status run(const runtime::RunContext& c) const override {
    const auto* from = static_cast<const std::byte*>(c.reads[0]);
    auto* to = static_cast<std::byte*>(c.writes[0]);
    if (from == to || bytes_ == 0) return Ok{};
    if (from < to + bytes_ && to < from + bytes_) {
      std::memmove(to, from, static_cast<size_t>(bytes_));
      return Ok{};
    }
    c.pool->run((bytes_ + kPiece - 1) / kPiece, [&](int64_t task, int) {
      const int64_t begin = task * kPiece, count = std::min(kPiece, bytes_ - begin);
      std::memcpy(to + begin, from + begin, static_cast<size_t>(count));
    });
    return Ok{};
  }

  Status enqueue(const runtime::EnqueueContext& c) const override {
    const auto bytes = static_cast<size_t>(bytes_);
    const auto &from = c.reads[0], &to = c.writes[0];
    if (from.host) return c.stream->copy_in(to.address, {from.host, bytes});
    if (to.host) return c.stream->copy_out({to.host, bytes}, from.address);
    return from.address == to.address ? Status(Ok{}) : c.stream->copy(to.address, from.address, bytes);
  }

 private:
  int64_t bytes_;
};

class CopyPrepared final : public runtime::Prepared {
 public:
  CopyPrepared(std::string name, const Dim& from, const Dim& to)
      : name_(std::move(name)), from_(sizes_.add(from)), to_(sizes_.add(to)) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    const std::vector<int64_t> values = sizes_.values_of(binding);
    PERI_ASSIGN(const int64_t from, sizes_.eval(from_, values));
    PERI_ASSIGN(const int64_t to, sizes_.eval(to_, values));
    if (from != to || from < 0)
      return invalid("a copy between buffers of different sizes")
          .at_node(name_)
          .expecting(counted(to, "byte"))
          .but_found(std::to_string(from));
    return std::unique_ptr<runtime::Instance>(std::make_unique<CopyInstance>(from));
  }

 private:
  std::string name_;
  SizeTable sizes_;
  int32_t from_, to_;  // bytes
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  const plan::Step& step = *context.step;
  if (step.reads.size() != 1 || step.writes.size() != 1 || step.reads[0] < 0 || step.writes[0] < 0 ||
      !step.binds.empty())
    return invalid("a copy has one argument and one result").at_node(step.name);
  if (!context.variant->payload.empty()) return invalid("a copy has no payload").at_node(step.name);
  const plan::Buffer& from = context.program->buffers[static_cast<size_t>(step.reads[0])];
  const plan::Buffer& to = context.program->buffers[static_cast<size_t>(step.writes[0])];
  if (from.dtype != to.dtype || from.layout != to.layout || from.dtype == DType::kString)
    return invalid("a copy between buffers of different types")
        .at_node(step.name)
        .expecting(std::string(dtype_name(to.dtype)))
        .but_found(std::string(dtype_name(from.dtype)));
  return std::unique_ptr<runtime::Prepared>(std::make_unique<CopyPrepared>(step.name, from.bytes, to.bytes));
}
}  // namespace

extern const Entry copy_entry;
const Entry copy_entry{{std::string(plan::kCopyExecutor), 1, prepare, ""}};

}  // namespace peri::exec
