// Wire: one connection of the load client, for any protocol: the bytes of the next request, and when its response is
// complete. A protocol is a file with a factory for these.
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
  // Bytes to send that belong to no request or to the rest of one, valid until the next call; none: nothing to say now.
  virtual std::string_view more() { return {}; }
  // The server has closed.
  virtual Heard closed() { return Heard::kBad; }
  // "": the request succeeded. Else the class of its failure: "status 503", "RESOURCE_EXHAUSTED".
  virtual std::string failure() const = 0;
  // What kBad was.
  virtual std::string trouble() const { return "no answer of this protocol; is it the port of another one?"; }
  virtual bool keep_open() const = 0;
};
using WireMaker = std::function<std::unique_ptr<Wire>()>;

// The same in a TLS session, whose server must be the endpoint's host and speak `protocol`. REQUIRES: the endpoint has
// what it trusts.
std::unique_ptr<Wire> over_tls(std::unique_ptr<Wire> inner, const Endpoint& where, std::string_view protocol);
// One request and its answer on a connection of its own, and waiting. Errors: kIo, after `timeout_ms` too; kCancelled
// where a signal comes and `stop` says so.
Status talk_once(const Endpoint& where, Wire& wire, int64_t timeout_ms, const std::function<bool()>& stop = nullptr);

// What to ask for.
struct LoadSubject {
  Endpoint endpoint;
  std::string model, version;                          // version "": the latest
  int64_t batch = 1;                                   // the first axis, where it is open
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs with open dims
  bool zeros = false;                                  // inputs of zeros in place of seeded numbers
  uint64_t seed = 1;
};
// Asks the server what the model takes, and makes requests of it in KServe v2, tensors in binary, seeded; over TLS
// where the endpoint does. Errors: kIo; kInvalid where the server or the model refuses; kUsage for dims that are open
// and not given.
Result<WireMaker> http_wire(const LoadSubject& subject);
Result<WireMaker> grpc_wire(const LoadSubject& subject);
// The parts of them, for tests: the request of a model whose metadata is `json`, and what it carries.
Result<std::string> http_request(const LoadSubject& subject, std::string_view json);
struct LoadTensor {
  std::string name, type;
  std::vector<int64_t> dims;
  std::string bytes;
};
Result<std::vector<LoadTensor>> tensors_of(const LoadSubject& subject, std::string_view json);

}  // namespace peri::serve
