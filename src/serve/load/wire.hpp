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
  // How the answer of a request that succeeded differs from the one that is wanted; "": it does not, or none is.
  virtual std::string wrong() const { return ""; }
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
  int64_t length = 0;      // requests of each, about; 0: if the model takes sequences, as many as the file gives of
                           // each, or kDefaultLength without a file; else none
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
  std::string data_path;  // of perf_analyzer's inputs: JSON, or a folder of files; "": seeded, or zeros
  SequenceTerms sequence;
  bool in_sequences = false;  // each row of a request is of the same step; set by the wires
  uint64_t seed = 1;
};
struct LoadFacts {
  int64_t rows = 1;      // of a request
  bool checked = false;  // answers are compared with wanted ones
  bool steps = false;    // of lists in the file, sent request by request
  int64_t sequence = 0;  // length of the sequences that the requests are of, about; 0: of none
  bool listed = false;   // those of a file, each from its start to its end
};
// Reads the model's metadata from the server and makes KServe v2 requests with binary tensors, seeded or of files,
// which take turns; over TLS if the endpoint uses it. Errors: kIo; kInvalid: the server or model refuses, a file that
// is not as expected; kUsage: free dims without a value, a batch or shape that the metadata contradicts.
Result<WireMaker> http_wire(const LoadSubject& subject, LoadFacts* facts = nullptr);
Result<WireMaker> grpc_wire(const LoadSubject& subject, LoadFacts* facts = nullptr);
// For tests: the requests for a model with the metadata `json`, and the tensors of each; at least one.
struct LoadTensor {
  std::string name, type;
  std::vector<int64_t> dims;
  std::string bytes;
  bool batched = false;  // its first axis is free
};
struct LoadRequest {
  std::vector<LoadTensor> inputs;
  std::vector<LoadTensor> wanted = {};  // outputs of the answer, in any order; "dims" are not compared
  bool step = false;                    // of a list in the file
  bool first = true;                    // of a sequence
};
Result<std::vector<LoadRequest>> requests_of(const LoadSubject& subject, std::string_view json);
struct HttpRequestText {
  std::string text;
  std::vector<LoadTensor> wanted = {};
};
Result<std::vector<HttpRequestText>> http_requests(const LoadSubject& subject, std::string_view json,
                                                   LoadFacts* facts = nullptr);
// Rows: the first axis of the first tensor that has a free one, else 1.
LoadFacts facts_of(const std::vector<LoadRequest>& requests);

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
