// Compares the outputs of an answer with those that are wanted.
#pragma once

#include <span>

#include "serve/load/wire.hpp"

namespace peri::serve {

// An output of an answer; the bytes are those of KServe v2's binary form.
struct AnswerTensor {
  std::string name, type;
  std::string_view bytes;
};

// How the outputs differ from the wanted ones, by the first element that does; "": they do not. Floats may differ as
// those of a case of `peri verify --suite`: by 1e-5 and 1e-3 of the wanted value, more for 16 bits.
std::string differs(std::span<const LoadTensor> wanted, std::span<const AnswerTensor> got);

// The same for the body of an HTTP answer, of which the first `json_bytes` are JSON (0: all), and for the messages of a
// gRPC answer.
std::string http_differs(std::span<const LoadTensor> wanted, std::string_view body, size_t json_bytes);
std::string grpc_differs(std::span<const LoadTensor> wanted, std::string_view messages);

}  // namespace peri::serve
