// Text requests: Triton's generate and OpenAI's embeddings and models, for models with a tokenizer.
#pragma once

#include "serve/kserve/infer_request.hpp"
#include "serve/text/text_job.hpp"

namespace peri::serve {

struct TextLimits {
  size_t texts = 2048;            // per request
  size_t text_bytes = 256 << 10;  // per text
  JsonLimits json = {8, size_t{64} << 20, 4000000};
};

struct TextRequest {
  std::string model;  // of embeddings
  std::vector<TextInput> inputs;
  bool single = false;  // one text, not a list
  bool base64 = false;
  int64_t dimensions = 0;                  // 0: not given
  std::optional<std::string> prompt_name;  // one of the model's prompts, before each text
  int64_t priority = 0, timeout_us = 0;
  std::string id;
};

// Parse the bodies of POST /v1/embeddings and of POST /v2/models/NAME/generate. Errors: kInvalid, kUnsupported.
Result<TextRequest> parse_embeddings(std::string_view body, const TextLimits& limits);
Result<TextRequest> parse_generate(std::string_view body, const TextLimits& limits);

// Bodies of replies; any thread. REQUIRES: `result` has a row for each input; generate_reply: `served` has a tokenizer.
std::string embeddings_reply(const TextRequest& request, const TextResult& result);
std::string generate_reply(const TextRequest& request, const Served& served, const TextResult& result);
// Replies of GET /v1/models and GET /v1/models/NAME.
std::string list_models(const std::vector<ServedPtr>& all);
std::string show_model(const Served& served);
// An error in OpenAI's format.
HttpReply openai_error(int status, std::string_view message, std::string_view code = "");

// Returns a job for the texts, which the caller starts with start(), once. `done` then receives the reply, once: during
// start() or later, on any thread; errors are replies too, with the status that `status_of` gives. cancel() may be
// called on any thread. REQUIRES: `request` has an input.
enum class TextForm : uint8_t { kEmbeddings, kGenerate, kGenerateStream };
std::shared_ptr<TextJob> run_texts(TextForm form, ServedPtr served, TextRequest request,
                                   std::function<int(const Error&)> status_of, std::function<void(HttpReply)> done);

}  // namespace peri::serve
