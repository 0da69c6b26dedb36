// Memory blocks of a session: from the engine's allocator, else the system's, page-aligned, returned where they came
// from.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/fault_of_caller.hpp"
#include "runtime/engine.hpp"

namespace peri::runtime {

inline constexpr size_t kPage = 4096;

// Returns memory to its allocator.
struct Release {
  Allocator allocator;
  size_t bytes = 0;
  void operator()(void* data) const {
    if (!allocator.release) return std::free(data);
    try {
      allocator.release(allocator.user, data, bytes);
    } catch (...) {  // NOLINT(bugprone-empty-catch): nobody is there to be told, memory goes back when its owner ends
    }
  }
};

// A block that only grows; contents are undefined after it grew.
struct Memory {
  std::unique_ptr<std::byte, Release> data;
  size_t bytes = 0;
  Status reserve(size_t wanted, const EngineOptions& options) {
    if (wanted <= bytes && data) return Ok{};
    if (wanted > static_cast<size_t>(options.memory_limit()))
      return Error(ErrorKind::kMemory, format("a run would take %zu bytes in one piece", wanted))
          .expecting(format("at most %lld bytes of memory", static_cast<long long>(options.memory_limit())))
          .advise("run with smaller inputs, or on a machine with more memory");
    const size_t padded = (wanted + 127) / 64 * 64;
    const Allocator& a = options.allocator;
    data.reset();  // before the new one is allocated: both need not fit
    void* fresh = nullptr;
    std::optional<Error> thrown;
    if (a.allocate)
      fresh = calling("allocate", fresh, &thrown, [&] { return a.allocate(a.user, padded, kPage); });
    else if (posix_memalign(&fresh, kPage, padded) != 0)
      fresh = nullptr;
    data = {static_cast<std::byte*>(fresh), Release{a, padded}};
    bytes = data ? padded : 0;
    if (thrown) return *std::move(thrown);
    if (!data) return Error(ErrorKind::kMemory, format("cannot allocate %zu bytes for a run", wanted));
    return Ok{};
  }
};

}  // namespace peri::runtime
