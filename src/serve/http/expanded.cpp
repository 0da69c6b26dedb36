// The expanded text and its share of the budget have the same lifetime.
#include "serve/http/expanded.hpp"

namespace peri::serve {

Result<Expanded> expand(std::span<const std::byte> bytes, Compression form, size_t most,
                        std::shared_ptr<ByteBudget> budget) {
  struct Kept {
    explicit Kept(std::shared_ptr<ByteBudget> b) : share(std::move(b)) {}
    BudgetShare share;
    std::string text;
  };
  const auto kept = std::make_shared<Kept>(budget);
  size_t held = 0;
  auto text = decompress(bytes, form, most, [&](size_t now) { return kept->share.hold(held = now); });
  if (!text.ok() && text.error().kind == ErrorKind::kRefused && budget) {
    const std::string why(budget->refusal(bytes.size() + held));  // the compressed bytes are counted too
    return Error(why == kNeverFits ? ErrorKind::kMemory : ErrorKind::kRefused, why);
  }
  if (!text.ok() && text.error().kind == ErrorKind::kMemory) {
    Error large = std::move(text).error();
    large.message += " (--max-body-bytes)";
    return large;
  }
  if (!text.ok()) return std::move(text).error();
  kept->text = std::move(*text);
  return Expanded{std::as_bytes(std::span(kept->text)), kept};
}

}  // namespace peri::serve
