// Texts across the C interface.
#include "build/text.hpp"

#include "api/handles.hpp"
#include "api/tensors.hpp"

namespace peri::api {
namespace {

Status texts_to_inputs(peri_session* s, const char* const* texts, size_t count, peri_tensor* in, size_t in_count) {
  const plan::Program& program = s->session->engine().program();
  PERI_ASSIGN(const TensorArray filled, TensorArray::of(in, in_count));
  if (in_count != program.inputs.size())
    return usage("texts for another number of inputs")
        .expecting(std::to_string(program.inputs.size()))
        .but_found(std::to_string(in_count));
  std::vector<std::string> words;
  for (size_t k = 0; k < count; ++k) {
    if (!texts || !texts[k]) return usage("text %zu is NULL", k);
    words.emplace_back(texts[k]);
  }
  if (words.empty()) return usage("no text to make inputs of");
  PERI_ASSIGN(s->texts, build::text_inputs(program, words));
  for (size_t k = 0; k < in_count; ++k) {
    const Tensor& t = s->texts[k];
    filled.set(k, {sizeof(peri_tensor), static_cast<peri_dtype>(t.dtype()), PERI_DEVICE_HOST, t.dims().data(),
                   t.dims().size(), const_cast<void*>(t.data()), t.bytes().size(), 0});
  }
  return Ok{};
}
}  // namespace
}  // namespace peri::api

extern "C" peri_error* peri_session_texts(peri_session* session, const char* const* texts, size_t count,
                                          peri_tensor* in, size_t in_count) {
  return peri::api::guarded([&]() -> peri::Status {
    if (!session) return peri::usage("peri_session_texts needs a session");
    return peri::api::alone(session, [&] { return peri::api::texts_to_inputs(session, texts, count, in, in_count); });
  });
}
