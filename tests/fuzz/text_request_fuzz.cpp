// Any bytes as the JSON of embeddings, or of generate: refused, or texts within their bounds; answers are JSON again.
// links: serve
#include <cstdlib>

#include "serve/text/text_api.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const peri::serve::TextLimits limits = {.texts = 8, .text_bytes = 1000, .json = {8, 1 << 16, 2000}};
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool embeddings = data[0] & 1;
  const auto request =
      embeddings ? peri::serve::parse_embeddings(body, limits) : peri::serve::parse_generate(body, limits);
  if (!request.ok()) {
    const auto error = peri::serve::openai_error(400, request.error().text());
    if (!peri::parse_json(error.text).ok()) std::abort();
    return 0;
  }
  if (request->inputs.empty() || request->inputs.size() > limits.texts) std::abort();
  if (request->single && request->inputs.size() != 1) std::abort();
  peri::serve::TextResult result;
  for (const auto& input : request->inputs) {
    if (input.text.size() > limits.text_bytes || input.is_ids == input.ids.empty()) std::abort();
    result.rows.push_back({static_cast<float>(data[0]) / 7, -1e-20f, 3e38f});
  }
  if (embeddings && !peri::parse_json(peri::serve::embeddings_reply(*request, result)).ok()) std::abort();
  return 0;
}
