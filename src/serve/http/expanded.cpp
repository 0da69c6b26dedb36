// The text and its share of the budget go together.
#include "serve/http/expanded.hpp"

namespace peri::serve {

Result<Expanded> expand(std::span<const std::byte> bytes, Compression form, size_t most,
                        std::shared_ptr<ByteBudget> budget) {
  struct Kept {
    explicit Kept(std::shared_ptr<ByteBudget> b) : share(std::move(b)) {}
    BudgetShare share;
    std::string text;
  };
  const auto kept = std::make_shared<Kept>(std::move(budget));
  PERI_ASSIGN(kept->text, decompress(bytes, form, most, [&](size_t more) { return kept->share.take(more); }));
  return Expanded{std::as_bytes(std::span(kept->text)), kept};
}

}  // namespace peri::serve
