// The content of a compressed body, counted among the bytes of current requests as long as its memory is held.
#pragma once

#include <memory>
#include <span>

#include "base/compressed.hpp"
#include "serve/http/budget.hpp"

namespace peri::serve {

struct Expanded {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
// Errors, as shown to clients: those of decompress(); kRefused: exceeds the budget at present; kMemory: larger than a
// body, or all bodies together, may be.
Result<Expanded> expand(std::span<const std::byte> bytes, Compression form, size_t most,
                        std::shared_ptr<ByteBudget> budget);

}  // namespace peri::serve
