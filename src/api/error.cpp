// Error objects of the C interface.
#include "api/handles.hpp"
#include "api/option_names.hpp"
#include "base/remedy.hpp"

namespace peri::api {

peri_error* no_memory() {
  static peri_error error{Error(ErrorKind::kMemory, "out of memory"),
                          "out of memory"};  // texts that lie in the strings
  return &error;
}

peri_error* to_handle(Status status) {
  if (status.ok()) return nullptr;
  auto out = std::make_unique<peri_error>();
  out->error = in_words_of_library(with_memory_remedy(std::move(status).error()));
  out->text = out->error.text();
  return out.release();
}

namespace {
peri_error_kind kind_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return PERI_ERROR_USAGE;
    case ErrorKind::kInvalid: return PERI_ERROR_INVALID;
    case ErrorKind::kUnsupported: return PERI_ERROR_UNSUPPORTED;
    case ErrorKind::kIo: return PERI_ERROR_IO;
    case ErrorKind::kAccuracy: return PERI_ERROR_ACCURACY;
    case ErrorKind::kRefused: return PERI_ERROR_REFUSED;
    case ErrorKind::kCancelled: return PERI_ERROR_CANCELLED;
    case ErrorKind::kMemory: return PERI_ERROR_MEMORY;
    case ErrorKind::kRegression: return PERI_ERROR_REGRESSION;
    case ErrorKind::kUnstable: return PERI_ERROR_UNSTABLE;
    case ErrorKind::kInternal: break;
  }
  return PERI_ERROR_INTERNAL;
}
}  // namespace

}  // namespace peri::api

extern "C" {

peri_error_kind peri_error_get_kind(const peri_error* error) {
  return error ? peri::api::kind_of(error->error.kind) : PERI_ERROR_INTERNAL;
}

const char* peri_error_get(const peri_error* error, peri_error_part part) {
  if (!error) return "";
  const peri::Error& e = error->error;
  switch (part) {
    case PERI_ERROR_TEXT: return error->text.c_str();
    case PERI_ERROR_MESSAGE: return e.message.c_str();
    case PERI_ERROR_FILE: return e.file.c_str();
    case PERI_ERROR_NODE: return e.node.c_str();
    case PERI_ERROR_EXPECTED: return e.expected.c_str();
    case PERI_ERROR_FOUND: return e.found.c_str();
    case PERI_ERROR_REMEDY: return error == peri::api::no_memory() ? peri::kMemoryRemedy : e.remedy.c_str();
  }
  return "";
}

void peri_error_free(peri_error* error) {
  if (error != peri::api::no_memory()) std::unique_ptr<peri_error>{error}.reset();
}

}  // extern "C"
