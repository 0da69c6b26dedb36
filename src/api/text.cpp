// Texts through the C interface.
#include "build/text.hpp"

#include "api/session_device.hpp"
#include "base/utf8.hpp"

namespace peri::api {
namespace {

using Words = std::vector<std::string>;

Result<Words> words_of(const char* const* texts, size_t count) {
  Words words;
  for (size_t k = 0; k < count; ++k) {
    if (!texts || !texts[k]) return usage("text %zu is NULL", k);
    words.emplace_back(texts[k]);
  }
  return words;
}
Result<Words> words_of(const peri_string* texts, size_t count) {
  Words words;
  for (size_t k = 0; k < count; ++k) {
    if (!texts || (!texts[k].data && texts[k].bytes)) return usage("text %zu is NULL", k);
    if (texts[k].bytes > std::string().max_size()) return usage("text %zu has %zu bytes", k, texts[k].bytes);
    words.emplace_back(texts[k].data ? texts[k].data : "", texts[k].bytes);
  }
  return words;
}

Status open_tokenizer(peri_session* s) {
  if (s->tokenizer) return Ok{};
  PERI_ASSIGN(build::TextModel model, build::TextModel::of(s->engine->program()));
  s->tokenizer.emplace(std::move(model));
  return Ok{};
}

// Inputs of the texts, kept in the session.
Status take_texts(peri_session* s, const Result<Words>& given) {
  if (!given.ok()) return Error(given.error());
  const Words& words = *given;
  if (words.empty()) return usage("no text to make inputs of");
  PERI_TRY(open_tokenizer(s));
  PERI_ASSIGN(s->texts, s->tokenizer->inputs(s->engine->program(), words, s->prompt));
  return Ok{};
}

Status take_prompt(peri_session* s, const peri_string* text, const char* name) {
  if (text && name) return usage("a prompt is given both by its text and by its name").advise("give one of them");
  build::Prompt prompt;
  if (text) {
    if (!text->data && text->bytes) return usage("the text of the prompt is NULL and has %zu bytes", text->bytes);
    if (text->bytes > std::string().max_size()) return usage("the text of the prompt has %zu bytes", text->bytes);
    prompt.text.emplace(text->data ? text->data : "", text->bytes);
    if (!utf8_valid(*prompt.text)) return invalid("the text of the prompt is not UTF-8");
  }
  if (name) prompt.name = name;
  PERI_TRY(open_tokenizer(s));
  PERI_TRY(s->tokenizer->check(prompt));
  s->prompt = std::move(prompt);
  return Ok{};
}

peri_tensor described(const Tensor& t) {
  return {sizeof(peri_tensor), static_cast<peri_dtype>(t.dtype()), PERI_DEVICE_HOST, t.dims().data(),
          t.dims().size(),     const_cast<void*>(t.data()),        t.bytes().size(), 0};
}

Status texts_to_inputs(peri_session* s, const Result<Words>& texts, peri_tensor* in, size_t in_count) {
  const size_t inputs = s->engine->program().inputs.size();
  if (in_count != inputs)
    return usage("texts for another number of inputs")
        .expecting(std::to_string(inputs))
        .but_found(std::to_string(in_count));
  PERI_ASSIGN(const TensorArray filled, TensorArray::of(in, in_count));
  PERI_TRY(take_texts(s, texts));
  for (size_t k = 0; k < in_count; ++k) filled.set(k, described(s->texts[k]));
  return Ok{};
}

// The caller's tensor becomes the output that answers a text; the others are memory of the session.
Status embed(peri_session* s, const Result<Words>& texts, peri_tensor* out) {
  PERI_ASSIGN(const TensorArray asked, TensorArray::of(out, 1));
  PERI_TRY(take_texts(s, texts));
  const plan::Program& program = s->engine->program();
  PERI_ASSIGN(const size_t answer, s->tokenizer->answer(program));
  std::vector<peri_tensor> in, outputs(program.outputs.size());
  for (const Tensor& t : s->texts) in.push_back(described(t));
  for (peri_tensor& t : outputs) t.struct_size = sizeof(t);
  outputs[answer] = asked[0];
  outputs[answer].struct_size = sizeof(peri_tensor);
  PERI_ASSIGN(const TensorArray given, TensorArray::of(in.data(), in.size()));
  PERI_ASSIGN(const TensorArray made, TensorArray::of(outputs.data(), outputs.size()));
  PERI_TRY(run_session(s, given, made, nullptr));
  asked.set(0, outputs[answer]);
  return Ok{};
}

template <class Text>
peri_error* texts_into(const char* name, peri_session* session, const Text* texts, size_t count, peri_tensor* in,
                       size_t in_count) {
  return guarded([&]() -> Status {
    if (!session) return usage("%s needs a session", name);
    return alone(session, [&] { return texts_to_inputs(session, words_of(texts, count), in, in_count); });
  });
}
template <class Text>
peri_error* embedding_of(const char* name, peri_session* session, const Text* texts, size_t count, peri_tensor* out) {
  return guarded([&]() -> Status {
    if (!session || !out) return usage("%s needs a session and a place for the answer", name);
    return alone(session, [&] { return embed(session, words_of(texts, count), out); });
  });
}
}  // namespace
}  // namespace peri::api

extern "C" peri_error* peri_session_texts(peri_session* session, const char* const* texts, size_t count,
                                          peri_tensor* in, size_t in_count) {
  return peri::api::texts_into("peri_session_texts", session, texts, count, in, in_count);
}

extern "C" peri_error* peri_session_texts_of(peri_session* session, const peri_string* texts, size_t count,
                                             peri_tensor* in, size_t in_count) {
  return peri::api::texts_into("peri_session_texts_of", session, texts, count, in, in_count);
}

extern "C" peri_error* peri_session_set_prompt(peri_session* session, const peri_string* text, const char* name) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session) return peri::usage("peri_session_set_prompt needs a session");
    return peri::api::alone(session, [&] { return peri::api::take_prompt(session, text, name); });
  });
}

extern "C" peri_error* peri_session_embed(peri_session* session, const char* const* texts, size_t count,
                                          peri_tensor* out) {
  return peri::api::embedding_of("peri_session_embed", session, texts, count, out);
}

extern "C" peri_error* peri_session_embed_of(peri_session* session, const peri_string* texts, size_t count,
                                             peri_tensor* out) {
  return peri::api::embedding_of("peri_session_embed_of", session, texts, count, out);
}
