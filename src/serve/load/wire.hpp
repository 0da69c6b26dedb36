// Wire: what one connection of the load tool says and hears, whatever the protocol: bytes of the next request, and when
// its answer is whole. A protocol is a file with a maker of these.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "serve/load/endpoint.hpp"

namespace peri::serve {

class Wire {
 public:
  enum class Heard : uint8_t { kMore, kAnswer, kBad };

  virtual ~Wire() = default;
  // Of a new connection.
  virtual void begin() = 0;
  // The next request's bytes, valid until the next call. REQUIRES: the last one is answered.
  virtual std::string_view ask() = 0;
  // Bytes that came. After kAnswer: failure() and keep_open() say what it was.
  virtual Heard hear(std::string_view bytes) = 0;
  // "": the request succeeded. Else the class of its failure: "503", "RESOURCE_EXHAUSTED".
  virtual std::string failure() const = 0;
  virtual bool keep_open() const = 0;
};
using WireMaker = std::function<std::unique_ptr<Wire>()>;

// What to ask for.
struct LoadSubject {
  Endpoint endpoint;
  std::string model, version;                          // version "": the latest
  int64_t batch = 1;                                   // the first axis, where it is open
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs with open dims
  bool zeros = false;                                  // inputs of zeros in place of seeded numbers
  uint64_t seed = 1;
};
// Asks the server what the model takes, and makes requests of it in KServe v2 over HTTP, tensors in binary, seeded.
// Errors: kIo; kInvalid where the server or the model refuses; kUsage for dims that are open and not given.
Result<WireMaker> http_wire(const LoadSubject& subject);
// The parts of it, for tests: the request of a model whose metadata is `json`.
Result<std::string> http_request(const LoadSubject& subject, std::string_view json);

}  // namespace peri::serve
