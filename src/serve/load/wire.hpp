// Wire: one connection of the load client, for any protocol: the bytes of the next request, and the detection of a
// complete response. A protocol is a file with a factory.
#pragma once

#include <cstdint>
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
  static constexpr size_t kMaxSaid = 500;

  virtual ~Wire() = default;
  // A new connection begins.
  virtual void begin() = 0;
  // The next request's bytes, valid until the next call. REQUIRES: the last request is answered.
  virtual std::string_view ask() = 0;
  // Processes received bytes. After kAnswer, failure() and keep_open() describe the answer.
  virtual Heard hear(std::string_view bytes) = 0;
  // Bytes to send besides ask(), such as control frames or the rest of a request; valid until the next call; empty:
  // none now.
  virtual std::string_view more() { return {}; }
  // The server has closed the connection.
  virtual Heard closed() { return Heard::kBad; }
  // "": the request succeeded. Otherwise the class of its failure: "status 503", "RESOURCE_EXHAUSTED".
  virtual std::string failure() const = 0;
  // The server's own words on a failure, at most kMaxSaid bytes; "": none.
  virtual std::string said() const { return ""; }
  // The cause of kBad, for messages.
  virtual std::string trouble() const { return "no answer of this protocol; is it the port of another one?"; }
  virtual bool keep_open() const = 0;
  // Whether a sequence of requests has begun on it, goes on, and every request of it is answered.
  virtual bool in_sequence() const { return false; }
  // The next request is the last of its sequence.
  virtual void end_sequence() {}
};
using WireMaker = std::function<std::unique_ptr<Wire>()>;

// Wraps a wire in a TLS session; the server must be the endpoint's host and support `protocol`. REQUIRES: endpoint.tls
// is set.
std::unique_ptr<Wire> over_tls(std::unique_ptr<Wire> inner, const Endpoint& where, std::string_view protocol);
// One request and its answer on its own connection; blocks. Errors: kIo, also after `timeout_ms`; kCancelled: a signal
// arrived and `stop` returned true.
Status talk_once(const Endpoint& where, Wire& wire, int64_t timeout_ms, const std::function<bool()>& stop = nullptr);

// Sequences of a stateful model.
struct SequenceTerms {
  int64_t length = 0;      // requests of each, about; 0: kDefaultLength if the model takes sequences, else none
  double variation = 0.2;  // of the lengths: the share that each may differ
  uint64_t first_id = 1, last_id = UINT32_MAX;  // correlation ids, in turn
  uint64_t seed = 1;                            // of the lengths
  static constexpr int64_t kDefaultLength = 20;
};

// The model and the inputs of the requests.
struct LoadSubject {
  Endpoint endpoint;
  std::string model, version;                          // version "": the latest
  int64_t batch = 1;                                   // size of the first axis, if it is free
  bool batch_given = false;                            // it is not a default: shapes that contradict it are refused
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs with free dims
  bool zeros = false;                                  // inputs are zeros instead of seeded random numbers
  std::string data_file;                               // perf_analyzer's JSON of inputs; "": seeded, or zeros
  SequenceTerms sequence;
  uint64_t seed = 1;
};
// Reads the model's metadata from the server and makes KServe v2 requests with binary tensors, seeded or of a file,
// which take turns; over TLS if the endpoint uses it. `rows` receives the rows of a request, `sequence` the length of
// the sequences that the requests are of, 0: of none. Errors: kIo; kInvalid: the server or model refuses, a file that
// is not as expected; kUsage: free dims without a value, a batch or shape that the metadata contradicts.
Result<WireMaker> http_wire(const LoadSubject& subject, int64_t* rows = nullptr, int64_t* sequence = nullptr);
Result<WireMaker> grpc_wire(const LoadSubject& subject, int64_t* rows = nullptr, int64_t* sequence = nullptr);
// For tests: the requests for a model with the metadata `json`, and the tensors of each; at least one.
struct LoadTensor {
  std::string name, type;
  std::vector<int64_t> dims;
  std::string bytes;
  bool batched = false;  // its first axis is free
};
Result<std::vector<std::vector<LoadTensor>>> tensors_of(const LoadSubject& subject, std::string_view json);
Result<std::vector<std::string>> http_requests(const LoadSubject& subject, std::string_view json,
                                               int64_t* rows = nullptr);
// The rows of a request: the first axis of the first tensor that has a free one, else 1.
int64_t rows_of(const std::vector<LoadTensor>& tensors);

// Requests of all connections of a run, which take turns. Used by one thread.
template <class T>
class Turning {
 public:
  explicit Turning(std::vector<T> list) : list_(std::move(list)) {}
  const T& next() {
    const T& out = list_[at_];
    at_ = (at_ + 1) % list_.size();
    return out;
  }

 private:
  const std::vector<T> list_;
  size_t at_ = 0;
};

}  // namespace peri::serve
